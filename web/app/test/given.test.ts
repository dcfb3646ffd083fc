import { expect, it } from 'vitest'
import { asNotebook, parseGiven } from '../src/given'

it('reads code from a link and passes over what is none', () => {
  expect(parseGiven('#new=python&code=print%281%29%0A')).toEqual({ language: 'python', code: 'print(1)\n' })
  for (const hash of ['', '#token=x', '#new=python', '#code=1', '#new=../x&code=1', `#new=go&code=${'x'.repeat(100_001)}`]) expect(parseGiven(hash)).toBeUndefined()
  expect(JSON.parse(asNotebook('a'))).toMatchObject({ nbformat: 4, cells: [{ source: 'a', outputs: [] }] })
})
