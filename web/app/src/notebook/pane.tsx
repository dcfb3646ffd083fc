import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { t } from '../language/texts'
import { Icon } from '../ui/icon'
import { failed } from '../ui/toast'
import type { Desk, View } from './desk'

export type PaneName = 'files' | 'variables' | 'outline' | 'search' | 'versions'

export type PaneProps = View

// Loaded when they are first opened.
const loaders: Record<PaneName, () => Promise<ComponentType<PaneProps>>> = {
  files: () => import('./files').then((m) => m.Files),
  variables: () => import('./variables').then((m) => m.Variables),
  outline: () => import('./outline').then((m) => m.Outline),
  search: () => import('./search').then((m) => m.Search),
  versions: () => import('./versions/versions').then((m) => m.Versions),
}

/**
 * Shows a pane beside the cells, or over them on a phone. It names its notebook unless that is the
 * page's own.
 */
export function Pane({ desk, name, view }: { desk: Desk; name: PaneName; view: View }) {
  const [Part, setPart] = useState<{ name: PaneName; part: ComponentType<PaneProps> } | undefined>()
  useEffect(() => {
    let here = true
    loaders[name]().then((part) => here && setPart({ name, part }), (e: unknown) => failed(t('The pane could not be loaded'), e))
    return () => {
      here = false
    }
  }, [name])
  const title = { files: t('Files'), variables: t('Variables'), outline: t('Outline'), search: t('Search'), versions: t('Versions') }[name]
  const close = () => {
    desk.pane.value = undefined
    desk.enter(view)
  }
  return (
    <aside class="side" aria-label={title} onFocusIn={() => (desk.current.value = view)} onKeyDown={(e) => { if (e.key === 'Escape') { e.preventDefault(); close() } }}>
      <header class="row"><h2>{title}</h2><span class="grow muted ellipsis">{view !== desk.main && view.notebook.path}</span><button type="button" class="button icon quiet" aria-label={t('Close')} onClick={close}><Icon name="close" /></button></header>
      {Part?.name === name ? <Part.part key={view.notebook.path} {...view} /> : null}
    </aside>
  )
}
