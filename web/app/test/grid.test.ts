import { describe, expect, it } from 'vitest'
import { LocalSource, compare, describe as statistics, passes } from '../src/notebook/grid/local'
import { recordsTable, resourceTable } from '../src/notebook/grid/records'
import { textOf } from '../src/notebook/grid/rows'
import { Gone, KernelSource, tableForm, type Column } from '../src/notebook/grid/source'

const columns: Column[] = [{ name: '', type: 'index' }, { name: 'n', type: 'integer' }, { name: 's', type: 'text' }]
const table = () => new LocalSource(columns, [[0, 2, 'b'], [1, null, 'a,"c"'], [2, 1, 'B']])

describe('a table in the page', () => {
  it('is sorted with missing values last, and filtered', async () => {
    const rows = async (view: Parameters<LocalSource['page']>[0]) => (await table().page(view, 0, 10)).rows.map((r) => r[0])
    expect(await rows({ filters: [], sort: { column: 1, descending: false } })).toEqual([2, 0, 1])
    expect(await rows({ filters: [], sort: { column: 1, descending: true } })).toEqual([0, 2, 1])
    expect(await rows({ filters: [{ column: 2, is: 'contains', value: 'b' }] })).toEqual([0, 2])
    expect(await rows({ filters: [{ column: 1, is: 'missing' }] })).toEqual([1])
    expect((await table().page({ filters: [{ column: 1, is: '≥', value: '2' }] }, 0, 10)).total).toBe(1)
    expect(compare('x', 3)).toBe(1)
    expect(passes(true, { column: 0, is: '=', value: 'true' })).toBe(true)
    expect(passes(10, { column: 0, is: '<', value: '9' })).toBe(false)
  })

  it('is described', () => {
    const found = statistics([1, 2, 3, 4, null])
    expect(found).toMatchObject({ count: 5, missing: 1, distinct: 4, min: 1, q1: 1.75, median: 2.5, q3: 3.25, max: 4, mean: 2.5 })
    expect(found.std).toBeCloseTo(1.29099, 4)
    expect(found.histogram!.counts.reduce((a, b) => a + b)).toBe(4)
    expect(statistics([5, 5]).histogram!.counts.reduce((a, b) => a + b)).toBe(2)
    expect(statistics(['x', 'y', 'x', null]).top).toEqual([['x', 2], ['y', 1]])
    expect(statistics([])).toMatchObject({ count: 0, distinct: 0 })
  })

  it('becomes CSV without the numbers of its rows', async () => {
    expect((await table().part({ filters: [] }, 'csv', 0)).data).toBe('n,s\n2,b\n,"a,""c"""\n1,B\n')
  })
})

describe('data that is a table', () => {
  it('has records with simple values', () => {
    const t = recordsTable([{ a: 1, b: 'x' }, { a: 2.5, c: true }])!
    expect(t.columns.map((c) => [c.name, c.type])).toEqual([['', 'index'], ['a', 'number'], ['b', 'text'], ['c', 'boolean']])
    expect(t.rows).toBe(2)
    for (const none of [[], [1], [{ a: [1] }], [null], { a: 1 }, [{}]]) expect(recordsTable(none), JSON.stringify(none)).toBeUndefined()
  })

  it('is the rows of a query', () => {
    expect(resourceTable({ schema: { fields: [{ name: 'n', type: 'integer' }] }, data: [{ n: 1 }] })!.columns[1]).toEqual({ name: 'n', type: 'integer' })
    expect(resourceTable({ data: [] })).toBeUndefined()
  })
})

describe('a table of a kernel', () => {
  const form = { id: 'x', rows: 1000, columns, first: [[0, 1, 'a'], [1, 2, 'b']] }
  it('asks for the rows that did not come with the output', async () => {
    const asked: unknown[] = []
    const source = new KernelSource(tableForm(form)!, async (about) => {
      asked.push(about)
      return { total: 7, rows: [[5, 5, 'z']] }
    })
    expect((await source.page({ filters: [] }, 0, 2)).rows).toEqual(form.first)
    expect(asked).toEqual([])
    expect(await source.page({ filters: [], sort: { column: 1, descending: true } }, 0, 2)).toEqual({ total: 7, rows: [[5, 5, 'z']] })
    expect(asked).toEqual([{ kind: 'rows', id: 'x', sort: { column: 1, descending: true }, from: 0, count: 2, columns: [0, 3] }])
    await expect(new KernelSource(form as never, async () => undefined).page({ filters: [] }, 5, 2)).rejects.toBeInstanceOf(Gone)
  })

  it('has a form that can be trusted', () => {
    for (const bad of [null, {}, { ...form, rows: -1 }, { ...form, columns: [{ name: 1, type: 'text' }] }, { ...form, columns: [] }, { ...form, first: [[1]] }]) {
      expect(tableForm(bad), JSON.stringify(bad)).toBeUndefined()
    }
  })
})

it('shows numbers with six digits behind the point', () => {
  expect([1, 0.1 + 0.2, 1e-9, 123456789.123, 1.5e12, null, 'a\nb'].map(textOf)).toEqual(['1', '0.3', '1.00000e-9', '123456789.123', '1500000000000', 'null', 'a b'])
})
