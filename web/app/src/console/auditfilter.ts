import type { AuditEntry } from '@sandgate/client/base'
import { plural, t } from '../language/texts'
import { bytes } from '../ui/bytes'
import type { Missing } from './missing'

export interface Filter {
  /** The name of an event, or empty. */
  event: string
  /** The id of a session, or empty. */
  session: string
  /** How long ago the first entry may be; 0 for all entries. */
  hours: number
}

/** The times for which entries can be listed, in hours. */
export const spans = (): [number, string][] => [
  [1, t('Last hour')], [24, t('Last 24 hours')], [24 * 7, t('Last 7 days')], [24 * 30, t('Last 30 days')], [0, t('All|times')],
]

const hour = 3_600_000
const year = 365 * 24 * hour

/** Events that are suggested. Others can be written. */
export const events = [
  'session.create', 'session.delete', 'session.end', 'session.fork', 'snapshot.create', 'execute', 'cell.end', 'channel.open', 'file.write',
  'key.create', 'key.revoke', 'key.rotate', 'tenant.quota', 'link.create', 'egress', 'auth.signin', 'auth.failed', 'auth.link', 'node.start', 'node.stop',
]

/** The parameters of a request for entries. Without from, the filter decides how old they may be. */
export function queryOf(f: Filter, now: number, limit: number, from?: number): URLSearchParams {
  const q = new URLSearchParams({ limit: String(limit) })
  if (f.event) q.set('event', f.event)
  if (f.session) q.set('session', f.session)
  const first = from ?? (f.hours ? now - f.hours * hour : undefined)
  if (first !== undefined) q.set('from_ms', String(first))
  return q
}

/** Describes the parts of an entry that have no column. */
export function describeEntry(e: AuditEntry): string {
  const parts: string[] = []
  if (e.host) parts.push(`${e.host}${e.port ? `:${e.port}` : ''}`)
  if (e.address && e.address !== e.host) parts.push(e.address)
  if (e.route) parts.push(e.route)
  if (e.reason) parts.push(e.reason)
  if (e.language) parts.push(e.language)
  if (e.argv?.length) parts.push(e.argv.join(' '))
  if (e.path) parts.push(e.to ? `${e.path} → ${e.to}` : e.path)
  if (e.name) parts.push(e.name)
  if (e.key) parts.push(t('key {key}', { key: e.key }))
  if (e.signal) parts.push(e.signal)
  if (e.code) parts.push(e.code)
  if (e.bytes) parts.push(bytes(e.bytes))
  if (e.count) parts.push(plural(e.count, '1 time', '{n} times'))
  return parts.join(', ')
}

export interface AuditPage {
  entries: AuditEntry[] | null
  next_cursor?: string
  missing?: Missing[]
}

/** The entries of some hours, the newest first. */
export interface Stretch {
  entries: AuditEntry[]
  /** The beginning of the time, and its length. The next older stretch is twice as long. */
  from: number
  length: number
  /** There are entries in this time that were not requested, because they are too many. */
  cut: boolean
  /** There is nothing older that matches the filter. */
  last: boolean
  missing: Missing[]
}

const pageSize = 1000
const maxPages = 5
const maxTablePages = 100

/**
 * Requests the entries before a time. The server lists the oldest first, so the page asks for the last
 * hour, then for the two hours before it, and so on, until it finds some.
 */
export async function olderEntries(ask: (q: URLSearchParams) => Promise<AuditPage>, f: Filter, now: number, before = now, length = hour): Promise<Stretch> {
  const oldest = now - (f.hours ? f.hours * hour : 10 * year)
  for (; ; before -= length, length *= 2) {
    const from = Math.max(oldest, before - length)
    const last = from === oldest
    const entries: AuditEntry[] = []
    let missing: Missing[] = []
    let cursor: string | undefined
    for (let n = 0; n < maxPages && (n === 0 || cursor); n++) {
      const q = queryOf(f, now, pageSize, from)
      q.set('to_ms', String(before))
      if (cursor) q.set('cursor', cursor)
      const p = await ask(q)
      entries.push(...(p.entries ?? []))
      missing = p.missing ?? []
      cursor = p.next_cursor
    }
    if (entries.length > 0 || last) return { entries: entries.reverse(), from, length, cut: cursor !== undefined && cursor !== '', last, missing }
  }
}

/**
 * Returns all entries that match the filter as comma-separated values, the oldest first. The server
 * has the format and the cursor of the next page in separate answers. An error if there are over
 * 100,000.
 */
export async function wholeTable(ask: (q: URLSearchParams) => Promise<AuditPage>, text: (q: URLSearchParams) => Promise<string>, f: Filter, now: number): Promise<string> {
  const parts: string[] = []
  const q = queryOf(f, now, pageSize)
  q.set('to_ms', String(now))
  for (let n = 0; n < maxTablePages; n++) {
    const table = new URLSearchParams(q)
    table.set('format', 'csv')
    const [page, part] = await Promise.all([ask(q), text(table)])
    parts.push(n === 0 ? part : part.slice(part.indexOf('\n') + 1)) // the names of the columns come once
    if (!page.next_cursor) return parts.join('')
    q.set('cursor', page.next_cursor)
  }
  throw new Error(t('There are more than 100,000 entries. Choose a shorter time, an event or a session'))
}
