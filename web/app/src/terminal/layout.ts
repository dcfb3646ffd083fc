/** Tabs, each with one or more terminals side by side or below each other. */
export interface Tab {
  panes: string[]
  /** Whether they are below each other rather than side by side. */
  rows: boolean
}

/** The maximum number of terminals in one tab. */
export const maxPanes = 4

/**
 * Returns the tabs for the existing terminals: the stored tabs, followed by tabs for new terminals.
 */
export function arrange(left: Tab[], there: string[]): Tab[] {
  const tabs = left.map((t) => ({ ...t, panes: t.panes.filter((id) => there.includes(id)) })).filter((t) => t.panes.length > 0)
  const placed = new Set(tabs.flatMap((t) => t.panes))
  return [...tabs, ...there.filter((id) => !placed.has(id)).map((id) => ({ panes: [id], rows: false }))]
}

/** Puts a terminal beside or below another. */
export function split(tabs: Tab[], beside: string, id: string, rows: boolean): Tab[] {
  return tabs.map((t) => {
    if (!t.panes.includes(beside)) return t
    const panes = [...t.panes]
    panes.splice(panes.indexOf(beside) + 1, 0, id)
    return { panes, rows: t.panes.length === 1 ? rows : t.rows }
  })
}

export function without(tabs: Tab[], id: string): Tab[] {
  return tabs.map((t) => ({ ...t, panes: t.panes.filter((p) => p !== id) })).filter((t) => t.panes.length > 0)
}

/** Parses the stored text, which may contain anything. */
export function parse(text: string | null): Tab[] {
  try {
    const all = JSON.parse(text ?? '[]') as Tab[]
    return all.filter((t) => Array.isArray(t.panes) && t.panes.every((p) => typeof p === 'string')).map((t) => ({ panes: t.panes.slice(0, maxPanes), rows: Boolean(t.rows) }))
  } catch {
    return []
  }
}
