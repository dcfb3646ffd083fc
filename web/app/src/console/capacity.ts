import type { NodeInfo } from '@sandgate/client/base'
import { number, plural, t } from '../language/texts'
import { bytes } from '../ui/bytes'

/** A resource of a node: how much is used, of how much, and both as a text. */
export interface Use {
  name: string
  used: number
  most: number
  text: string
}

/** The resources of a node, or of several together. One of unknown size is left out. */
export function usesOf(nodes: NodeInfo[]): Use[] {
  const sum = (value: (n: NodeInfo) => number | undefined) => nodes.reduce((all, n) => all + (value(n) ?? 0), 0)
  const [sessions, places] = [sum((n) => n.sessions), sum((n) => n.places)]
  const [memory, memoryUsed] = [sum((n) => n.memory), sum((n) => n.memory_used)]
  const [disk, diskFree] = [sum((n) => n.disk), sum((n) => n.disk_free)]
  const load = nodes.length > 0 ? sum((n) => n.processors) / nodes.length : 0
  return [
    { name: t('Sessions'), used: sessions, most: places, text: of(number(sessions), number(places)) },
    { name: t('Memory'), used: memoryUsed, most: memory, text: of(bytes(memoryUsed), bytes(memory)) },
    { name: t('Processors'), used: load, most: nodes.length > 0 ? 1 : 0, text: `${Math.round(load * 100)} %` },
    { name: t('Disk'), used: disk - diskFree, most: disk, text: of(bytes(disk - diskFree), bytes(disk)) },
  ].filter((u) => u.most > 0)
}

const of = (n: string, all: string) => t('{n} of {all}', { n, all })

/** Describes the state of a node for an operator; empty for a node that takes sessions. */
export function stateOf(n: NodeInfo): string {
  if (n.state === 'unreachable') return t('Does not answer. The numbers are those of its last heartbeat.')
  const closed = t('Takes no sessions.')
  if (n.state === 'draining') return `${closed} ${plural(n.sessions + n.hibernated, '1 session left.', '{n} sessions left.')}`
  if (n.state !== 'drained') return ''
  if (n.drain_error) return `${closed} ${t('The drain failed: {error}', { error: n.drain_error })}`
  const left = [
    n.moved?.stayed && plural(n.moved.stayed, '1 session could not move', '{n} sessions could not move'),
    n.moved?.snapshots && plural(n.moved.snapshots, '1 snapshot only here', '{n} snapshots only here'),
    n.moved?.templates && plural(n.moved.templates, '1 template only here', '{n} templates only here'),
    n.moved?.editions && plural(n.moved.editions, '1 image of moved sessions only here', '{n} images of moved sessions only here'),
  ].filter(Boolean)
  return [
    closed, n.moved && plural(n.moved.parked, '1 session moved.', '{n} sessions moved.'), left.length > 0 ? `${left.join(', ')}.` : t('The machine can be stopped.'),
  ].filter(Boolean).join(' ')
}

/** The versions of the nodes that have one, each once. */
export function versionsOf(nodes: NodeInfo[]): string[] {
  return [...new Set(nodes.flatMap((n) => (n.version ? [n.version] : [])))].sort()
}
