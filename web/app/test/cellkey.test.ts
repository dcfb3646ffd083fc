import { expect, it } from 'vitest'
import { shortHash, newKey, parseKey } from '../src/notebook/cellkey'

it('names the notebook and the cell in the key of an execution', () => {
  const tag = shortHash('notebook.ipynb')
  expect(tag).toMatch(/^\w{10}$/)
  expect(shortHash('notebook-2.ipynb')).not.toBe(tag)
  expect(shortHash('')).toMatch(/^\w{10}$/)
  const cell = 'c'.repeat(64)
  expect(parseKey(newKey(tag, cell))).toEqual({ file: tag, cell })
  expect(newKey(tag, cell)).not.toBe(newKey(tag, cell))
  expect(parseKey('nb.old-cell.x1')).toEqual({ file: '', cell: 'old-cell' })
  for (const other of ['', 'e2b-x', 'nb.', 'nb.a', 'nb.a.b.c.d']) expect(parseKey(other)).toBeUndefined()
})
