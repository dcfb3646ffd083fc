import { signal, type Signal } from '@preact/signals'
import { tabsName } from '../panes'

/** The content of a tab beside the notebook. fresh: the file does not exist yet. */
export type DockTab =
  | { kind: 'file'; path: string; fresh?: boolean }
  | { kind: 'notebook'; path: string }
  | { kind: 'terminal'; id: string }
  | { kind: 'preview'; port: number; path: string }

/** Tabs of which one is shown. */
export interface DockGroup {
  tabs: DockTab[]
  /** The tab that is shown. */
  at: number
  /** Its part of the space, in relation to the other groups. */
  share: number
}

/** The part of the page beside the notebook, or below it. */
export interface DockState {
  groups: DockGroup[]
  /** The group that was used last. New tabs open there. */
  current: number
  /** The groups are one below the other, and not side by side. */
  stacked: boolean
  below: boolean
  /** Its part of the window in percent. */
  size: number
  hidden: boolean
}

/**
 * The place for a tab: before another tab of a group, or at its end. With split, a new group before
 * this one gets it.
 */
export interface Place {
  group: number
  before?: string
  split?: boolean
}

/** The number of tabs and of groups, and the bounds of the size in percent. */
export const maxTabs = 12
export const maxGroups = 3
export const sizes = { least: 20, most: 75 }

const empty: DockState = { groups: [], current: 0, stacked: true, below: false, size: 45, hidden: false }

export function keyOf(t: DockTab): string {
  switch (t.kind) {
    case 'terminal': return `terminal ${t.id}`
    case 'preview': return `preview ${t.port}`
    default: return `${t.kind} ${t.path}`
  }
}

export const isPort = (n: unknown): n is number => Number.isInteger(n) && (n as number) > 0 && (n as number) < 65_536

const within = (n: unknown, least: number, most: number, otherwise: number): number => (typeof n === 'number' && n >= least && n <= most ? n : otherwise)

function parseTab(t: unknown): DockTab[] {
  const { kind, path, id, port } = (t ?? {}) as Record<string, unknown>
  if ((kind === 'file' || kind === 'notebook') && typeof path === 'string') return [{ kind, path }]
  if (kind === 'preview' && isPort(port) && typeof path === 'string' && path.startsWith('/')) return [{ kind, port, path }]
  return kind === 'terminal' && typeof id === 'string' ? [{ kind, id }] : []
}

/** Parses the stored text, which may contain anything. Earlier versions have one group. */
export function parseDock(text: string | null): DockState {
  try {
    const v = JSON.parse(text ?? '{}') as Partial<Record<keyof DockState | 'tabs', unknown>>
    const seen = new Set<string>()
    const groups = (Array.isArray(v.groups) ? v.groups as unknown[] : [v]).slice(0, maxGroups).map((g): DockGroup => {
      const { tabs, at, share } = (g ?? {}) as Record<string, unknown>
      const read = (Array.isArray(tabs) ? tabs as unknown[] : []).flatMap(parseTab).filter((t) => seen.size < maxTabs && !seen.has(keyOf(t)) && seen.add(keyOf(t)))
      return { tabs: read, at: Math.trunc(within(at, 0, read.length - 1, 0)), share: within(share, 0.1, 10, 1) }
    })
    return tidy({
      groups, current: Math.trunc(within(v.current, 0, groups.length - 1, 0)), stacked: v.stacked !== false, below: v.below === true,
      size: typeof v.size === 'number' ? Math.min(sizes.most, Math.max(sizes.least, v.size)) : empty.size, hidden: v.hidden === true,
    })
  } catch {
    return empty
  }
}

/** Returns the state without empty groups. */
function tidy(s: DockState): DockState {
  const now = s.groups[s.current]
  const groups = s.groups.filter((g) => g.tabs.length > 0)
  const at = now ? groups.indexOf(now) : -1
  return { ...s, groups, current: at < 0 ? Math.max(0, Math.min(s.current, groups.length - 1)) : at }
}

/** Returns the group without a tab. Its neighbour is shown if it was the one in sight. */
function without(g: DockGroup, key: string): DockGroup {
  const gone = g.tabs.findIndex((t) => keyOf(t) === key)
  if (gone < 0) return g
  const tabs = g.tabs.filter((_, i) => i !== gone)
  return { ...g, tabs, at: Math.max(0, Math.min(g.at > gone ? g.at - 1 : g.at, tabs.length - 1)) }
}

/** Returns the indexes of a tab's group and of the tab in it; undefined if there is no such tab. */
export function find(s: DockState, key: string): { group: number; at: number } | undefined {
  for (const [group, g] of s.groups.entries()) {
    const at = g.tabs.findIndex((t) => keyOf(t) === key)
    if (at >= 0) return { group, at }
  }
  return undefined
}

/** Returns the state with a tab at another place; the same state if there is no room for a group. */
export function moved(s: DockState, key: string, to: Place): DockState {
  const from = find(s, key)
  if (!from || to.before === key) return s
  const tab = s.groups[from.group]!.tabs[from.at]!
  const groups = s.groups.map((g) => without(g, key))
  if (to.split) {
    if (groups.filter((g) => g.tabs.length > 0).length >= maxGroups) return s
    groups.splice(to.group, 0, { tabs: [tab], at: 0, share: 1 })
    return tidy({ ...s, groups, current: to.group })
  }
  const g = groups[to.group]
  if (!g) return s
  const before = g.tabs.findIndex((t) => keyOf(t) === to.before)
  const at = before < 0 ? g.tabs.length : before
  groups[to.group] = { ...g, tabs: g.tabs.toSpliced(at, 0, tab), at }
  return tidy({ ...s, groups, current: to.group })
}

/**
 * Returns the place of a tab after one step: past its neighbour, or with over into the next group.
 * Past the last group there is a new one. Undefined if there is nothing to step over.
 */
export function stepped(s: DockState, key: string, by: 1 | -1, over = false): Place | undefined {
  const from = find(s, key)
  if (!from) return undefined
  const { tabs } = s.groups[from.group]!
  if (!over && tabs[from.at + by]) {
    const before = tabs[by > 0 ? from.at + 2 : from.at - 1]
    return { group: from.group, ...(before ? { before: keyOf(before) } : {}) }
  }
  const group = from.group + by
  const next = s.groups[group]
  if (next) return { group, ...(by > 0 ? { before: keyOf(next.tabs[0]!) } : {}) }
  return tabs.length > 1 && s.groups.length < maxGroups ? { group: by > 0 ? group : 0, split: true } : undefined
}

/** Returns the groups as they are shown: a phone has room for one. */
export function shownGroups(s: DockState, phone: boolean): DockGroup[] {
  if (!phone || s.groups.length < 2) return s.groups
  const before = s.groups.slice(0, s.current).reduce((n, g) => n + g.tabs.length, 0)
  return [{ tabs: s.groups.flatMap((g) => g.tabs), at: before + s.groups[s.current]!.at, share: 1 }]
}

/** The dock of a session, which the browser remembers. */
export class Dock {
  readonly state: Signal<DockState>
  /** The key of the tab that the user has opened or chosen. Only then it takes the focus. */
  readonly focused: Signal<string> = signal('')
  /** The key of the tab that gets the focus when it is drawn, to continue with keys. */
  readonly wanted: Signal<string> = signal('')
  readonly #name: string

  /**
   * there has the terminals that exist. A terminal that has ended meanwhile is not shown again, and
   * neither is the notebook that the page itself shows.
   */
  constructor(session: string, there: string[], main = '') {
    this.#name = tabsName(session)
    let text: string | null = null
    try {
      text = localStorage.getItem(this.#name)
    } catch {
      // The browser stores nothing.
    }
    this.state = signal(parseDock(text))
    for (const t of this.tabs) if (t.kind === 'terminal' ? !there.includes(t.id) : t.kind === 'notebook' && t.path === main) this.close(t)
    // On a phone it covers the notebook.
    if (innerWidth <= 900 && this.tabs.length) this.state.value = { ...this.state.peek(), hidden: true }
  }

  get tabs(): DockTab[] {
    return this.state.peek().groups.flatMap((g) => g.tabs)
  }

  set(change: Partial<DockState>): void {
    this.state.value = { ...this.state.peek(), ...change }
    try {
      const { groups, ...rest } = this.state.peek()
      const kept = groups.map((g) => ({ ...g, tabs: g.tabs.map((t) => (t.kind === 'file' ? { kind: t.kind, path: t.path } : t)) }))
      if (groups.length === 0) localStorage.removeItem(this.#name)
      else localStorage.setItem(this.#name, JSON.stringify({ ...rest, groups: kept }))
    } catch {
      // Then it lasts as long as this page.
    }
  }

  /** Shows a tab, in place of one with the same key. Returns false if there are too many. */
  open(tab: DockTab): boolean {
    const s = this.state.peek()
    const there = find(s, keyOf(tab))
    if (!there && this.tabs.length >= maxTabs) return false
    const group = there?.group ?? s.current
    const g = s.groups[group] ?? { tabs: [], at: 0, share: 1 }
    const at = there?.at ?? g.tabs.length
    this.focused.value = keyOf(tab)
    this.set({ groups: s.groups.toSpliced(group, 1, { ...g, tabs: g.tabs.toSpliced(at, 1, tab), at }), current: group, hidden: false })
    return true
  }

  /** Shows the tab with a key, in its group. */
  show(key: string): void {
    const s = this.state.peek()
    const there = find(s, key)
    if (there) this.set({ groups: s.groups.with(there.group, { ...s.groups[there.group]!, at: there.at }), current: there.group })
  }

  close(tab: DockTab): void {
    const s = this.state.peek()
    this.set(tidy({ ...s, groups: s.groups.map((g) => without(g, keyOf(tab))) }))
  }

  /** Moves a tab. Returns false if it stays where it is. */
  move(key: string, to: Place | undefined): boolean {
    const s = this.state.peek()
    const next = to ? moved(s, key, to) : s
    if (next !== s) this.set(next)
    return next !== s
  }
}
