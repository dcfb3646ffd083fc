import { beforeEach, describe, expect, it } from 'vitest'
import { Dock, maxTabs, parseDock } from '../src/notebook/dock/state'

beforeEach(() => localStorage.clear())

describe('the dock', () => {
  it('remembers its tabs, its size and its place, but no terminal that has ended', () => {
    const dock = new Dock('s_1', [])
    dock.open({ kind: 'file', path: '/home/user/a.py', fresh: true })
    dock.open({ kind: 'terminal', id: 't1' })
    dock.open({ kind: 'terminal', id: 't2' })
    dock.set({ below: true, size: 60 })
    expect(new Dock('s_1', ['t1', 't2']).state.value).toEqual({ tabs: [{ kind: 'file', path: '/home/user/a.py' }, { kind: 'terminal', id: 't1' }, { kind: 'terminal', id: 't2' }], at: 2, below: true, size: 60, hidden: false })
    expect(new Dock('s_1', ['t1']).state.value).toMatchObject({ tabs: [{ kind: 'file' }, { kind: 'terminal', id: 't1' }], at: 1 })
    expect(new Dock('s_2', []).state.value.tabs).toEqual([])
  })

  it('shows a tab once, and keeps the one in sight when another is closed', () => {
    const dock = new Dock('s_1', [])
    for (const path of ['a', 'b', 'c']) dock.open({ kind: 'file', path })
    dock.open({ kind: 'file', path: 'b' })
    expect(dock.state.value).toMatchObject({ at: 1, tabs: [{ path: 'a' }, { path: 'b' }, { path: 'c' }] })
    dock.close({ kind: 'file', path: 'a' })
    expect(dock.state.value).toMatchObject({ at: 0, tabs: [{ path: 'b' }, { path: 'c' }] })
    dock.close({ kind: 'file', path: 'b' })
    dock.close({ kind: 'file', path: 'c' })
    expect(localStorage.length).toBe(0)
  })

  it('is bounded, and takes any stored text', () => {
    const dock = new Dock('s_1', [])
    for (let i = 0; i < maxTabs; i++) expect(dock.open({ kind: 'file', path: `f${i}` })).toBe(true)
    expect(dock.open({ kind: 'file', path: 'one more' })).toBe(false)
    for (const text of [null, '', 'x', '[]', 'null', '{"tabs":[1,null,{"kind":"file"}],"at":7,"size":1000}']) {
      expect(parseDock(text)).toMatchObject({ tabs: [], at: 0 })
    }
    expect(parseDock('{"size":1000}').size).toBe(75)
  })
})
