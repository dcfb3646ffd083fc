import type { NodeInfo } from '@sandgate/client/base'
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
    { name: 'Sessions', used: sessions, most: places, text: `${sessions.toLocaleString('en')} of ${places.toLocaleString('en')}` },
    { name: 'Memory', used: memoryUsed, most: memory, text: `${bytes(memoryUsed)} of ${bytes(memory)}` },
    { name: 'Processors', used: load, most: nodes.length > 0 ? 1 : 0, text: `${Math.round(load * 100)} %` },
    { name: 'Disk', used: disk - diskFree, most: disk, text: `${bytes(disk - diskFree)} of ${bytes(disk)}` },
  ].filter((u) => u.most > 0)
}

const many = (n: number, one: string) => `${n.toLocaleString('en')} ${one}${n === 1 ? '' : 's'}`

/** Describes the state of a node for an operator; empty for a node that takes sessions. */
export function stateOf(n: NodeInfo): string {
  if (n.state === 'unreachable') return 'Does not answer. The numbers are those of its last heartbeat.'
  if (n.state === 'draining') return `Takes no sessions. ${many(n.sessions + n.hibernated, 'session')} left.`
  if (n.state !== 'drained') return ''
  if (n.drain_error) return `Takes no sessions. The drain failed: ${n.drain_error}`
  const left = [
    n.moved?.stayed ? `${many(n.moved.stayed, 'session')} could not move` : '',
    n.moved?.snapshots ? `${many(n.moved.snapshots, 'snapshot')} only here` : '',
    n.moved?.templates ? `${many(n.moved.templates, 'template')} only here` : '',
  ].filter(Boolean)
  const moved = n.moved ? ` ${many(n.moved.parked, 'session')} moved.` : ''
  return `Takes no sessions.${moved} ${left.length > 0 ? `${left.join(', ')}.` : 'The machine can be stopped.'}`
}

/** The versions of the nodes that have one, each once. */
export function versionsOf(nodes: NodeInfo[]): string[] {
  return [...new Set(nodes.flatMap((n) => (n.version ? [n.version] : [])))].sort()
}
