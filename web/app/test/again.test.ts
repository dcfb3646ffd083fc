import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SandgateError } from '@sandgate/client/base'
import { expect, it } from 'vitest'
import { german } from '../src/language/de/index'
import { english, language } from '../src/language/texts'
import { explain, mayHelp } from '../src/ui/again'

it('offers to try again only what may help', () => {
  const kinds = [...readFileSync(join(import.meta.dirname, '../../../docs/protocol.md'), 'utf8').matchAll(/^\| `(\w+)` \| \d{3} \| \d{4} \| \d{3} \|/gm)].map((m) => m[1]!)
  expect(kinds.length).toBeGreaterThan(15)
  const again = kinds.filter((k) => mayHelp(new SandgateError(k, 'so')))
  expect(again.sort()).toEqual(['canceled', 'conflict', 'deadline_exceeded', 'exhausted', 'internal', 'kernel_died', 'restarting', 'slow', 'unavailable'])
  expect(mayHelp(new SandgateError('new_kind', 'so', { retryable: true }))).toBe(true)
  expect(mayHelp(new SandgateError('new_kind', 'so', { retryable: false }))).toBe(false)
  expect(mayHelp(new TypeError('a chunk was not loaded'))).toBe(true)
})

it('says what happened, and what that means', () => {
  expect(explain(new SandgateError('deadline_exceeded', 'the request took too long'))).toBe('The request took too long. The server did not answer in time. It may still carry out the request: check before you repeat it.')
  expect(explain(new SandgateError('not_found', 'there is no such session'))).toBe('There is no such session. It has ended, or it belongs to somebody else.')
  expect(explain(new Error('no'))).toBe('No.')
  language.value = german
  expect(explain(new SandgateError('too_large', 'the file is too large'))).toBe('The file is too large. Die Nachricht überschreitet eine Grenze; bitte weniger senden, oder in Teilen.')
  language.value = english
})
