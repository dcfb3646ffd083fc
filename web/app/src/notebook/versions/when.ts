import type { NotebookVersion } from '@sandgate/client/base'
import { t, time } from '../../language/texts'

/** Returns the name of a version, or else the time of its last save. */
export function nameOf(v: Pick<NotebookVersion, 'name' | 'saved_ms'>): string {
  if (v.name) return v.name
  return new Date(v.saved_ms).toDateString() === new Date().toDateString()
    ? t('Today, {time}', { time: time(v.saved_ms, { timeStyle: 'medium' }) })
    : time(v.saved_ms, { dateStyle: 'medium', timeStyle: 'short' })
}
