import { describe, expect, it } from 'vitest'
import type { CellJSON } from '../src/notebook/ipynb'
import { compareCells } from '../src/notebook/versions/compare'
import { compareLines } from '../src/notebook/versions/lines'

const cell = (id: string, source: string, more: Partial<CellJSON> = {}): CellJSON => ({ id, source, cell_type: 'code', metadata: {}, execution_count: null, outputs: [], ...more })
const kinds = (before: CellJSON[], after: CellJSON[]) => compareCells(before, after, (c) => c.cell_type).map((c) => `${c.kind}${c.moved ? ' moved' : ''}${c.outputs ? ' outputs' : ''} ${c.number}`)
const shown = (before: string, after: string) => compareLines(before, after).map((l) => l.kind === 'gap' ? `… ${l.count}` : `${{ same: ' ', added: '+', removed: '-' }[l.kind]}${l.text}`)

describe('lines', () => {
  it('shows what was added, removed and replaced, with what differs in the line', () => {
    expect(shown('a\nb\nc', 'a\nx\nc\nd')).toEqual([' a', '-b', '+x', ' c', '+d'])
    expect(compareLines('total = price * 2', 'total = price * 3').map((l) => l.kind !== 'gap' && l.mark)).toEqual([[16, 17], [16, 17]])
    expect(compareLines('abc', 'xyz').map((l) => l.kind !== 'gap' && l.mark)).toEqual([undefined, undefined])
    expect(shown('same', 'same')).toEqual(['… 1'])
  })

  it('leaves out long equal runs, and says how long they are', () => {
    const lines = Array.from({ length: 40 }, (_, i) => `line ${i}`)
    expect(shown(lines.join('\n'), lines.with(20, 'other').join('\n'))).toEqual(['… 17', ' line 17', ' line 18', ' line 19', '-line 20', '+other', ' line 21', ' line 22', ' line 23', '… 16'])
  })

  it('bounds the work for texts of thousands of lines that have nothing in common', () => {
    const text = (word: string) => Array.from({ length: 20_000 }, (_, i) => `${word} ${i}`).join('\n')
    const lines = compareLines(text('a'), text('b'))
    expect(lines).toHaveLength(40_000)
    expect(lines[0]!.kind).toBe('removed')
    expect(lines.at(-1)!.kind).toBe('added')
  })

  it('yields the newer text from the older one', () => {
    let seed = 7
    const random = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n
    for (let round = 0; round < 200; round++) {
      const text = () => Array.from({ length: random(9) }, () => 'abc'[random(3)]!).join('\n')
      const [before, after] = [text(), text()]
      const lines = compareLines(before, after)
      if (lines.some((l) => l.kind === 'gap')) continue
      const of = (kind: string) => lines.flatMap((l) => (l.kind !== 'gap' && (l.kind === 'same' || l.kind === kind) ? [l.text] : [])).join('\n')
      expect([of('removed'), of('added')]).toEqual([before, after])
    }
  })
})

describe('cells', () => {
  it('finds cells that were changed, added, removed and moved', () => {
    const before = [cell('a', '1'), cell('b', '2'), cell('c', '3'), cell('d', '4')]
    expect(kinds(before, before)).toEqual(['same 1', 'same 2', 'same 3', 'same 4'])
    expect(kinds(before, [cell('a', '1'), cell('c', '30'), cell('x', '5'), cell('d', '4')])).toEqual(['same 1', 'removed 2', 'changed 2', 'added 3', 'same 4'])
    expect(kinds(before, [cell('d', '4'), cell('a', '1'), cell('b', '2'), cell('c', '3')])).toEqual(['changed moved 1', 'same 2', 'same 3', 'same 4'])
    expect(kinds(before, [])).toEqual(['removed 1', 'removed 2', 'removed 3', 'removed 4'])
    expect(kinds([], [cell('a', '1')])).toEqual(['added 1'])
  })

  it('finds cells whose ids another program has replaced', () => {
    expect(kinds([cell('a', '1'), cell('b', '2')], [cell('p', '1'), cell('q', '2 * 2')])).toEqual(['same 1', 'added 2', 'removed 2'])
  })

  it('reports a new kind and new outputs, but not the number of a run', () => {
    const result = (text: string, n: number): Partial<CellJSON> => ({ execution_count: n, outputs: [{ output_type: 'execute_result', data: { 'text/plain': text }, metadata: {}, execution_count: n }] })
    expect(kinds([cell('a', 'x', result('1', 1))], [cell('a', 'x', result('1', 7))])).toEqual(['same 1'])
    expect(kinds([cell('a', 'x', result('1', 1))], [cell('a', 'x', result('2', 1))])).toEqual(['changed outputs 1'])
    const [c] = compareCells([cell('a', 'x')], [cell('a', 'x', { cell_type: 'markdown' })], (c) => c.cell_type)
    expect(c).toMatchObject({ kind: 'changed', label: 'markdown', labelBefore: 'code', lines: [] })
  })
})
