import type { SessionInfo } from '@sandgate/client/base'
import { plural, t } from '../language/texts'

type Ending = Pick<SessionInfo, 'state' | 'expires_ms' | 'expires_reason' | 'on_expiry'>

/** Says when a session ends and why; empty for a session that has no end. */
export function expiry(s: Ending, now = Date.now()): string {
  if (!s.expires_ms || s.state === 'lost') return ''
  const time = { time: duration(Math.max(0, s.expires_ms - now) / 1000) }
  if (s.expires_reason === 'idle') return t('deleted in {time} if not used', time)
  if (!s.on_expiry) return t('ends in {time}: its lifetime', time)
  return s.on_expiry === 'suspend' ? t('suspended in {time}: its lifetime', time) : t('hibernated in {time}: its lifetime', time)
}

/** The expiry for a list, in which sessions without an end are worth a word. */
export function expiryOrNone(s: Ending): string {
  return expiry(s) || (s.state === 'lost' ? '' : t('never expires'))
}

function duration(s: number): string {
  if (s < 90) return `${Math.round(s)} s`
  if (s < 5400) return `${Math.round(s / 60)} min`
  if (s < 2 * 86_400) return `${Math.round(s / 3600)} h`
  return plural(Math.round(s / 86_400), '1 day', '{n} days|after in')
}
