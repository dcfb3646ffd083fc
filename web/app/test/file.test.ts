import { describe, expect, it } from 'vitest'
import { questionFor } from '../src/files/chosen'
import { isNumeric, parseTable, sorted } from '../src/notebook/file/csv'
import { kindOf, languageOfFile, textIn } from '../src/notebook/file/kinds'

describe('tables of files', () => {
  it('reads quotes, lines in values, both line ends and empty values', () => {
    expect(parseTable('a,b\r\n"x, y","say ""hi""\nthere"\n,\n', ',', 9)).toEqual({ head: ['a', 'b'], rows: [['x, y', 'say "hi"\nthere'], ['', '']], more: false })
    expect(parseTable('\ufeffa\tb\n1\t2', '\t', 9)).toEqual({ head: ['a', 'b'], rows: [['1', '2']], more: false })
    expect(parseTable('', ',', 9)).toEqual({ head: [], rows: [], more: false })
    expect(parseTable('"open', ',', 9).head).toEqual(['open'])
    expect(parseTable('a\n1\n2\n3\n4', ',', 2)).toMatchObject({ rows: [['1'], ['2']], more: true })
  })

  it('sorts numbers as numbers, and empty values last', () => {
    const rows = [['10', 'b'], ['9', 'a'], ['', 'c']]
    expect(isNumeric(rows, 0)).toBe(true)
    expect(isNumeric(rows, 1)).toBe(false)
    expect(sorted(rows, 0, false).map((r) => r[0])).toEqual(['9', '10', ''])
    expect(sorted(rows, 0, true).map((r) => r[0])).toEqual(['10', '9', ''])
    expect(sorted(rows, 1, true).map((r) => r[1])).toEqual(['c', 'b', 'a'])
  })
})

it('knows files by their names, and text by its bytes', () => {
  expect(['a.PNG', 'b.csv', 'c.md', 'd.mp4', 'e.wav', 'f.py', 'Makefile'].map(kindOf)).toEqual(['image', 'table', 'markdown', 'video', 'audio', 'other', 'other'])
  expect(['x.py', 'x.tsx', 'x.unknown', 'x'].map(languageOfFile)).toEqual(['python', 'javascript', '', ''])
  expect(textIn(new TextEncoder().encode('größe'))).toBe('größe')
  expect(textIn(new Uint8Array([0x89, 0x50, 0, 1]))).toBeUndefined()
  expect(textIn(new Uint8Array([0xff, 0xfe]))).toBeUndefined()
})

describe('an upload', () => {
  const file = (name: string) => ({ name, file: new File([], name.split('/').pop()!) })
  it('asks before files are replaced, and before files are added to a folder', () => {
    const taken = new Set(['a.txt', 'data'])
    expect(questionFor([file('b.txt'), file('new/a.txt')], taken)).toBeUndefined()
    expect(questionFor([file('a.txt')], taken)?.title).toBe('Replace a.txt?')
    expect(questionFor([file('data/x'), file('data/y')], taken)).toMatchObject({ title: 'Add to the folder data?', yes: 'Add' })
    expect(questionFor([file('data/x'), file('a.txt')], taken)?.yes).toBe('Replace')
  })
})
