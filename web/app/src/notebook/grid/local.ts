import type { Column, Field, Filter, Format, Page, Part, Source, Statistics, View } from './source'

/** The values that a statistic lists, and the bars of a histogram. */
const top = 10
const bins = 20

/** A table whose rows are all in the page. */
export class LocalSource implements Source {
  readonly columns: Column[]
  readonly #rows: Field[][]
  #last: { key: string; rows: Field[][] } | undefined

  constructor(columns: Column[], rows: Field[][]) {
    this.columns = columns
    this.#rows = rows
  }

  get rows(): number {
    return this.#rows.length
  }

  #ordered(view: View): Field[][] {
    const key = JSON.stringify([view.sort, view.filters])
    if (this.#last?.key === key) return this.#last.rows
    let rows = this.#rows.filter((r) => view.filters.every((f) => passes(r[f.column] ?? null, f)))
    const s = view.sort
    if (s) {
      rows = rows.toSorted((a, b) => {
        const [x, y] = [a[s.column] ?? null, b[s.column] ?? null]
        if (x === null || y === null) return Number(x === null) - Number(y === null)
        return s.descending ? compare(y, x) : compare(x, y)
      })
    }
    this.#last = { key, rows }
    return rows
  }

  async page(view: View, from: number, count: number): Promise<Page> {
    const rows = this.#ordered(view)
    return { total: rows.length, rows: rows.slice(from, from + count) }
  }

  async statistics(view: View, column: number): Promise<Statistics> {
    return describe(this.#ordered(view).map((r) => r[column] ?? null))
  }

  async part(view: View, _format: Format, _from: number): Promise<Part> {
    const rows = this.#ordered(view)
    const quoted = (v: Field) => {
      const text = v === null ? '' : String(v)
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
    }
    const kept = this.columns.flatMap((c, i) => (c.type === 'index' && c.name === '' && this.#counted(i) ? [] : [i]))
    const line = (fields: Field[]) => kept.map((i) => quoted(fields[i] ?? null)).join(',')
    return { data: [line(this.columns.map((c) => c.name)), ...rows.map(line), ''].join('\n'), next: null, total: rows.length }
  }

  /** Whether a column has only the numbers of the rows. */
  #counted(column: number): boolean {
    return this.#rows.every((r, i) => r[column] === i)
  }
}

/** Returns the order of two values. Numbers come before text. */
export function compare(a: Field, b: Field): number {
  if (typeof a === 'string' && typeof b === 'string') return a < b ? -1 : a > b ? 1 : 0
  if (typeof a === 'string' || typeof b === 'string') return typeof a === 'string' ? 1 : -1
  return Number(a) - Number(b)
}

export function passes(v: Field, f: Filter): boolean {
  if (f.is === 'missing' || f.is === 'present') return (v === null) === (f.is === 'missing')
  if (v === null) return false
  const value = f.value ?? ''
  if (f.is === 'contains') return String(v).toLowerCase().includes(value.toLowerCase())
  const by = typeof v === 'number' ? v - Number(value) : compare(String(v), value)
  switch (f.is) {
    case '=': return by === 0
    case '≠': return by !== 0
    case '<': return by < 0
    case '≤': return by <= 0
    case '>': return by > 0
    case '≥': return by >= 0
  }
}

/** Returns the statistics of a column's values. */
export function describe(values: Field[]): Statistics {
  const there = values.filter((v) => v !== null)
  const found: Statistics = { count: values.length, missing: values.length - there.length, distinct: new Set(there).size }
  if (there.length === 0) return found
  if (there.every((v) => typeof v === 'number')) return { ...found, ...ofNumbers(there as number[]) }
  const counts = new Map<string, number>()
  for (const v of there) counts.set(String(v), (counts.get(String(v)) ?? 0) + 1)
  return { ...found, top: [...counts].sort((a, b) => b[1] - a[1]).slice(0, top) }
}

function ofNumbers(values: number[]): Partial<Statistics> {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (q: number) => {
    const place = q * (sorted.length - 1)
    const low = Math.floor(place)
    return sorted[low]! + (place - low) * ((sorted[low + 1] ?? sorted[low]!) - sorted[low]!)
  }
  const [min, max] = [sorted[0]!, sorted.at(-1)!]
  const mean = values.reduce((a, b) => a + b, 0) / values.length
  const std = values.length > 1 ? Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / (values.length - 1)) : 0
  const [from, width] = min === max ? [min - 0.5, 1 / bins] : [min, (max - min) / bins]
  const counts = Array.from({ length: bins }, () => 0)
  for (const v of values) counts[Math.min(bins - 1, Math.floor((v - from) / width))]!++
  return { min, q1: at(0.25), median: at(0.5), q3: at(0.75), max, mean, std, histogram: { counts, edges: Array.from({ length: bins + 1 }, (_, i) => from + i * width) } }
}
