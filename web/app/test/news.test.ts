import { expect, it } from 'vitest'
import { newsOf } from '../src/notebook/news'

it('says what an upgrade kept and what it lost', () => {
  const moved = newsOf({ event: 'upgraded', variables: { kept: ['x'], kept_count: 1, lost: ['s'], lost_count: 1 } }, 'Python')
  expect(moved).toContain('moved to a new version')
  expect(moved).toContain('Variables of Python come back when you run a cell.')
  expect(newsOf({ event: 'upgraded' }, 'Go')).toContain('Variables of Go are lost.')
  expect(newsOf({ event: 'variables_restored', variables: { kept: ['x', 'df'], kept_count: 4, lost: ['s'], lost_count: 1 } }, 'Python'))
    .toBe('Python has these variables again: x, df and 2 more. Not kept: s.')
  expect(newsOf({ event: 'variables_restored', variables: { lost: ['s'], lost_count: 1 } }, 'Python')).toBe('Not kept: s.')
  expect(newsOf({ event: 'variables_restored' }, 'Python')).toBeUndefined()
})

it('says from when a session continues, and nothing about other events', () => {
  const at = Date.UTC(2026, 10, 5, 12)
  expect(newsOf({ event: 'recovered', as_of_ms: at }, 'Python')).toMatch(/The server was killed\. .*2026/)
  expect(newsOf({ event: 'taken_over', as_of_ms: at }, 'Python')).toMatch(/The machine of the session failed\. .*2026/)
  expect(newsOf({ event: 'epoch' }, 'Python')).toBeUndefined()
})
