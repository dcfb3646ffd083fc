import { effect } from '@preact/signals'
import type { FileInfo } from '@sandgate/client/base'
import { useEffect, useState } from 'preact/hooks'
import { t } from '../language/texts'
import { filesPath, offers, rest } from '../rest'
import { Dialog } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { failed } from '../ui/toast'
import type { Desk, View } from './desk'
import type { Notebook } from './notebook'
import { transfer } from './transfer'

/** The number of notebooks that are offered. */
const maxOffered = 50

/** Asks for a notebook, and moves or copies the selected cells below its active cell. */
export function Send({ desk, view, copy, onClose }: { desk: Desk; view: View; copy: boolean; onClose: () => void }) {
  const from = view.notebook
  const [cells] = useState(from.selected.peek())
  const open = [desk.main.notebook.path, ...(desk.dock.value?.dock.tabs ?? []).flatMap((tab) => (tab.kind === 'notebook' ? [tab.path] : []))]
  const [files, setFiles] = useState<string[]>([])
  useEffect(() => {
    if (!offers('POST /v1/sessions/{id}/files/{path}')) return
    let here = true
    rest<{ entries: FileInfo[] }>('GET', `${filesPath(from.session.id, '')}?list`).then((l) => {
      if (here) setFiles(l.entries.filter((e) => !e.dir && e.path.endsWith('.ipynb')).map((e) => e.path.split('/').pop()!))
    }, () => {}) // those that are open can be chosen
    return () => {
      here = false
    }
  }, [])
  const send = (to: Notebook | undefined) => {
    if (!to) return
    const below = to.cells.peek()[to.cells.peek().findIndex((c) => c.id === to.active.peek()) + 1]
    if (!transfer(from, cells, to, below?.id, copy)) return
    to.element(to.active.peek())?.scrollIntoView({ block: 'nearest' })
    from.mode.value = 'command'
  }
  const choose = (path: string) => {
    onClose()
    void opened(desk, path).then(send, (e: unknown) => failed(t('The cells were not moved'), e))
  }
  const create = () => {
    onClose()
    desk.beside((m) => void m.newNotebook(from.session).then((path) => {
      if (path) return opened(desk, path).then(send)
    }))
  }
  const offered = [...new Set([...open, ...files])].filter((path) => path !== from.path).slice(0, maxOffered)
  const title = copy ? t('Copy cells to') : t('Move cells to')
  return (
    <Dialog label={title} onClose={onClose}>
      <div class="dialog">
        <h2>{title}</h2>
        <div class="choices">
          {offered.map((path, i) => <button key={path} type="button" class="button" autofocus={i === 0} onClick={() => choose(path)}><Icon name="notebook" /><span class="ellipsis">{path}</span></button>)}
          <button type="button" class="button" autofocus={offered.length === 0} onClick={create}><Icon name="add" />{t('New notebook…')}</button>
        </div>
        <div class="actions"><button type="button" class="button" onClick={onClose}>{t('Cancel')}</button></div>
      </div>
    </Dialog>
  )
}

/**
 * Returns a notebook of the page, which is opened first if it is not; undefined, with a message, if
 * there are too many tabs. Rejects if it cannot be opened.
 */
function opened(desk: Desk, path: string): Promise<Notebook | undefined> {
  const main = desk.main.notebook
  if (path === main.path) return Promise.resolve(main)
  return new Promise((resolve, reject) => {
    const wait = () => {
      const stop = effect(() => {
        const n = desk.others.value.find((x) => x.path === path)
        if (!n?.ready.value && !n?.problem.value) return
        queueMicrotask(() => stop()) // it can be there at once
        if (n.problem.value) reject(n.problem.value)
        else resolve(n)
      })
    }
    if (desk.others.peek().some((n) => n.path === path)) wait()
    else desk.beside((m) => (m.openFile(desk, path) ? wait() : resolve(undefined)))
  })
}
