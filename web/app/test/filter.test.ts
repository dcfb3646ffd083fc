// Tests the filter of the list of sessions.
import { afterEach, describe, expect, it } from 'vitest'
import { labelsOf, lostBecause, matches, stateName, stateOf, states, type State } from '../src/home/filter'
import { german } from '../src/language/de/index'
import { english, language } from '../src/language/texts'

afterEach(() => {
  language.value = english
})

const session = (o: object = {}) => ({ id: 'abcdef', name: 'Sales 2026', language: 'python', state: 'running', channels: [], ...o }) as unknown as Parameters<typeof matches>[0]

describe('filter of sessions', () => {
  it('finds each word anywhere', () => {
    const s = session({ template: 'ml', labels: { team: 'red', urgent: '' } })
    for (const text of ['', 'sales', 'SALES python', 'ml red', 'team=red', 'abcd 2026', ' urgent ']) expect(matches(s, text, '', 'Python'), text).toBe(true)
    for (const text of ['salesx', 'sales java', 'team=blue']) expect(matches(s, text, '', 'Python'), text).toBe(false)
  })

  it('counts a session that works as running too', () => {
    const busy = session({ channels: [{ kind: 'kernel', state: 'busy' }] })
    expect(stateOf(busy)).toBe('working')
    const wanted: [object, State, boolean][] = [
      [busy, 'working', true], [busy, 'running', true], [session(), 'working', false], [session(), 'running', true],
      [session({ state: 'paused' }), 'running', false], [session({ state: 'lost', channels: [{ kind: 'kernel', state: 'busy' }] }), 'lost', true],
    ]
    for (const [s, state, want] of wanted) expect(matches(s as Parameters<typeof matches>[0], '', state, 'Python'), state).toBe(want)
  })

  it('shows labels in their order', () => {
    expect(labelsOf({ labels: { z: '1', a: '' } })).toEqual(['a', 'z=1'])
    expect(labelsOf({})).toEqual([])
  })

  it('has words for states and reasons, also for those of a newer server', () => {
    expect([...states, 'resuming', 'dreaming'].map(stateName)).toEqual([...states, 'resuming', 'dreaming'])
    expect(['memory', 'asteroid'].map(lostBecause)).toEqual(['lost: memory', 'lost: asteroid'])
    language.value = german
    expect(['working', 'hibernated', 'dreaming'].map(stateName)).toEqual(['arbeitet', 'im Ruhezustand', 'dreaming'])
    expect(['memory', 'asteroid'].map(lostBecause)).toEqual(['verloren: Arbeitsspeicher', 'verloren: asteroid'])
  })
})
