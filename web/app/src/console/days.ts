import type { UsageSum } from '@sandgate/client/base'
import { number, t } from '../language/texts'
import { bytes, fixed } from '../ui/bytes'

export const dayMS = 86_400_000

/** The measures of use that a chart shows, with their names and the text of a value. */
export const measures = [
  { field: 'cells', name: () => t('Cells and programs'), text: (n: number) => number(n) },
  { field: 'cpu_seconds', name: () => t('Processor time'), text: hours },
  { field: 'seconds', name: () => t('Time of sandboxes'), text: hours },
  { field: 'memory_mib_seconds', name: () => t('Memory'), text: (n: number) => t('{n} GiB hours', { n: number(n / 1024 / 3600, { maximumFractionDigits: 2 }) }) },
  { field: 'bytes_out', name: () => t('Output'), text: bytes },
  { field: 'network_out', name: () => t('Sent to the network'), text: bytes },
] as const satisfies { field: keyof UsageSum; name: () => string; text: (n: number) => string }[]

export type Measure = (typeof measures)[number]

/** Writes seconds as hours, or as minutes or seconds if there are few. */
function hours(s: number): string {
  if (s >= 3600) return `${number(s / 3600, { maximumFractionDigits: 1 })} h`
  return s >= 60 ? `${fixed(s / 60, 1)} min` : `${fixed(s, 1)} s`
}

export interface Day {
  /** The day, such as 2026-11-29, in UTC as the server counts. */
  day: string
  sum: UsageSum | undefined
}

/** Returns the last days up to a time, the oldest first, with the sums of those that have one. */
export function lastDays(sums: UsageSum[], n: number, now: number): Day[] {
  const of = new Map(sums.map((s) => [s.key, s]))
  return Array.from({ length: n }, (_, i) => {
    const day = new Date(now - (n - 1 - i) * dayMS).toISOString().slice(0, 10)
    return { day, sum: of.get(day) }
  })
}
