/** A recording, as asciicast v2 has it: times in seconds. */
export interface Cast {
  cols: number
  rows: number
  title: string
  events: CastEvent[]
}

export interface CastEvent {
  at: number
  /** o is output, r another size such as 80x24. */
  code: string
  text: string
}

/** What is read of a recording, in characters. */
export const maxCast = 64 << 20
/** How long nothing happens at most when idle time is left out, in seconds. */
export const maxIdle = 1

/** Reads a recording; lines that are none are passed over. */
export function parseCast(text: string): Cast {
  const lines = text.split('\n')
  const head = JSON.parse(lines[0]!) as { version: number; width: number; height: number; title?: string }
  if (head.version !== 2) throw new Error(`this is version ${head.version} of an asciicast, and not 2`)
  const events: CastEvent[] = []
  for (const line of lines.slice(1)) {
    if (!line) continue
    const [at, code, text] = JSON.parse(line) as [number, string, string]
    if (code === 'o' || code === 'r') events.push({ at, code, text })
  }
  return { cols: head.width, rows: head.height, title: head.title ?? '', events }
}

/** The same with pauses of at most so many seconds. */
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

/** How many of the events have happened at a time. */
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
