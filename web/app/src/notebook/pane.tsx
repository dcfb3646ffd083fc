import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Icon } from '../ui/icon'
import { failed } from '../ui/toast'
import type { Editors } from './cell-view'
import type { Shell } from './commands'
import type { Notebook } from './notebook'

export type PaneName = 'files' | 'variables' | 'outline' | 'search' | 'versions'

export interface PaneProps {
  notebook: Notebook
  editors: Editors
  shell: Shell
}

// Loaded when they are first opened.
const panes: Record<PaneName, { title: string; load: () => Promise<ComponentType<PaneProps>> }> = {
  files: { title: 'Files', load: () => import('./files').then((m) => m.Files) },
  variables: { title: 'Variables', load: () => import('./variables').then((m) => m.Variables) },
  outline: { title: 'Outline', load: () => import('./outline').then((m) => m.Outline) },
  search: { title: 'Search', load: () => import('./search').then((m) => m.Search) },
  versions: { title: 'Versions', load: () => import('./versions/versions').then((m) => m.Versions) },
}

/** Shows a pane beside the cells, or over them on a phone. */
export function Pane({ name, close, ...props }: PaneProps & { name: PaneName; close: () => void }) {
  const [View, setView] = useState<{ name: PaneName; view: ComponentType<PaneProps> } | undefined>()
  useEffect(() => {
    let here = true
    panes[name].load().then((view) => here && setView({ name, view }), (e: unknown) => failed('The pane could not be loaded', e))
    return () => {
      here = false
    }
  }, [name])
  return (
    <aside class="side" aria-label={panes[name].title} onKeyDown={(e) => { if (e.key === 'Escape') { e.preventDefault(); close() } }}>
      <header class="row"><h2 class="grow">{panes[name].title}</h2><button type="button" class="button icon quiet" aria-label="Close" onClick={close}><Icon name="close" /></button></header>
      {View?.name === name ? <View.view {...props} /> : null}
    </aside>
  )
}
