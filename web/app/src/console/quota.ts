import type { Quota, Tenant } from '@sandgate/client/base'
import { number, t } from '../language/texts'

/** A thing that a quota bounds: its field, its name, and the unit in which people write it. */
export interface Bound {
  field: keyof Quota & string
  name: () => string
  /** The size of the unit; 1 for numbers of things. */
  unit: number
  unitName: string
}

const MiB = 1 << 20

export const bounds: Bound[] = [
  { field: 'sessions', name: () => t('Sessions'), unit: 1, unitName: '' },
  { field: 'running', name: () => t('Running sessions'), unit: 1, unitName: '' },
  { field: 'cpus', name: () => t('Processors'), unit: 1, unitName: '' },
  { field: 'memory_bytes', name: () => t('Memory'), unit: MiB, unitName: 'MiB' },
  { field: 'disk_bytes', name: () => t('Disk'), unit: MiB, unitName: 'MiB' },
  { field: 'snapshots', name: () => t('Snapshots'), unit: 1, unitName: '' },
  { field: 'keep_alive', name: () => t('Sessions kept awake'), unit: 1, unitName: '' },
  { field: 'requests_per_second', name: () => t('Requests per second'), unit: 1, unitName: '' },
]

/** Writes a number of a bounded thing, such as 12 or 1,024 MiB. */
export function amount(b: Bound, n: number): string {
  const shown = number(n / b.unit, { maximumFractionDigits: b.unit > 1 ? 0 : 2 })
  return b.unitName ? `${shown} ${b.unitName}` : shown
}

/** Writes a bound for the field in which it is changed. */
export function written(b: Bound, n: number): string {
  return number(n / b.unit, { maximumFractionDigits: 20, useGrouping: false })
}

/** Reads a number that is written as in the language of the page, such as 1,024 in English. */
function readNumber(text: string): number {
  const point = number(1.5)[1]!
  const mark = point === ',' ? '.' : ','
  return Number(text.replaceAll(new RegExp(`\\${mark}(?=\\d{3}(?!\\d))`, 'g'), '').replace(point, '.'))
}

/** The part of a bound that is used, from 0 to 1; undefined without a bound or without a count. */
export function part(tenant: Tenant, b: Bound): number | undefined {
  const most = tenant.quota[b.field] ?? 0
  const used = (tenant.use as unknown as Record<string, number | undefined>)[b.field]
  return most > 0 && used !== undefined ? Math.min(1, used / most) : undefined
}

/**
 * Reads the fields of a form. An empty field sets no bound. The result names the first field that is
 * not a number of at least 0, or not whole although only whole things are counted.
 */
export function readQuota(fields: Record<string, string>): { quota?: Quota; wrong?: string } {
  const quota: Record<string, number> = {}
  for (const b of bounds) {
    const text = (fields[b.field] ?? '').trim()
    if (!text) continue
    const n = readNumber(text)
    const whole = b.field !== 'cpus' && b.field !== 'requests_per_second'
    if (!Number.isFinite(n) || n < 0 || (whole && !Number.isInteger(n))) return { wrong: b.name() }
    if (n > 0) quota[b.field] = n * b.unit
  }
  return { quota: quota as Quota }
}
