import { LocalSource } from './local'
import type { Column, Field } from './source'

const maxRows = 100_000
const maxColumns = 200

const plain = (v: unknown): v is Field => v === null || ['string', 'number', 'boolean'].includes(typeof v)
const record = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null && !Array.isArray(v)

/** Returns the table of a list of objects with simple values, or undefined. */
export function recordsTable(value: unknown): LocalSource | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > maxRows) return undefined
  if (!value.every((v) => record(v) && Object.values(v).every(plain))) return undefined
  const names = [...new Set(value.flatMap((v: object) => Object.keys(v)))]
  return names.length > 0 && names.length <= maxColumns ? tableOf(names, value as Record<string, Field>[]) : undefined
}

/** Returns the table of a data resource: the rows of a query. */
export function resourceTable(value: unknown): LocalSource | undefined {
  if (!record(value) || !record(value.schema) || !Array.isArray(value.schema.fields) || !Array.isArray(value.data)) return undefined
  const names = value.schema.fields.map((f: unknown) => (record(f) && typeof f.name === 'string' ? f.name : ''))
  const rows = value.data
  if (names.length === 0 || names.length > maxColumns || rows.length > maxRows || !rows.every((r) => record(r) && Object.values(r).every(plain))) return undefined
  return tableOf(names, rows as Record<string, Field>[])
}

function tableOf(names: string[], rows: Record<string, Field>[]): LocalSource {
  const columns: Column[] = [{ name: '', type: 'index' }, ...names.map((name) => ({ name, type: typeOf(rows.map((r) => r[name] ?? null)) }))]
  return new LocalSource(columns, rows.map((r, i) => [i, ...names.map((n) => r[n] ?? null)]))
}

function typeOf(values: Field[]): Column['type'] {
  const kinds = new Set(values.filter((v) => v !== null).map((v) => typeof v))
  if (kinds.size !== 1) return 'text'
  if (kinds.has('boolean')) return 'boolean'
  if (!kinds.has('number')) return 'text'
  return values.every((v) => v === null || Number.isInteger(v)) ? 'integer' : 'number'
}
