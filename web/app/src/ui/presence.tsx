import type { Presence, Sandbox } from '@sandgate/client/base'
import { useEffect, useState } from 'preact/hooks'
import { plural, t } from '../language/texts'
import { Icon } from './icon'

/**
 * Returns the other users of the session, while the page is open. A server without this feature is
 * not asked twice.
 */
export function usePresence(session: Sandbox | undefined, readOnly: boolean, told?: (p: Presence) => void): Presence | undefined {
  const [now, setNow] = useState<Presence>()
  useEffect(() => {
    if (!session) return
    const gone = new AbortController()
    session.presence((p) => {
      setNow(p)
      told?.(p)
    }, { readOnly, signal: gone.signal }).catch(() => {})
    return () => {
      gone.abort()
      setNow(undefined)
    }
  }, [session, readOnly])
  return now
}

/** Describes the other users in words; empty if there are none. */
export function others(p: { drivers: number; viewers: number }, readOnly: boolean): string {
  const drivers = Math.max(0, p.drivers - (readOnly ? 0 : 1))
  const viewers = Math.max(0, p.viewers - (readOnly ? 1 : 0))
  return [drivers > 0 && plural(drivers, '1 other can edit', '{n} others can edit'), viewers > 0 && plural(viewers, '1 viewer', '{n} viewers')].filter(Boolean).join(', ')
}

/** Shows the number of other users; nothing if there are none. */
export function People({ presence: p, readOnly, channel, what }: { presence: Presence | undefined; readOnly: boolean; channel?: string; what?: string }) {
  const words = p ? others(p, readOnly) : ''
  const here = channel ? p?.channels?.[channel] : undefined
  const also = here ? others(here, readOnly) : ''
  const title = words && [t('In this session: {people}.', { people: words }), also && what && t('In {what}: {people}.', { what, people: also })].filter(Boolean).join(' ')
  return (
    <span class="people-place" role="status" aria-live="polite">
      {words && p && <span class="people num" title={title}><Icon name="people" /><span aria-hidden="true">{p.drivers + p.viewers - 1}</span><span class="sr">{title}</span></span>}
    </span>
  )
}
