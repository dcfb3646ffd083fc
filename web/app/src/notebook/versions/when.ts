import type { NotebookVersion } from '@sandgate/client/base'

/** Returns the name of a version, or else the time of its last save. */
export function nameOf(v: Pick<NotebookVersion, 'name' | 'saved_ms'>): string {
  if (v.name) return v.name
  const at = new Date(v.saved_ms)
  return at.toDateString() === new Date().toDateString()
    ? `Today, ${at.toLocaleTimeString(undefined, { timeStyle: 'medium' })}`
    : at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
}
