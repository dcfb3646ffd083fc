import { t, time } from '../language/texts'
import { Icon } from '../ui/icon'

/** A node that has gone, and the time of which its records may be missing. */
export interface Missing {
  node: string
  from_ms?: number
  to_ms?: number
}

/** Describes the records that an answer may lack. */
export function describeMissing(m: Missing): string {
  const { node, from_ms: from, to_ms: to } = m
  if (from && to) return t('Records of the node {node} after {from} before {to} may be missing.', { node, from: time(from), to: time(to) })
  if (from) return t('Records of the node {node} after {from} may be missing.', { node, from: time(from) })
  if (to) return t('Records of the node {node} before {to} may be missing.', { node, to: time(to) })
  return t('Records of the node {node} may be missing.', { node })
}

/** Shows which records an answer may lack. */
export function MissingRecords({ list }: { list: Missing[] }) {
  const lines = [...new Set(list.map(describeMissing))]
  if (lines.length === 0) return null
  return <div class="notice bad" role="status"><Icon name="warning" /><ul class="grow">{lines.map((l) => <li key={l}>{l}</li>)}</ul></div>
}
