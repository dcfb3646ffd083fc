/** A terminal, or several parts side by side or, with rows, below each other. */
export type Layout = string | { rows: boolean; parts: Layout[] }

/** A tab with one or more terminals. */
export interface Tab {
  layout: Layout
}

/** The place of a terminal in its tab, in percent of the tab's size. */
export interface Place {
  id: string
  left: number
  top: number
  width: number
  height: number
}

/** The maximum number of terminals in one tab. */
export const maxPanes = 4

/** Returns the terminals of a tab, in their order. */
export const panesOf = (t: Tab): string[] => places(t).map((p) => p.id)

/** Returns where each terminal of a tab is. */
export function places(t: Tab): Place[] {
  const walk = (l: Layout, left: number, top: number, width: number, height: number): Place[] => {
    if (typeof l === 'string') return [{ id: l, left, top, width, height }]
    const n = l.parts.length
    return l.parts.flatMap((part, i) => l.rows
      ? walk(part, left, top + (i * height) / n, width, height / n)
      : walk(part, left + (i * width) / n, top, width / n, height))
  }
  return walk(t.layout, 0, 0, 100, 100)
}

/**
 * Returns the tabs for the existing terminals: the stored tabs, followed by tabs for new terminals.
 */
export function arrange(left: Tab[], there: string[]): Tab[] {
  const gone = left.flatMap(panesOf).filter((id) => !there.includes(id))
  const tabs = gone.reduce(without, left)
  const placed = new Set(tabs.flatMap(panesOf))
  return [...tabs, ...there.filter((id) => !placed.has(id)).map((id) => ({ layout: id }))]
}

/** Divides the place of a terminal between it and another one, which is beside or below it. */
export function split(tabs: Tab[], beside: string, id: string, rows: boolean): Tab[] {
  const walk = (l: Layout): Layout => {
    if (l === beside) return { rows, parts: [l, id] }
    if (typeof l === 'string') return l
    const at = l.rows === rows ? l.parts.indexOf(beside) : -1
    return at < 0 ? { ...l, parts: l.parts.map(walk) } : { rows, parts: [...l.parts.slice(0, at + 1), id, ...l.parts.slice(at + 1)] }
  }
  return tabs.map((t) => ({ layout: walk(t.layout) }))
}

/** Removes a terminal. Its neighbours get its place. */
export function without(tabs: Tab[], id: string): Tab[] {
  const walk = (l: Layout): Layout | undefined => {
    if (typeof l === 'string') return l === id ? undefined : l
    const parts = l.parts.map(walk).filter((p) => p !== undefined)
    return parts.length > 1 ? { rows: l.rows, parts } : parts[0]
  }
  return tabs.flatMap((t) => {
    const layout = walk(t.layout)
    return layout === undefined ? [] : [{ layout }]
  })
}

/** Parses the stored text, which may contain anything. */
export function parse(text: string | null): Tab[] {
  try {
    let left = 0
    const layout = (v: unknown, deep: number): Layout | undefined => {
      if (typeof v === 'string') return left-- > 0 ? v : undefined
      const { rows, parts } = v as { rows: unknown; parts: unknown[] }
      const all = (deep < maxPanes ? parts : []).map((p) => layout(p, deep + 1)).filter((p) => p !== undefined)
      return all.length > 1 ? { rows: Boolean(rows), parts: all } : all[0]
    }
    return (JSON.parse(text ?? '[]') as { layout: unknown }[]).flatMap((t) => {
      left = maxPanes
      const found = layout(t.layout, 0)
      return found === undefined ? [] : [{ layout: found }]
    })
  } catch {
    return []
  }
}
