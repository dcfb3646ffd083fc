import { useEffect, useState } from 'preact/hooks'
import type { FileInfo } from '@sandgate/client/base'
import { t } from '../language/texts'
import { filesPath, offers, rest } from '../rest'
import { navigate, notebookPath } from '../router'
import { ask } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { MenuItem } from '../ui/menu'
import { failed, toast } from '../ui/toast'
import { queryOf } from './appview'
import type { Desk } from './desk'
import { newNotebook } from './dock/open'
import type { Notebook } from './notebook'

/** The notebooks that the menu lists at most. */
const maxListed = 20

/**
 * Shows the other notebooks of the folder, and makes or renames one: a menu at the name of the file.
 */
export function Notebooks({ desk }: { desk: Desk }) {
  const n = desk.main.notebook
  const folder = n.path.includes('/') ? n.path.slice(0, n.path.lastIndexOf('/') + 1) : ''
  const [found, setFound] = useState<string[]>()
  useEffect(() => {
    if (!offers('POST /v1/sessions/{id}/files/{path}')) return
    let here = true
    rest<{ entries: (FileInfo & { raw?: string })[] }>('GET', `${filesPath(n.session.id, folder)}?list`).then((l) => {
      if (here) setFound(l.entries.filter((e) => !e.dir && !e.raw && e.path.endsWith('.ipynb')).map((e) => e.path.split('/').pop()!).slice(0, maxListed))
    }, () => {}) // the menu has the commands
    return () => {
      here = false
    }
  }, [n])
  const go = (path: string) => navigate(notebookPath(n.session.id) + queryOf(path))
  const others = (found ?? []).filter((name) => folder + name !== n.path)
  return (
    <>
      {others.map((name) => <MenuItem key={name} onClick={() => go(folder + name)}><Icon name="notebook" />{name}</MenuItem>)}
      {others.length > 0 && <hr />}
      {!n.readOnly && <MenuItem onClick={() => void newNotebook(n.session, folder).then((path) => path && go(path))}><Icon name="add" />{t('New notebook…')}</MenuItem>}
      {!n.readOnly && <MenuItem onClick={() => void askForName(n)}><Icon name="edit" />{t('Rename this notebook…')}</MenuItem>}
      <MenuItem onClick={() => desk.main.shell.pane('files')}><Icon name="folder" />{t('All files')}</MenuItem>
    </>
  )
}

async function askForName(n: Notebook): Promise<void> {
  const to = (await ask({ title: t('Rename this notebook'), value: n.path, yes: t('Rename') }))?.trim()
  if (to) await moveNotebook(n, to)
}

/**
 * Moves the file of the open notebook, and opens it at its new place. Nobody else may have it open,
 * because their pages would write the file at its old place.
 */
export async function moveNotebook(n: Notebook, to: string): Promise<void> {
  const path = to.endsWith('.ipynb') ? to : `${to}.ipynb`
  if (path === n.path) return
  if ((n.sharing.peek()?.people.peek() ?? []).some((p) => !p.self)) return toast(t('Somebody else has this notebook open. Rename it when they have left.'))
  try {
    await n.save()
    if (n.saved.peek() === 'failed') return
    await rest('POST', filesPath(n.session.id, n.path), { op: 'move', to: path })
    navigate(notebookPath(n.session.id) + queryOf(path), { replace: true })
  } catch (e) {
    failed(t('The notebook was not renamed'), e)
  }
}
