// Tables that a grid shows: their rows, sorted and filtered, statistics of a column, files.
import { t } from '../../language/texts'

export type Field = string | number | boolean | null

export interface Column {
  name: string
  /** index is a label of the row and not a value. */
  type: 'index' | 'integer' | 'number' | 'boolean' | 'time' | 'text'
}

export const comparisons = ['contains', '=', '≠', '<', '≤', '>', '≥', 'missing', 'present'] as const
export type Comparison = (typeof comparisons)[number]

export interface Filter {
  column: number
  is: Comparison
  value?: string
}

/** The rows that are shown, and their order. */
export interface View {
  sort?: { column: number; descending: boolean } | undefined
  filters: Filter[]
}

export interface Page {
  /** The number of rows that pass the filters. */
  total: number
  rows: Field[][]
}

export interface Statistics {
  count: number
  missing: number
  distinct: number | null
  min?: number | string
  max?: number | string
  q1?: number
  median?: number
  q3?: number
  mean?: number
  std?: number
  histogram?: { counts: number[]; edges: number[] }
  top?: [value: string, count: number][]
}

export type Format = 'csv' | 'parquet'

export interface Part {
  data: BlobPart
  /** Where the next part begins; null after the last one. */
  next: number | null
  total: number
}

/** The content of a table. Requests to a kernel that has lost it throw Gone. */
export interface Source {
  readonly columns: Column[]
  readonly rows: number
  page(view: View, from: number, count: number): Promise<Page>
  statistics(view: View, column: number): Promise<Statistics>
  part(view: View, format: Format, from: number): Promise<Part>
}

/** The kernel does not hold the table any more. */
export class Gone extends Error {}

/** Asks the kernel about a table. The answer is undefined if there is none. */
export type Ask = (about: Record<string, unknown>) => Promise<unknown>

/** The form of a table in an output: its first rows, and the id by which the kernel knows it. */
export interface TableForm {
  id: string
  rows: number
  columns: Column[]
  first: Field[][]
  /** The kernel's language can write Parquet. */
  parquet?: boolean
  /** first has all rows with their whole values. */
  whole?: boolean
}

const size = (n: unknown): n is number => Number.isSafeInteger(n) && (n as number) >= 0
const types: ReadonlySet<unknown> = new Set(['index', 'integer', 'number', 'boolean', 'time', 'text'])

/** Returns the form of a table if the output has one: it comes from a program. */
export function tableForm(v: unknown): TableForm | undefined {
  const f = v as TableForm
  const good = typeof f === 'object' && f !== null && typeof f.id === 'string' && size(f.rows) && Array.isArray(f.columns) && f.columns.length > 0 &&
    f.columns.every((c) => typeof c === 'object' && c !== null && typeof c.name === 'string' && types.has(c.type)) &&
    Array.isArray(f.first) && f.first.every((r) => Array.isArray(r) && r.length === f.columns.length)
  return good ? f : undefined
}

/** A table that a kernel holds. */
export class KernelSource implements Source {
  readonly columns: Column[]
  readonly rows: number
  readonly #id: string
  readonly #first: Field[][]
  readonly #ask: Ask

  constructor(form: TableForm, ask: Ask) {
    this.#id = form.id
    this.#first = form.first
    this.columns = form.columns
    this.rows = form.rows
    this.#ask = ask
  }

  async #answer(kind: string, view: View, more: Record<string, unknown>): Promise<never> {
    const about = { kind, id: this.#id, ...(view.sort ? { sort: view.sort } : {}), ...(view.filters.length ? { filters: view.filters } : {}), ...more }
    const answer = await this.#ask(about)
    if (answer === undefined) throw new Gone(t('The kernel does not have this table any more'))
    return answer as never
  }

  async page(view: View, from: number, count: number): Promise<Page> {
    // The first rows came with the output. A single row is requested for its whole values.
    if (count > 1 && !view.sort && view.filters.length === 0 && from + count <= this.#first.length) return { total: this.rows, rows: this.#first.slice(from, from + count) }
    const most = 100 // columns of an answer
    const parts: Page[] = []
    for (let low = 0; low < this.columns.length; low += most) {
      parts.push(await this.#answer('rows', view, { from, count, columns: [low, Math.min(low + most, this.columns.length)] }))
    }
    return { total: parts[0]!.total, rows: parts[0]!.rows.map((r, i) => [...r, ...parts.slice(1).flatMap((p) => p.rows[i] ?? [])]) }
  }

  statistics(view: View, column: number): Promise<Statistics> {
    return this.#answer('statistics', view, { column })
  }

  async part(view: View, format: Format, from: number): Promise<Part> {
    const p: { text?: string; base64?: string; next: number | null; total: number } = await this.#answer('export', view, { format, from })
    const data = p.base64 === undefined ? p.text ?? '' : Uint8Array.from(atob(p.base64), (c) => c.charCodeAt(0))
    return { data, next: p.next, total: p.total }
  }
}
