import type { CellJSON } from '../ipynb'
import { compareLines, type Line } from './lines'

/** A cell of two versions. */
export interface CellChange {
  kind: 'same' | 'changed' | 'added' | 'removed'
  /** Its place in the newer version, or in the older one if it was removed; from 1. */
  number: number
  moved: boolean
  /** Its kind and language in the older and the newer version, such as Python or Text. */
  label: string
  labelBefore: string
  /** The source, if it differs. */
  lines: Line[]
  outputs: boolean
}

/**
 * Compares two versions of a notebook cell by cell. label names the kind and the language of a cell.
 */
export function compareCells(before: CellJSON[], after: CellJSON[], label: (c: CellJSON) => string): CellChange[] {
  const pairs = pair(before, after)
  const stay = inOrder(pairs)
  const kept = new Set(pairs.filter((i) => i >= 0))
  const out: CellChange[] = []
  let next = 0
  const removedUntil = (end: number) => {
    for (; next < end; next++) {
      const c = before[next]!
      if (!kept.has(next)) out.push({ kind: 'removed', number: next + 1, moved: false, label: label(c), labelBefore: label(c), lines: whole('removed', c), outputs: false })
    }
  }
  after.forEach((c, i) => {
    const from = pairs[i]!
    if (stay.has(i)) removedUntil(from)
    const old = before[from]
    if (!old) {
      out.push({ kind: 'added', number: i + 1, moved: false, label: label(c), labelBefore: label(c), lines: whole('added', c), outputs: false })
      return
    }
    const moved = !stay.has(i)
    const outputs = shown(old) !== shown(c)
    const source = old.source !== c.source
    const relabelled = label(old) !== label(c)
    out.push({
      kind: source || outputs || moved || relabelled ? 'changed' : 'same', number: i + 1, moved, label: label(c), labelBefore: label(old),
      lines: source ? compareLines(old.source, c.source) : [], outputs,
    })
  })
  removedUntil(before.length)
  return out
}

const whole = (kind: 'added' | 'removed', c: CellJSON): Line[] => c.source.split('\n').map((text) => ({ kind, text }))

/** Numbers of executions and of results change with each run. */
function shown(c: CellJSON): string {
  return JSON.stringify(c.outputs.map((o) => ('execution_count' in o ? { ...o, execution_count: null } : o)))
}

/** Returns the index of each newer cell's older one, or -1: by its id, or by its source. */
function pair(before: CellJSON[], after: CellJSON[]): number[] {
  const byID = new Map(before.map((c, i) => [c.id, i]))
  const pairs = after.map((c) => byID.get(c.id) ?? -1)
  const free = new Set(before.keys())
  for (const i of pairs) free.delete(i)
  after.forEach((c, i) => {
    if (pairs[i]! >= 0) return
    for (const j of free) {
      if (before[j]!.source !== c.source || before[j]!.cell_type !== c.cell_type) continue
      pairs[i] = j
      free.delete(j)
      return
    }
  })
  return pairs
}

/** Returns the newer cells that have kept their order: the longest increasing subsequence. */
function inOrder(pairs: number[]): Set<number> {
  const ends: number[] = [] // ends[k]: the cell that ends the best sequence of k + 1 cells
  const previous = new Map<number, number | undefined>()
  pairs.forEach((from, i) => {
    if (from < 0) return
    let k = ends.findIndex((e) => pairs[e]! >= from)
    if (k < 0) k = ends.length
    previous.set(i, ends[k - 1])
    ends[k] = i
  })
  const out = new Set<number>()
  for (let i = ends.at(-1); i !== undefined; i = previous.get(i)) out.add(i)
  return out
}
