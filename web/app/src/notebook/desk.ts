import { signal, type Signal } from '@preact/signals'
import { codePoints } from '@sandgate/client/base'
import { t } from '../language/texts'
import { paletteOpen } from '../ui/palette'
import { failed } from '../ui/toast'
import { toggleAppView } from './appview'
import type { Editors } from './cell-view'
import { shortHash } from './cellkey'
import type { Shell } from './commands'
import type { Dock } from './dock/state'
import type { Notebook } from './notebook'
import type { PaneName } from './pane'
import { rememberedPane, remembersTabs } from './panes'

/** A notebook of the page, with the functions for its commands. */
export interface View {
  notebook: Notebook
  editors: Editors
  shell: Shell
}

/** The code of the part beside the notebook. It is loaded with the first tab. */
type Beside = typeof import('./dock/dock')

/** The state that the parts of the page share: its notebooks, and what is shown beside them. */
export class Desk {
  /** The page's own notebook, which its address names. */
  readonly main: View
  /** The notebooks in tabs beside it. */
  readonly others: Signal<Notebook[]> = signal([])
  /** The notebook that has the keys: the one that was used last. */
  readonly current: Signal<View>
  /** The tabs beside the notebook, and the component that shows them. */
  readonly dock: Signal<{ dock: Dock; View: Beside['DockView'] } | undefined> = signal(undefined)
  /** The pane that is open, and the notebook that it is about. */
  readonly pane: Signal<{ name: PaneName; view: View } | undefined>
  readonly helping = signal(false)
  readonly sharing = signal(false)
  /** The notebook whose cells a dialog moves or copies to another one. */
  readonly sending: Signal<{ view: View; copy: boolean } | undefined> = signal(undefined)
  /** The file that a dialog shows, at a line. */
  readonly file: Signal<{ path: string; line: number } | undefined> = signal(undefined)
  /** Lets the user choose a notebook of this computer. The page provides this function. */
  choose: () => void = () => {}
  #loading: Promise<Beside> | undefined

  constructor(n: Notebook) {
    this.main = this.#view(n)
    this.current = signal(this.main)
    const name = rememberedPane(n)
    this.pane = signal(name && { name, view: this.main })
    if (remembersTabs(n)) this.beside(() => {})
  }

  get notebooks(): Notebook[] {
    return [this.main.notebook, ...this.others.peek()]
  }

  /** Does something with the tabs beside the notebook, once their code is there. */
  beside(f: (m: Beside, dock: Dock) => unknown): void {
    this.#loading ??= import('./dock/dock')
    this.#loading.then((m) => {
      const { session, path } = this.main.notebook
      const { dock } = (this.dock.value ??= { dock: new m.Dock(session.id, session.info.channels.map((c) => c.id), path), View: m.DockView })
      f(m, dock)
    }, (e: unknown) => {
      this.#loading = undefined
      failed(t('This part of the page could not be loaded'), e)
    })
  }

  /** Adds a notebook beside the page's own. */
  add(n: Notebook): View {
    n.prefix = `cell-${shortHash(n.path)}-`
    n.clipboard = this.main.notebook.clipboard
    this.others.value = [...this.others.peek(), n]
    return this.#view(n)
  }

  /** A notebook beside the page's own is no longer there. */
  remove(view: View): void {
    this.others.value = this.others.peek().filter((n) => n !== view.notebook)
    if (this.current.peek() === view) this.current.value = this.main
    const pane = this.pane.peek()
    if (pane?.view === view) this.pane.value = { name: pane.name, view: this.main }
  }

  /** Gives a notebook the keys, and the focus. */
  enter(view: View): void {
    this.current.value = view
    view.notebook.focus()
  }

  #view(n: Notebook): View {
    const editors: Editors = new Map()
    const view: View = { notebook: n, editors, shell: this.#shell(n, editors, (copy) => (this.sending.value = { view, copy }), (name) => {
      const of = name === 'files' ? this.main : view // the files are those of the session
      const now = this.pane.peek()
      this.pane.value = now?.name === name && now.view === of && name !== 'search' ? undefined : { name, view: of }
    }) }
    n.openFile = (path, line) => view.shell.file(path, line)
    return view
  }

  #shell(n: Notebook, editors: Editors, send: Shell['send'], pane: Shell['pane']): Shell {
    return {
      pane,
      send,
      palette: () => (paletteOpen.value = true),
      help: () => (this.helping.value = true),
      export: (as) => void import('./export').then((m) => m.exportNotebook(n, as)).catch((e: unknown) => failed(t('The notebook was not exported'), e)),
      import: () => this.choose(),
      beside: (path) => this.beside((m) => (path === undefined ? m.openTerminal(this) : m.openFile(this, path))),
      print: () => void import('./print').then((m) => m.printPage()).catch((e: unknown) => failed(t('The notebook was not printed'), e)),
      app: () => toggleAppView(n.path),
      cursor: () => {
        const cell = n.activeCell
        const editor = cell && editors.get(cell.id)?.editor
        return editor ? codePoints(cell.source.peek(), editor.cursor) : 0
      },
      file: (path, line) => (this.file.value = { path, line }),
      share: () => (this.sharing.value = true),
    }
  }
}
