import { Icon } from '../ui/icon'

/** A node that has gone, and the time of which its records may be missing. */
export interface Missing {
  node: string
  from_ms?: number
  to_ms?: number
}

/** Describes the records that an answer may lack. */
export function describeMissing(m: Missing): string {
  const at = (ms: number) => new Date(ms).toLocaleString()
  const after = m.from_ms ? ` after ${at(m.from_ms)}` : ''
  const before = m.to_ms ? ` before ${at(m.to_ms)}` : ''
  return `Records of the node ${m.node}${after}${before} may be missing.`
}

/** Shows which records an answer may lack. */
export function MissingRecords({ list }: { list: Missing[] }) {
  const lines = [...new Set(list.map(describeMissing))]
  if (lines.length === 0) return null
  return <div class="notice bad" role="status"><Icon name="warning" /><ul class="grow">{lines.map((l) => <li key={l}>{l}</li>)}</ul></div>
}
