import { signal, type Signal } from '@preact/signals'

/** The content of a tab beside the notebook. */
export type DockTab = { kind: 'file'; path: string; fresh?: boolean } | { kind: 'terminal'; id: string }

/** The part of the page beside the notebook, or below it. */
export interface DockState {
  tabs: DockTab[]
  /** The tab that is shown. */
  at: number
  below: boolean
  /** Its part of the window in percent. */
  size: number
  hidden: boolean
}

/** The number of tabs, and the bounds of its size in percent. */
export const maxTabs = 12
export const sizes = { least: 20, most: 75 }

const empty: DockState = { tabs: [], at: 0, below: false, size: 45, hidden: false }
const nameOf = (session: string) => `sandgate.dock.${session}`

export const sameTab = (a: DockTab, b: DockTab): boolean => keyOf(a) === keyOf(b)
export const keyOf = (t: DockTab): string => (t.kind === 'file' ? `file ${t.path}` : `terminal ${t.id}`)

/** Parses the stored text, which may contain anything. */
export function parseDock(text: string | null): DockState {
  try {
    const v = JSON.parse(text ?? '{}') as Partial<Record<keyof DockState, unknown>>
    const tabs = (Array.isArray(v.tabs) ? v.tabs as unknown[] : []).flatMap((t): DockTab[] => {
      const { kind, path, id } = (t ?? {}) as Record<string, unknown>
      if (kind === 'file' && typeof path === 'string') return [{ kind, path }]
      return kind === 'terminal' && typeof id === 'string' ? [{ kind, id }] : []
    }).slice(0, maxTabs)
    const at = typeof v.at === 'number' && v.at >= 0 && v.at < tabs.length ? Math.trunc(v.at) : 0
    const size = typeof v.size === 'number' ? Math.min(sizes.most, Math.max(sizes.least, v.size)) : empty.size
    return { tabs, at, below: v.below === true, size, hidden: v.hidden === true }
  } catch {
    return empty
  }
}

/** The dock of a session, which the browser remembers. */
export class Dock {
  readonly state: Signal<DockState>
  /** The key of the tab that the user has opened or chosen. Only then a terminal takes the focus. */
  readonly focused: Signal<string> = signal('')
  readonly #name: string

  /** there has the terminals that exist. A terminal that has ended meanwhile is not shown again. */
  constructor(session: string, there: string[]) {
    this.#name = nameOf(session)
    let text: string | null = null
    try {
      text = localStorage.getItem(this.#name)
    } catch {
      // The browser stores nothing.
    }
    this.state = signal(parseDock(text))
    for (const t of this.state.peek().tabs) if (t.kind === 'terminal' && !there.includes(t.id)) this.close(t)
    // On a phone it covers the notebook.
    if (innerWidth <= 900 && this.state.peek().tabs.length) this.state.value = { ...this.state.peek(), hidden: true }
  }

  set(change: Partial<DockState>): void {
    this.state.value = { ...this.state.peek(), ...change }
    try {
      const { tabs, ...rest } = this.state.peek()
      if (tabs.length === 0) localStorage.removeItem(this.#name)
      else localStorage.setItem(this.#name, JSON.stringify({ ...rest, tabs: tabs.map((t) => (t.kind === 'file' ? { kind: t.kind, path: t.path } : t)) }))
    } catch {
      // Then it lasts as long as this page.
    }
  }

  /** Shows a tab. Returns false if there are too many. */
  open(tab: DockTab): boolean {
    const { tabs } = this.state.peek()
    const there = tabs.findIndex((t) => sameTab(t, tab))
    if (there < 0 && tabs.length >= maxTabs) return false
    this.focused.value = keyOf(tab)
    this.set(there < 0 ? { tabs: [...tabs, tab], at: tabs.length, hidden: false } : { at: there, hidden: false })
    return true
  }

  close(tab: DockTab): void {
    const { tabs, at } = this.state.peek()
    const gone = tabs.findIndex((t) => sameTab(t, tab))
    if (gone < 0) return
    const left = tabs.filter((_, i) => i !== gone)
    this.set({ tabs: left, at: Math.max(0, Math.min(at > gone ? at - 1 : at, left.length - 1)) })
  }
}
