import { signal } from '@preact/signals'
import type { SandgateError } from '@sandgate/client/base'
import { t } from '../language/texts'
import { rest } from '../rest'
import { ask } from './dialog'
import { failed, toast } from './toast'

/** The names that this page has given to sessions. */
export const given = signal<Readonly<Record<string, string>>>({})

/** Asks for another name of a session. Returns whether it was renamed. */
export async function renameSession(id: string, before: string, placeholder = t('Name')): Promise<boolean> {
  const to = (await ask({ title: t('Rename the session'), value: before, placeholder, yes: t('Rename') }))?.trim()
  if (to === undefined || to === before) return false
  try {
    await rest('PATCH', `/v1/sessions/${encodeURIComponent(id)}`, { name: to })
  } catch (e) {
    if ((e as SandgateError).kind === 'conflict') toast(t('Another session is called {name}', { name: to }))
    else failed(t('The session was not renamed'), e)
    return false
  }
  given.value = { ...given.peek(), [id]: to }
  toast(to ? t('The session is now called {name}', { name: to }) : t('The session has no name now'))
  return true
}
