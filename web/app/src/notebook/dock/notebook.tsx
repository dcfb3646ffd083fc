import { useEffect, useState } from 'preact/hooks'
import { t } from '../../language/texts'
import { navigate, notebookPath } from '../../router'
import { explain, mayHelp } from '../../ui/again'
import { Icon } from '../../ui/icon'
import { Menu, MenuItem } from '../../ui/menu'
import { queryOf } from '../appview'
import { Cells, useCare, useGone } from '../cells'
import { allowed } from '../commands'
import type { Desk, View } from '../desk'
import { Notebook } from '../notebook'
import { CommandItem, Everybody, RunControls, SaveState } from '../toolbar'
import { keyOf, type Dock } from './state'

/** A notebook beside the page's own. It is opened when its tab is first shown. */
export function NotebookTab({ desk, dock, path, shown }: { desk: Desk; dock: Dock; path: string; shown: boolean }) {
  const [wanted, setWanted] = useState(shown)
  const [turn, setTurn] = useState(0)
  const [view, setView] = useState<View>()
  useEffect(() => {
    if (shown) setWanted(true)
  }, [shown])
  useEffect(() => {
    if (!wanted) return
    const { session, readOnly } = desk.main.notebook
    const n = new Notebook(session, path, readOnly)
    const made = desk.add(n)
    setView(made)
    // If the user has opened it, it gets the focus, unless they do something else by now.
    let elsewhere = false
    const busy = () => (elsewhere = true)
    const signs = ['pointerdown', 'keydown'] as const
    for (const s of signs) addEventListener(s, busy, true)
    void n.open().then(() => {
      if (n.ready.peek() && !elsewhere && dock.focused.peek() === keyOf({ kind: 'notebook', path })) desk.enter(made)
    })
    return () => {
      for (const s of signs) removeEventListener(s, busy, true)
      n.close()
      desk.remove(made)
    }
  }, [wanted, turn])
  const problem = view?.notebook.problem.value
  if (problem) {
    return (
      <div class="dock-said" role="alert">
        <p>{t('{path} could not be opened', { path })}. {explain(problem)}</p>
        {mayHelp(problem) && <button type="button" class="button" onClick={() => setTurn(turn + 1)}>{t('Try again')}</button>}
      </div>
    )
  }
  if (!view?.notebook.ready.value) return <p class="dock-said muted" role="status">{t('Opening…')}</p>
  return <Opened desk={desk} view={view} />
}

function Opened({ desk, view }: { desk: Desk; view: View }) {
  const n = view.notebook
  const gone = useGone(n.ended.value !== undefined)
  useCare(n)
  const items = (...ids: string[]) => ids.filter((id) => allowed(id, n)).map((id) => <CommandItem key={id} view={view} id={id} />)
  return (
    <div class="dock-notebook" onFocusIn={() => (desk.current.value = view)}>
      <div class="row dock-bar">
        <RunControls view={view} shared />
        {!n.readOnly && <SaveState notebook={n} />}
        <span class="grow" />
        <Everybody notebook={n} />
        <Menu label={t('Notebook {name}', { name: n.path })} button={<Icon name="menu" />}>
          {() => (
            <>
              {items('outline', 'search')}<hr />
              {items('save', 'versions', 'undo', 'redo')}<hr />
              {items('duplicate', 'export-ipynb', 'export-html', 'export-script')}<hr />
              <MenuItem onClick={() => navigate(notebookPath(n.session.id) + queryOf(n.path))}>{t('Open as the notebook of the page')}</MenuItem>
              <p class="usage muted">{t('The page prints and shares its own notebook, and names it in its address.')}</p>
            </>
          )}
        </Menu>
      </div>
      {gone && <gone.Ended notebook={n} />}
      <Cells view={view} current={desk.current} />
      <div class="sr" role="status" aria-live="polite">{n.said.value}</div>
    </div>
  )
}
