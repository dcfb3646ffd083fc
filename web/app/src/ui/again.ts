import type { SandgateError } from '@sandgate/client'

/**
 * What an error means for who looks at a page: whether the same may work when it
 * is tried again, and, where the client's advice speaks to programmers, what to
 * say instead.
 */
const kinds: Record<string, { again: boolean; words?: string }> = {
  invalid_argument: { again: false },
  malformed: { again: false },
  too_large: { again: false },
  unauthenticated: { again: false, words: 'Your sign-in has expired, or was revoked. Sign in again.' },
  permission_denied: { again: false, words: 'Who gave you access can allow it.' },
  not_found: { again: false, words: 'It has ended, or it is not yours.' },
  conflict: { again: true, words: 'It was in the midst of something else.' },
  unsupported: { again: false, words: 'This server does not offer it.' },
  exhausted: { again: true, words: 'The server is full at the moment. Try again in a while, or end a session that you do not need.' },
  slow: { again: true, words: 'The connection was too slow.' },
  unavailable: { again: true, words: 'The server cannot be reached at the moment.' },
  restarting: { again: true, words: 'The server is restarting. What runs goes on.' },
  deadline_exceeded: { again: true, words: 'There was no answer in time. What was asked for may be done still: look before you do it again.' },
  canceled: { again: true },
  kernel_died: { again: true, words: 'The variables are gone. The next cell begins with a new kernel.' },
  sandbox_lost: { again: false, words: 'What was in it is gone. Make a new session.' },
  disk_full: { again: false, words: 'The disk is full. Remove files you do not need.' },
  host: { again: false, words: 'The server’s machine lacks something. Who runs it finds out more with sandgate doctor.' },
  internal: { again: true, words: 'Something broke in the server. Its log says more.' },
}

const row = (e: Error) => (Object.hasOwn(kinds, (e as SandgateError).kind ?? '') ? kinds[(e as SandgateError).kind] : undefined)

/** Whether there is a point in trying the same again. What is no error of the server's may pass. */
export function mayHelp(e: Error): boolean {
  return row(e)?.again ?? (e as SandgateError).retryable ?? true
}

/** What happened, as a sentence, and what that means. */
export function explain(e: Error): string {
  const message = e.message.trim().replace(/\.$/, '')
  const said = message ? `${message[0]!.toUpperCase()}${message.slice(1)}.` : ''
  const words = row(e)?.words ?? (e as SandgateError).advice ?? ''
  return said && words && !said.startsWith(words) ? `${said} ${words}` : said || words
}
