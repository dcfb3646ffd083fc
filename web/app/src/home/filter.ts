import type { SessionInfo } from '@sandgate/client/base'
import { t } from '../language/texts'

/** The states that a list can be limited to. */
export const states = ['working', 'running', 'paused', 'hibernated', 'lost'] as const
export type State = (typeof states)[number]

type Listed = Pick<SessionInfo, 'id' | 'name' | 'language' | 'template' | 'state' | 'labels' | 'channels'>

/** The state of a session in a list: a running one that computes is working. */
export function stateOf(i: Pick<SessionInfo, 'state' | 'channels'>): string {
  const busy = i.channels?.some((c) => c.state === 'busy' || (c.kind === 'process' && c.state === 'running'))
  return busy && i.state === 'running' ? 'working' : i.state
}

/** Returns the word for a state of stateOf. */
export function stateName(state: string): string {
  return {
    working: t('working'), running: t('running|a session'), paused: t('paused'), hibernated: t('hibernated'), resuming: t('resuming'), lost: t('lost'),
  }[state] ?? state
}

/** Returns the state of a session that was lost, with the reason. */
export function lostBecause(reason: string): string {
  return {
    memory: t('lost: memory'), killed: t('lost: killed'), crashed: t('lost: crashed'), exited: t('lost: exited'),
    host: t('lost: host'), expired: t('lost: expired'), upgraded: t('lost: upgraded'), moved: t('lost: moved'),
  }[reason] ?? t('lost: {reason}', { reason })
}

/** The labels of a session as they are shown, such as team=red. */
export function labelsOf(i: Pick<SessionInfo, 'labels'>): string[] {
  return Object.entries(i.labels ?? {}).sort().map(([k, v]) => (v ? `${k}=${v}` : k))
}

/**
 * Reports whether a session has each word of a text in its name, language, template, labels or id, and
 * the state, if one is given.
 */
export function matches(i: Listed, text: string, state: State | '', language: string): boolean {
  if (state && stateOf(i) !== state && !(state === 'running' && i.state === 'running')) return false
  const where = [i.name ?? '', language, i.template ?? '', i.id, ...labelsOf(i)].join('\n').toLowerCase()
  return text.toLowerCase().split(/\s+/).every((word) => where.includes(word))
}
