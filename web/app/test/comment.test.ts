// Tests comments on cells: in the file, and in the document that several people edit.
import { describe, expect, it } from 'vitest'
import * as Y from 'yjs'
import { CellModel } from '../src/notebook/cell'
import { isResolved, maxText, readComments, type Comment } from '../src/notebook/comment'
import { SharedDocument, sumOfAll, type SharedCell } from '../src/notebook/shared/document'

const comment = (id: string, at: number, more: Partial<Comment> = {}): Comment => ({ id, by: 'Ada', at, text: `text of ${id}`, ...more })

describe('comments in the file', () => {
  it('are read in their order, and written back', () => {
    const c = new CellModel({ metadata: { tags: ['x'], sandgate: { comments: [comment('b', 2), comment('a', 1)] } } }, 'python')
    expect(c.comments.value.map((x) => x.id)).toEqual(['a', 'b'])
    expect(c.toJSON('python').metadata).toEqual({ tags: ['x'], sandgate: { comments: [comment('a', 1), comment('b', 2)] } })
    c.comments.value = []
    expect(c.toJSON('python').metadata).toEqual({ tags: ['x'] })
  })
  it('are left out if they are none', () => {
    for (const v of [undefined, 'x', {}, [null, 1, 'a', {}, { id: 1, text: 'x' }, { id: 'x' }]]) expect(readComments(v)).toEqual([])
    expect(readComments([{ id: 'x', text: 'y'.repeat(maxText + 1), by: 7, at: 'now', resolved: 'yes' }, { id: 'x', text: 'again' }]))
      .toEqual([{ id: 'x', by: '', at: 0, text: 'y'.repeat(maxText) }])
    expect(readComments(Array.from({ length: 500 }, (_, i) => comment(`c${i}`, i))).length).toBe(200)
  })
  it('are resolved when the last one is', () => {
    expect([[], [comment('a', 1)], [comment('a', 1, { resolved: true })], [comment('a', 1, { resolved: true }), comment('b', 2)]].map(isResolved)).toEqual([false, false, true, false])
  })
})

describe('comments in the document', () => {
  const cell = (id: string, comments?: Comment[]): SharedCell => ({ id, type: 'code', language: 'python', source: id, ...(comments ? { comments } : {}) })
  const begun = (...cells: SharedCell[]) => {
    const d = new SharedDocument()
    d.begin(cells, 'v1')
    return d
  }
  const exchange = (a: SharedDocument, b: SharedDocument) => {
    Y.applyUpdate(b.doc, Y.encodeStateAsUpdate(a.doc))
    Y.applyUpdate(a.doc, Y.encodeStateAsUpdate(b.doc))
  }
  const ids = (d: SharedDocument, cell = 'c') => d.comments(cell).map((x) => x.id)

  it('of two people at the same time are all there, and in one order', () => {
    const a = begun(cell('c', [comment('old', 1)]))
    const b = new SharedDocument()
    exchange(a, b)
    const seen: string[][] = []
    b.onFacts((changed) => seen.push(changed))
    a.setComments('c', [comment('old', 1), comment('one', 5)])
    b.setComments('c', [comment('old', 1), comment('two', 5)])
    exchange(a, b)
    expect(ids(a)).toEqual(['old', 'one', 'two'])
    expect(b.cells).toEqual(a.cells)
    expect(seen).toContainEqual(['c'])
    // One deletes a comment while the other resolves all.
    a.setComments('c', a.comments('c').filter((x) => x.id !== 'old'))
    b.setComments('c', b.comments('c').map((x) => ({ ...x, resolved: true })))
    exchange(a, b)
    expect(b.cells).toEqual(a.cells)
    expect(isResolved(a.comments('c'))).toBe(true)
  })
  it('make the document differ from the file until they are saved', () => {
    const d = begun(cell('c'))
    const before = sumOfAll(d.sums)
    d.setComments('c', [comment('a', 1)])
    expect(sumOfAll(d.sums)).not.toBe(before)
    d.setComments('c', [])
    expect(sumOfAll(d.sums)).toBe(before)
  })
  it('stay when a program writes the file, and do not come back when they were deleted', () => {
    const d = begun(cell('c', [comment('kept', 1), comment('gone', 2)]), cell('other'))
    const base = d.sums
    d.setComments('c', [comment('kept', 1)])
    d.merge([{ ...cell('c', [comment('kept', 1), comment('gone', 2), comment('theirs', 3)]), source: 'written' }, cell('other', [comment('first', 4)])], base)
    expect([ids(d), ids(d, 'other'), d.text('c').toString()]).toEqual([['kept', 'theirs'], ['first'], 'written'])
    d.merge([{ ...cell('c'), source: 'written' }, cell('other')], d.sums) // a program that drops the metadata
    expect([ids(d), ids(d, 'other')]).toEqual([['kept', 'theirs'], ['first']])
    expect(d.cells.length).toBe(2)
  })
})
