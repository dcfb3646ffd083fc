import type { SandgateError } from '@sandgate/client/base'
import { t } from '../language/texts'

/**
 * The meaning of an error for a user of a page: whether a retry may help, and advice. That of the
 * client is for programmers, and in English.
 */
const kinds: Record<string, { again: boolean; advice: () => string }> = {
  invalid_argument: { again: false, advice: () => t('A value in the request is not allowed; correct the named field.') },
  malformed: { again: false, advice: () => t('The page and the server do not understand each other. Reload the page.') },
  too_large: { again: false, advice: () => t('The message is over a limit; send less, or in parts.') },
  unauthenticated: { again: false, advice: () => t('Your sign-in has expired, or was revoked. Sign in again.') },
  permission_denied: { again: false, advice: () => t('Ask the person who gave you access, or the operator of the server.') },
  not_found: { again: false, advice: () => t('It has ended, or it belongs to somebody else.') },
  conflict: { again: true, advice: () => t('It was busy with another change.') },
  unsupported: { again: false, advice: () => t('This server does not support it.') },
  exhausted: { again: true, advice: () => t('The server is full at the moment. Try again in a while, or end a session that you do not need.') },
  slow: { again: true, advice: () => t('The connection was too slow.') },
  unavailable: { again: true, advice: () => t('The server cannot be reached at the moment.') },
  restarting: { again: true, advice: () => t('The server is restarting. Your code keeps running.') },
  deadline_exceeded: { again: true, advice: () => t('The server did not answer in time. It may still carry out the request: check before you repeat it.') },
  canceled: { again: true, advice: () => t('The request was canceled.') },
  kernel_died: { again: true, advice: () => t('The variables are gone. The next cell begins with a new kernel.') },
  sandbox_lost: { again: false, advice: () => t('Its variables and files are gone.') },
  disk_full: { again: false, advice: () => t('The disk is full. Remove files you do not need.') },
  host: { again: false, advice: () => t('The server is not set up completely. Its operator finds the cause with sandgate doctor.') },
  internal: { again: true, advice: () => t('The server failed. Its log has the cause.') },
}

const row = (e: Error) => (Object.hasOwn(kinds, (e as SandgateError).kind ?? '') ? kinds[(e as SandgateError).kind] : undefined)

/** Whether a retry may help. An error that is not from the server may be temporary. */
export function mayHelp(e: Error): boolean {
  return row(e)?.again ?? (e as SandgateError).retryable ?? true
}

/** Describes an error in a sentence, with its meaning. An error with a cause has its own advice. */
export function explain(e: Error): string {
  const message = e.message.trim().replace(/\.$/, '')
  const said = message ? `${message[0]!.toUpperCase()}${message.slice(1)}.` : ''
  const { causeName, advice } = e as SandgateError
  const words = (causeName ? advice : row(e)?.advice() ?? advice) ?? ''
  return said && words && !said.startsWith(words) ? `${said} ${words}` : said || words
}
