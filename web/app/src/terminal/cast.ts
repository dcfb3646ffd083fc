import { t } from '../language/texts'

/** A recording in the format asciicast v2: times in seconds. */
export interface Cast {
  cols: number
  rows: number
  title: string
  events: CastEvent[]
}

export interface CastEvent {
  at: number
  /** o means output, r another size such as 80x24. */
  code: string
  text: string
}

/** The maximum number of characters that are read from a recording. */
export const maxCast = 64 << 20
/** The longest pause when idle time is skipped, in seconds. */
export const maxIdle = 1

/** Parses a recording. Skips invalid lines. */
export function parseCast(text: string): Cast {
  const lines = text.split('\n')
  const head = JSON.parse(lines[0]!) as { version: number; width: number; height: number; title?: string }
  if (head.version !== 2) throw new Error(t('this is version {version} of an asciicast, and not 2', { version: head.version }))
  const events: CastEvent[] = []
  for (const line of lines.slice(1)) {
    if (!line) continue
    const [at, code, text] = JSON.parse(line) as [number, string, string]
    if (code === 'o' || code === 'r') events.push({ at, code, text })
  }
  return { cols: head.width, rows: head.height, title: head.title ?? '', events }
}

/** Returns the recording with pauses of at most so many seconds. */
export function withoutIdle(cast: Cast, most = maxIdle): Cast {
  let left = 0
  let before = 0
  return {
    ...cast,
    events: cast.events.map((e) => {
      left += Math.max(0, e.at - before - most)
      before = e.at
      return { ...e, at: e.at - left }
    }),
  }
}

/** Returns the number of events until a time. */
export function count(events: CastEvent[], at: number): number {
  let low = 0
  let high = events.length
  while (low < high) {
    const mid = (low + high) >> 1
    if (events[mid]!.at <= at) low = mid + 1
    else high = mid
  }
  return low
}

export function clock(seconds: number): string {
  const s = Math.floor(seconds)
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`
}
