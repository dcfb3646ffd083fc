import type { SessionInfo } from '@sandgate/client/base'

type Ending = Pick<SessionInfo, 'state' | 'expires_ms' | 'expires_reason' | 'on_expiry'>

/** Says when a session ends and why; empty for a session that has no end. */
export function expiry(s: Ending, now = Date.now()): string {
  if (!s.expires_ms || s.state === 'lost') return ''
  const left = time(Math.max(0, s.expires_ms - now) / 1000)
  if (s.on_expiry && s.expires_reason !== 'idle') return `${s.on_expiry === 'suspend' ? 'suspended' : 'hibernated'} in ${left}: its lifetime`
  return s.expires_reason === 'idle' ? `deleted in ${left} if not used` : `ends in ${left}: its lifetime`
}

/** The expiry for a list, in which sessions without an end are worth a word. */
export function expiryOrNone(s: Ending): string {
  return expiry(s) || (s.state === 'lost' ? '' : 'never expires')
}

function time(s: number): string {
  if (s < 90) return `${Math.round(s)} s`
  if (s < 5400) return `${Math.round(s / 60)} min`
  if (s < 2 * 86_400) return `${Math.round(s / 3600)} h`
  return `${Math.round(s / 86_400)} days`
}
