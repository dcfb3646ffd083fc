import { beforeEach, describe, expect, it } from 'vitest'
import { icon } from '../icons'
import { formatNotebook, parseNotebook, type CellJSON } from '../src/notebook/ipynb'
import { keepCopy } from '../src/notebook/keep'
import { keptNotebooks, KeptNotebook } from '../src/offline/kept'

beforeEach(() => localStorage.clear())

const cell = (id: string, source: string): CellJSON => ({ id, cell_type: 'code', source, metadata: { vscode: { languageId: 'shellscript' } }, execution_count: null, outputs: [{ output_type: 'stream', name: 'stdout', text: 'x' }] })
const save = (path: string, ...cells: CellJSON[]) => keepCopy('s_1', path, formatNotebook({ cells, metadata: {}, nbformat_minor: 5 }))
const draft = (path: string) => parseNotebook(localStorage.getItem(`sandgate.draft.s_1.${path}`)!)

describe('a notebook without the server', () => {
  it('is listed, and is the version on which its draft is based', () => {
    save('folder/a.b.ipynb', cell('one', 'echo 1'))
    expect(keptNotebooks()).toEqual([{ session: 's_1', path: 'folder/a.b.ipynb', changed: false }])
    const n = KeptNotebook.find('s_1', 'folder/a.b.ipynb')!
    n.cells[0]!.source = 'echo 2'
    n.add()
    expect(n.keep()).toBe(true)
    expect(keptNotebooks()).toMatchObject([{ changed: true }])
    const { cells, metadata } = draft('folder/a.b.ipynb')
    expect(cells).toMatchObject([{ id: 'one', source: 'echo 2', outputs: [], metadata: { vscode: { languageId: 'shellscript' } } }, { source: '' }])
    expect(metadata.sandgate).toMatchObject({ settled: false, base: [{ id: 'one', source: 'echo 1', outputs: [] }] })
  })

  it('keeps the marks of an older draft', () => {
    save('n.ipynb', cell('one', 'saved'))
    localStorage.setItem('sandgate.draft.s_1.n.ipynb', formatNotebook({ cells: [cell('one', 'typed')], metadata: { sandgate: { sums: { '.one': 'abc' }, document: 'd', settled: true } }, nbformat_minor: 5 }))
    const n = KeptNotebook.find('s_1', 'n.ipynb')!
    expect(n.cells[0]!.source).toBe('typed')
    n.keep()
    expect(draft('n.ipynb').metadata.sandgate).toEqual({ sums: { '.one': 'abc' }, document: 'd', settled: false })
  })

  it('is none if the browser has none', () => {
    expect(KeptNotebook.find('s_1', 'n.ipynb')).toBeUndefined()
    expect(keptNotebooks()).toEqual([])
  })
})

it('draws the icon', () => {
  const png = icon(64)
  expect(png.subarray(1, 4).toString()).toBe('PNG')
  expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([64, 64])
})
