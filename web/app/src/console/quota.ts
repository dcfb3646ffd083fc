import type { Quota, Tenant } from '@sandgate/client/base'

/** A thing that a quota bounds: its field, its name, and the unit in which people write it. */
export interface Bound {
  field: keyof Quota & string
  name: string
  /** The size of the unit; 1 for numbers of things. */
  unit: number
  unitName: string
}

const MiB = 1 << 20

export const bounds: Bound[] = [
  { field: 'sessions', name: 'Sessions', unit: 1, unitName: '' },
  { field: 'running', name: 'Running sessions', unit: 1, unitName: '' },
  { field: 'cpus', name: 'Processors', unit: 1, unitName: '' },
  { field: 'memory_bytes', name: 'Memory', unit: MiB, unitName: 'MiB' },
  { field: 'disk_bytes', name: 'Disk', unit: MiB, unitName: 'MiB' },
  { field: 'snapshots', name: 'Snapshots', unit: 1, unitName: '' },
  { field: 'keep_alive', name: 'Sessions kept awake', unit: 1, unitName: '' },
  { field: 'requests_per_second', name: 'Requests per second', unit: 1, unitName: '' },
]

/** Writes a number of a bounded thing, such as 12 or 1,024 MiB. */
export function amount(b: Bound, n: number): string {
  const shown = (n / b.unit).toLocaleString('en', { maximumFractionDigits: b.unit > 1 ? 0 : 2 })
  return b.unitName ? `${shown} ${b.unitName}` : shown
}

/** The part of a bound that is used, from 0 to 1; undefined without a bound or without a count. */
export function part(t: Tenant, b: Bound): number | undefined {
  const most = t.quota[b.field] ?? 0
  const used = (t.use as unknown as Record<string, number | undefined>)[b.field]
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
    const n = Number(text.replaceAll(',', ''))
    const whole = b.field !== 'cpus' && b.field !== 'requests_per_second'
    if (!Number.isFinite(n) || n < 0 || (whole && !Number.isInteger(n))) return { wrong: b.name }
    if (n > 0) quota[b.field] = n * b.unit
  }
  return { quota: quota as Quota }
}
