import type { Notebook } from './notebook'
import type { PaneName } from './pane'

const names: PaneName[] = ['files', 'variables', 'outline', 'search', 'versions']
const nameOf = (n: Notebook) => `sandgate.pane.${n.session.id}`

/**
 * Returns the pane that was open when the notebook was last shown here. A phone has no room for it.
 */
export function rememberedPane(n: Notebook): PaneName | undefined {
  try {
    const name = localStorage.getItem(nameOf(n)) as PaneName
    return innerWidth > 900 && names.includes(name) && !(n.readOnly && name !== 'files' && name !== 'outline') ? name : undefined
  } catch {
    return undefined
  }
}

export function rememberPane(n: Notebook, pane: PaneName | undefined): void {
  try {
    if (pane) localStorage.setItem(nameOf(n), pane)
    else localStorage.removeItem(nameOf(n))
  } catch {
    // Then it lasts as long as this page.
  }
}

/** The name under which the browser remembers the tabs beside the notebook of a session. */
export const tabsName = (session: string): string => `sandgate.dock.${session}`

export function remembersTabs(n: Notebook): boolean {
  try {
    return localStorage.getItem(tabsName(n.session.id)) !== null
  } catch {
    return false
  }
}
