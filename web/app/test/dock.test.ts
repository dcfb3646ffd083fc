import { beforeEach, describe, expect, it } from 'vitest'
import { addressOf, parseAddress } from '../src/notebook/dock/address'
import { Dock, keyOf, maxGroups, maxTabs, moved, parseDock, shownGroups, stepped, type DockState, type DockTab, type Place } from '../src/notebook/dock/state'

beforeEach(() => localStorage.clear())

const file = (path: string): DockTab => ({ kind: 'file', path })
/** The names of the tabs of each group, the shown one in capitals. */
const shape = (s: DockState) => s.groups.map((g) => g.tabs.map((t, i) => (i === g.at ? keyOf(t).slice(5).toUpperCase() : keyOf(t).slice(5))).join('')).join(' ')
const state = (groups: string, current = 0): DockState => ({
  ...parseDock(null), current,
  groups: groups.split(' ').map((g) => ({ tabs: [...g].map((c) => file(c.toLowerCase())), at: [...g].findIndex((c) => c < 'a'), share: 1 })),
})

describe('the dock', () => {
  it('remembers its tabs, its size and its place, but no terminal that has ended', () => {
    const dock = new Dock('s_1', [])
    dock.open({ kind: 'file', path: '/home/user/a.py', fresh: true })
    dock.open({ kind: 'terminal', id: 't1' })
    dock.open({ kind: 'notebook', path: 'b.ipynb' })
    dock.open({ kind: 'preview', port: 8000, path: '/page?x=1' })
    dock.open({ kind: 'terminal', id: 't2' })
    dock.move('terminal t2', { group: 1, split: true })
    dock.set({ below: true, stacked: false, size: 60 })
    const kept = { kind: 'preview', port: 8000, path: '/page?x=1' }
    expect(new Dock('s_1', ['t1', 't2']).state.value).toEqual({
      groups: [
        { tabs: [{ kind: 'file', path: '/home/user/a.py' }, { kind: 'terminal', id: 't1' }, { kind: 'notebook', path: 'b.ipynb' }, kept], at: 3, share: 1 },
        { tabs: [{ kind: 'terminal', id: 't2' }], at: 0, share: 1 },
      ], current: 1, stacked: false, below: true, size: 60, hidden: false,
    })
    // Neither is the notebook that the page itself shows.
    expect(new Dock('s_1', ['t1'], 'b.ipynb').state.value).toMatchObject({ groups: [{ tabs: [{ kind: 'file' }, { kind: 'terminal', id: 't1' }, kept], at: 2 }], current: 0 })
    expect(new Dock('s_2', []).state.value.groups).toEqual([])
  })

  it('shows a tab once, and keeps the one in sight when another is closed', () => {
    const dock = new Dock('s_1', [])
    for (const path of ['a', 'b', 'c']) dock.open(file(path))
    dock.open(file('b'))
    expect(shape(dock.state.value)).toBe('aBc')
    dock.close(file('a'))
    expect(shape(dock.state.value)).toBe('Bc')
    dock.close(file('b'))
    dock.close(file('c'))
    expect(localStorage.length).toBe(0)
  })

  it('opens tabs in the group that was used last, and finds them in any', () => {
    const dock = new Dock('s_1', [])
    dock.open(file('a'))
    dock.open(file('b'))
    dock.move('file b', { group: 1, split: true })
    dock.show('file a')
    dock.open(file('c'))
    expect(shape(dock.state.value)).toBe('aC B')
    dock.open(file('b'))
    dock.open(file('d'))
    expect(shape(dock.state.value)).toBe('aC bD')
    // Another address of the same port takes the place of the first.
    dock.open({ kind: 'preview', port: 80, path: '/' })
    dock.open({ kind: 'preview', port: 80, path: '/x' })
    expect(dock.tabs.filter((t) => t.kind === 'preview')).toEqual([{ kind: 'preview', port: 80, path: '/x' }])
  })

  it('is bounded, and takes any stored text', () => {
    const dock = new Dock('s_1', [])
    for (let i = 0; i < maxTabs; i++) expect(dock.open(file(`f${i}`))).toBe(true)
    expect(dock.open(file('one more'))).toBe(false)
    for (const text of [null, '', 'x', '[]', 'null', '{"tabs":[1,null,{"kind":"file"}],"at":7,"size":1000}', '{"groups":[null,{"tabs":7},{"tabs":[{"kind":"preview","port":0,"path":"/"}]}]}']) {
      expect(parseDock(text)).toMatchObject({ groups: [], current: 0 })
    }
    expect(parseDock('{"size":1000}').size).toBe(75)
    const many = (n: number, of: string) => Array.from({ length: n }, (_, i) => file(`${of}${i}`))
    const stored = parseDock(JSON.stringify({ groups: ['a', 'b', 'c', 'd'].map((of) => ({ tabs: [...many(5, of), ...many(1, of)], at: 1.5, share: 1e9 })), current: 9 }))
    expect(stored.groups).toHaveLength(maxGroups)
    expect(stored.groups.flatMap((g) => g.tabs)).toHaveLength(maxTabs)
    expect(stored).toMatchObject({ groups: [{ at: 1, share: 1 }, {}, {}], current: 0 })
    // An earlier version kept one group.
    expect(parseDock(JSON.stringify({ tabs: many(3, 'a'), at: 2, below: true }))).toMatchObject({ groups: [{ tabs: many(3, 'a'), at: 2 }], below: true })
  })

  it('moves tabs within a group, to another and to a new one', () => {
    const after = (groups: string, key: string, to: Place) => shape(moved(state(groups), `file ${key}`, to))
    expect(after('abC', 'c', { group: 0, before: 'file a' })).toBe('Cab')
    expect(after('abC', 'a', { group: 0 })).toBe('bcA')
    expect(after('Abc D', 'b', { group: 1, before: 'file d' })).toBe('Ac Bd')
    expect(after('Ab C', 'c', { group: 0 })).toBe('abC')
    expect(after('Ab', 'a', { group: 0, split: true })).toBe('A B')
    expect(after('Ab', 'a', { group: 1, split: true })).toBe('B A')
    expect(after('A B C', 'a', { group: 3, split: true })).toBe('B C A')
    for (const [groups, key, to] of [['Ab C D', 'a', { group: 3, split: true }], ['Ab', 'a', { group: 0, before: 'file a' }], ['Ab', 'x', { group: 0 }], ['Ab', 'a', { group: 5 }]] as const) {
      const s = state(groups)
      expect(moved(s, `file ${key}`, to)).toBe(s)
    }
    expect(moved(state('A Bc', 1), 'file b', { group: 2, split: true }).current).toBe(2)
    expect(moved(state('A B', 1), 'file a', { group: 1 }).current).toBe(0)
  })

  it('steps with keys past a neighbour, into the next group and into a new one', () => {
    const walk = (groups: string, key: string, by: 1 | -1, over?: boolean) => {
      const s = state(groups)
      const to = stepped(s, `file ${key}`, by, over)
      return to && shape(moved(s, `file ${key}`, to))
    }
    expect(walk('Abc', 'a', 1)).toBe('bAc')
    expect(walk('bAc', 'a', 1)).toBe('bcA')
    expect(walk('bcA', 'a', -1)).toBe('bAc')
    expect(walk('bcA', 'a', 1)).toBe('bC A')
    expect(walk('bC A', 'a', 1)).toBe(undefined)
    expect(walk('bC A', 'a', -1)).toBe('bcA')
    expect(walk('Abc D', 'a', 1, true)).toBe('Bc Ad')
    expect(walk('Abc D', 'a', -1, true)).toBe('A Bc D')
    expect(walk('Ab C D', 'd', 1, true)).toBe(undefined)
    expect(walk('Ab C D', 'a', -1, true)).toBe(undefined)
  })

  it('shows all tabs in one group on a phone', () => {
    const s = state('aB Cd', 1)
    expect(shape({ ...s, groups: shownGroups(s, true) })).toBe('abCd')
    expect(shownGroups(s, false)).toBe(s.groups)
  })
})

it('reads addresses of programs in the session', () => {
  const all: [string, { port: number; path: string } | undefined][] = [
    ['8000', { port: 8000, path: '/' }], [' localhost:8000/a?b=1#c ', { port: 8000, path: '/a?b=1#c' }], ['http://127.0.0.1:5000', { port: 5000, path: '/' }],
    ['/x', { port: 80, path: '/x' }], ['', { port: 80, path: '/' }], ['localhost', { port: 80, path: '/' }], [':3000', { port: 3000, path: '/' }],
    ['0', undefined], ['70000', undefined], ['https://example.org/', undefined], ['localhost.evil.org:80', undefined], ['javascript:alert(1)', undefined], ['//evil.org:80/x y', undefined],
  ]
  for (const [text, want] of all) expect(parseAddress(text, 80), text).toEqual(want)
  expect(parseAddress('/x')).toBe(undefined)
  expect(addressOf({ port: 8000, path: '/x' })).toBe('localhost:8000/x')
})
