import { batch, computed, effect, signal, type Signal } from '@preact/signals'
import type { SandgateError, Sandbox } from '@sandgate/client/base'
import { t } from '../language/texts'
import { restBlob } from '../rest'
import { autosave } from '../settings'
import { failed, toast } from '../ui/toast'
import { sortComments } from './comment'
import { CellModel } from './cell'
import { shortHash } from './cellkey'
import type { Dropped } from './drop'
import { formatNotebook, parseNotebook, type CellJSON, type CellType, type NotebookJSON } from './ipynb'
import { keepCopy } from './keep'
import { Kernels, type KernelLink, type Mark } from './kernels'
import { facts, languageOf } from './languages'
import { save as saveFile } from './rich'
import type { News } from './news'
import { hiddenCells, sectionOf } from './sections'
import type { Sums } from './shared/document'
import type { Page, Sharing } from './shared/sharing'
import { Store } from './store'

export type SaveState = 'saved' | 'unsaved' | 'saving' | 'failed'

/** The number of steps that can be undone. */
const maxUndo = 100
const saveAfter = 800
/** The same for output of a cell that runs. */
const outputAfter = 4000
/** The same for a page that is not the one that saves for all who edit the notebook. */
const followAfter = 2500
/** How long after a change of others a page saves it, unless somebody else does. */
const lateAfter = 5000
/** How often a save is retried when other saves come first. */
const maxWrites = 5
const lookEvery = 3000
/**
 * How long after the last activity the file is checked, because each check keeps the session awake.
 */
const lookFor = 60_000

type Object = Record<string, unknown>
const object = (v: unknown): Object => (typeof v === 'object' && v !== null ? (v as Object) : {})

const isGone = (e: unknown): boolean => ['not_found', 'sandbox_lost'].includes((e as SandgateError).kind)

/** A change of the cells that can be undone. */
interface Step {
  before: CellModel[]
  after: CellModel[]
  active: string
  /** The end of the active cell's text that the step has removed, or added. */
  tail?: string
  added?: string
  /** The step is one half of a move between two notebooks. */
  move?: Move | undefined
}

/** A move of cells between two notebooks, which is a step in each of them. */
export interface Move {
  /**
   * Undoes or repeats the step of the other notebook. It returns `later` if the cells run, and `never`
   * if cells would be lost.
   */
  follow(n: Notebook, undo: boolean): 'yes' | 'later' | 'never'
}

/** Cells that were copied or cut. */
export type Clipboard = { json: CellJSON; language: string }[]

/** An open notebook: its cells, the selection, its kernels, its file. */
export class Notebook implements Page {
  readonly session: Sandbox
  readonly path: string
  readonly cells: Signal<CellModel[]> = signal([])
  /** The cell that receives keys, and the cell where a selection of several cells began. */
  readonly active: Signal<string> = signal('')
  readonly anchor: Signal<string> = signal('')
  readonly mode: Signal<'command' | 'edit'> = signal('command')
  readonly language: Signal<string>
  readonly saved: Signal<SaveState> = signal('saved')
  readonly problem: Signal<SandgateError | Error | undefined> = signal(undefined)
  readonly ready: Signal<boolean> = signal(false)
  /** The session has ended; the reason in words, or empty. The notebook is only in this page. */
  readonly ended: Signal<string | undefined> = signal(undefined)
  /** Messages about the session that the user has not closed; undefined without any. */
  readonly news: Signal<News | undefined> = signal(undefined)
  /** There was no file to open. */
  fresh = false
  /** Files that were dropped on the notebook and are not yet uploaded. */
  readonly incoming: Signal<Dropped[] | undefined> = signal(undefined)
  readonly kernels: Kernels
  /** The other pages that have this notebook open; undefined if only the file connects them. */
  readonly sharing: Signal<Sharing | undefined> = signal(undefined)
  /** The components that show them. */
  readonly people: Signal<typeof import('./shared/people') | undefined> = signal(undefined)
  /** The component that shows comments; loaded with the first of them. */
  readonly thread: Signal<typeof import('./comments/thread') | undefined> = signal(undefined)
  /** A read-only user may change and run nothing. */
  readonly readOnly: boolean
  /** Grows when a cell has ended, so that panes with the kernel's state update themselves. */
  readonly turns: Signal<number> = signal(0)
  /** Announcements for screen readers. */
  readonly said: Signal<string> = signal('')
  readonly selected = computed(() => {
    const cells = this.cells.value
    const a = cells.findIndex((c) => c.id === this.active.value)
    const b = cells.findIndex((c) => c.id === this.anchor.value)
    return b < 0 ? cells.slice(a, a + 1) : cells.slice(Math.min(a, b), Math.max(a, b) + 1)
  })
  /** Cells have several languages, or another one than the notebook. */
  readonly mixed = computed(() => this.cells.value.some((c) => c.type.value === 'code' && c.language.value !== this.language.value))
  /** Shows a file at a line. The page provides this function. */
  openFile: (path: string, line: number) => void = () => {}
  /** The cells that folded headings hide. */
  readonly hidden = computed(() => hiddenCells(this.cells.value))
  /** The cell whose text was typed before its editor was loaded. */
  typedAhead = ''
  /** Sets the page's focus as in the model. The page provides this function. */
  focus: () => void = () => {}
  /** Returns the element of a cell. The page provides this function. */
  element: (id: string) => HTMLElement | null = () => null
  /** The ids of the cells' elements begin with this. Two notebooks can have cells with equal ids. */
  prefix = 'cell-'
  /** The cells that were copied last in any notebook of the page. */
  clipboard: { cells: Clipboard } = { cells: [] }
  readonly #store: Store
  #metadata: Object = {}
  #minor = 5
  #undo: Step[] = []
  #redo: Step[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  #due = 0 // when it fires
  #look: ReturnType<typeof setInterval> | undefined
  #edits = new Map<CellModel, () => void>()
  #touched = new Set<string>() // cells that differ from the file
  #edited = new Set<string>() // those whose code differs, and not only their output
  #closed = false
  #stirred = Date.now()
  #version = 0
  #theirs = false // somebody else has done what changes
  #late: ReturnType<typeof setTimeout> | undefined
  /** Saves what has waited for the setting to change. */
  readonly #stopWaiting = effect(() => {
    if (autosave.value && this.saved.peek() === 'unsaved') this.#plan(saveAfter)
  })

  constructor(session: Sandbox, path: string, readOnly = false) {
    this.readOnly = readOnly
    this.session = session
    this.path = path
    this.language = signal(languageOf(session.info.language) ?? session.info.language)
    this.#store = new Store(session, path, () => void this.refresh())
    this.kernels = new Kernels(session, shortHash(path), {
      find: (id) => this.find(id),
      unknown: (id, language, code) => this.#appear(id, language, code),
      changed: () => this.touch(),
      order: () => 1 + Math.max(0, ...this.cells.peek().map((c) => c.order.peek() ?? 0)),
      ended: (cell) => {
        this.turns.value++
        const n = this.cells.peek().indexOf(cell) + 1
        this.said.value = { ok: t('Cell {n}: done', { n }), error: t('Cell {n}: failed', { n }), aborted: t('Cell {n}: not run', { n }) }[cell.state.peek() as 'ok'] ?? t('Cell {n}: ended', { n })
      },
      failed,
      gone: () => void this.#checkSession(),
      event: (e, kernel) => void import('./news').then((m) => m.add(this.news, e, kernel)).catch(() => {}),
    }, readOnly)
  }

  async open(): Promise<void> {
    try {
      const file = await this.#store.load()
      this.#take(file ?? { cells: [], metadata: {}, nbformat_minor: 5 })
      const empty = this.cells.peek().length === 0
      if (empty) this.#set([new CellModel({ cell_type: 'code' }, this.language.peek())])
      if (!this.readOnly) {
        await this.#share(file)
        this.#draft()
      }
      const cells = this.cells.peek()
      this.fresh = empty && cells.length === 1 && cells[0]!.source.peek() === ''
      if (this.fresh && !this.readOnly) this.mode.value = 'edit' // what is typed is code
      this.active.value = this.anchor.value = this.cells.peek()[0]!.id
      const marks = object(object(this.#metadata.sandgate).kernels) as Record<string, Mark>
      const mine = object(this.#metadata.sandgate).session === this.session.id
      if (mine) this.#remind(object(object(this.#metadata.sandgate).executions))
      await this.kernels.follow(mine ? marks : {})
      this.ready.value = true
      this.#look = setInterval(() => {
        if (!document.hidden && Date.now() - this.#stirred < lookFor) void this.refresh()
      }, lookEvery)
    } catch (e) {
      this.problem.value = e as Error
    }
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    clearInterval(this.#look)
    clearTimeout(this.#late)
    const end = () => this.sharing.peek()?.close()
    if (this.saved.peek() === 'unsaved' && autosave.peek()) void this.save().finally(end)
    else {
      this.keepDraft()
      end()
    }
    this.#stopWaiting()
    for (const stop of this.#edits.values()) stop()
    this.#edits.clear()
    this.kernels.close()
    this.#store.close()
  }

  find(id: string): CellModel | undefined {
    return this.cells.peek().find((c) => c.id === id)
  }

  get activeCell(): CellModel | undefined {
    return this.find(this.active.peek())
  }

  // --- the file ---

  #take(n: NotebookJSON): void {
    this.#metadata = n.metadata
    this.#minor = Math.max(5, n.nbformat_minor)
    const main = languageOf(object(n.metadata.kernelspec).name) ?? languageOf(object(n.metadata.language_info).name) ??
      languageOf(object(n.metadata.kernelspec).language)
    if (main) this.language.value = main
    this.#set(n.cells.map((c) => new CellModel(c, this.language.peek())))
  }

  #set(cells: CellModel[]): void {
    for (const c of cells) this.#watch(c)
    this.cells.value = cells
  }

  /** Edits the notebook together with others, if the server offers it. */
  async #share(file: NotebookJSON | undefined): Promise<void> {
    const { Sharing } = await import('./shared/sharing')
    const etag = this.#store.etag
    const s = (this.sharing.value = await Sharing.join(this, { cells: file?.cells ?? [], etag }))
    if (s) void import('./shared/people').then((m) => (this.people.value = m))
    if (s && file && s.saved?.etag !== etag) await s.take(file, etag)
  }

  /** Changes cells as somebody else has done. */
  theirs(f: () => void): void {
    const before = this.#theirs
    this.#theirs = true
    try {
      batch(f)
    } finally {
      this.#theirs = before
    }
  }

  /** Shows the cells as somebody else has arranged them. */
  show(next: CellModel[]): void {
    const cells = this.cells.peek()
    const at = cells.findIndex((c) => c.id === this.active.peek())
    const near = [...cells.slice(at), ...cells.slice(0, Math.max(0, at)).reverse()].find((c) => next.includes(c)) ?? next[0]
    this.#set(next)
    if (near && near.id !== this.active.peek()) this.select(near.id)
    else if (!this.find(this.anchor.peek())) this.anchor.value = this.active.peek()
  }

  late(): void {
    if (this.#closed) return
    if (!autosave.peek()) {
      if (this.sharing.peek()?.isSaved === false && this.saved.peek() === 'saved') this.saved.value = 'unsaved'
      return
    }
    this.#late ??= setTimeout(() => {
      this.#late = undefined
      if (this.sharing.peek()?.isSaved === false) void this.save()
    }, lateAfter)
  }

  savedByOthers(): void {
    clearTimeout(this.#late)
    this.#late = undefined
    if (this.saved.peek() !== 'unsaved' || [...this.#touched].some((id) => !this.#edited.has(id))) return
    this.#clean()
    this.#forgetDraft()
  }

  /** Nothing is left to save. */
  #clean(): void {
    this.#touched.clear()
    this.#edited.clear()
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.saved.value = 'saved'
  }

  /** Saves when a cell changes. */
  #watch(c: CellModel): void {
    if (this.#edits.has(c)) return
    let first = true
    const stop = effect(() => {
      void c.source.value
      void c.type.value
      void c.language.value
      void c.folded.value
      void c.section.value
      void c.comments.value
      if (!first && !this.#theirs) {
        this.#edited.add(c.id)
        this.touch(c)
      }
      first = false
    })
    c.output.changed = () => this.touch(c)
    c.output.provide(() => this.kernelOf(c))
    c.output.download = () => void this.download(c)
    c.output.openFile = (path, line) => this.openFile(path, line)
    c.output.jump = (line, count) => {
      const at = (count !== undefined && this.cells.peek().find((x) => x.count.peek() === count && x.language.peek() === c.language.peek())) || c
      at.errorLine.value = 0
      at.errorLine.value = line
      this.select(at.id)
      this.mode.value = 'edit'
      this.focus()
    }
    this.#edits.set(c, stop)
  }

  /** The user is active: show changes of others when they are saved. */
  stir(): void {
    const long = Date.now() - this.#stirred >= lookFor
    this.#stirred = Date.now()
    if (long) void this.refresh()
  }

  /**
   * Types a key into the active cell, whose editor is being loaded. Returns false for a key that is
   * no text.
   */
  typeAhead(e: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>): boolean {
    const c = this.activeCell
    const plain = !e.ctrlKey && !e.metaKey && !e.altKey
    if (!c || this.readOnly || !plain) return false
    if (e.key.length === 1) c.source.value += e.key
    else if (e.key === 'Enter' && !e.shiftKey) c.source.value += '\n'
    else if (e.key === 'Backspace') c.source.value = c.source.peek().slice(0, -1)
    else return false
    this.typedAhead = c.id
    return true
  }

  /** Schedules a save. */
  touch(c?: CellModel): void {
    if (this.readOnly || this.#theirs) return
    this.#stirred = Date.now()
    if (c) this.#touched.add(c.id)
    this.#version++
    if (this.#closed) return
    if (this.saved.peek() !== 'saving') this.saved.value = 'unsaved'
    if (!autosave.peek()) return
    const s = this.sharing.peek()
    const printing = c?.state.peek() === 'running' && !this.#edited.has(c.id)
    this.#plan(printing ? outputAfter : s && !s.leads ? followAfter : saveAfter)
  }

  /** Saves after a time, unless that is planned for earlier. */
  #plan(ms: number): void {
    const due = Date.now() + ms
    if (this.#timer !== undefined && this.#due <= due) return
    clearTimeout(this.#timer)
    this.#due = due
    this.#timer = setTimeout(() => void this.save(), ms)
  }

  toJSON(): NotebookJSON {
    const main = this.language.peek()
    const { sandgate: _, ...metadata } = this.#metadata
    const f = facts(main)
    return {
      cells: this.cells.peek().map((c) => c.toJSON(main)),
      metadata: {
        ...metadata,
        kernelspec: { display_name: f.short, language: f.vscode, name: f.kernelspec, ...(languageOf(object(metadata.kernelspec).name) === main ? object(metadata.kernelspec) : {}) },
      },
      nbformat_minor: this.#minor,
    }
  }

  /** Returns the notebook as a file for others, without data of this server. */
  export(): string {
    return formatNotebook(this.toJSON())
  }

  /** The last execution of each cell, by which its output and its recording are found. */
  #executions(): Record<string, [channel: string, number: number, order: number]> {
    return Object.fromEntries(this.cells.peek().flatMap((c) => (c.execution ? [[c.id, [c.channel, c.execution, c.order.peek() ?? 0]]] : [])))
  }

  #remind(executions: Object): void {
    for (const c of this.cells.peek()) {
      const [channel, number, order] = (executions[c.id] ?? []) as unknown[]
      if (typeof channel !== 'string' || typeof number !== 'number') continue
      c.channel = channel
      c.execution = number
      if (typeof order === 'number' && order > 0) c.order.value = order
    }
  }

  async save(): Promise<void> {
    if (this.readOnly) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.ended.peek() !== undefined) return this.keepDraft()
    if (this.saved.peek() === 'saving') {
      this.touch()
      return
    }
    this.saved.value = 'saving'
    const version = this.#version
    try {
      await this.#write()
      this.saved.value = version === this.#version ? 'saved' : 'unsaved'
      if (version === this.#version) this.#forgetDraft()
      else if (autosave.peek()) this.#plan(this.kernels.busy.peek() ? outputAfter : saveAfter)
    } catch (e) {
      this.saved.value = 'failed'
      if (this.#closed) return
      if (isGone(e) && await this.#checkSession()) return
      failed(t('The notebook was not saved'), e)
      this.#plan(5 * saveAfter)
    }
  }

  /** Replaces the version that was read last. Merges changes that others made meanwhile. */
  async #write(): Promise<void> {
    for (let tries = 1; ; tries++) {
      const n = this.toJSON()
      const sharing = this.sharing.peek()
      const sums = sharing?.sums()
      n.metadata.sandgate = { session: this.session.id, kernels: this.kernels.marks(), executions: this.#executions(), ...sharing?.mark(this.cells.peek()) }
      const [touched, edited] = [[...this.#touched], [...this.#edited]]
      this.#touched.clear()
      this.#edited.clear()
      try {
        const text = formatNotebook(n)
        await this.#store.save(text)
        keepCopy(this.session.id, this.path, text)
        sharing?.wrote(this.#store.etag, sums!)
        return
      } catch (e) {
        for (const id of touched) this.#touched.add(id)
        for (const id of edited) this.#edited.add(id)
        if ((e as SandgateError).kind !== 'conflict' || tries === maxWrites) throw e
        await (sharing ? this.#reconcile(sharing) : this.#merge())
      }
    }
  }

  /** Takes over changes of others where this page has no newer ones. */
  async refresh(): Promise<void> {
    if (this.#closed || !this.ready.peek() || this.saved.peek() === 'saving') return
    try {
      const etag = await this.#store.changed()
      if (etag === undefined) return
      if (etag === '' && await this.#checkSession()) return
      const sharing = this.sharing.peek()
      if (!sharing) await this.#merge()
      else if (etag !== '' && etag === sharing.saved?.etag && !sharing.lacks) this.#store.see(etag)
      else await this.#reconcile(sharing)
    } catch (e) {
      if (isGone(e)) void this.#checkSession()
      // The banner reports that the server cannot be reached.
    }
  }

  /** Asks whether the session has ended. Then the page keeps the notebook, and offers it. */
  async #checkSession(): Promise<boolean> {
    if (this.ended.peek() !== undefined) return true
    try {
      if ((await this.session.refresh()).state !== 'lost') return false
      this.ended.value = ''
    } catch (e) {
      if (!isGone(e)) return false
      this.ended.value = (e as SandgateError).kind === 'sandbox_lost' ? (e as Error).message : ''
    }
    keepCopy(this.session.id, this.path, this.export())
    this.keepDraft()
    return true
  }

  /** Takes over changes of the file by programs. Edits of people are in the document. */
  async #reconcile(sharing: Sharing): Promise<void> {
    const before = this.#store.etag
    const file = await this.#store.load()
    if (!file) return
    try {
      await sharing.take(file, this.#store.etag)
    } catch (e) {
      this.#store.see(before) // again with the next attempt
      throw e
    }
  }

  async #merge(): Promise<void> {
    const file = await this.#store.load()
    if (!file) return
    const here = new Map(this.cells.peek().map((c) => [c.id, c]))
    const dirty = !this.readOnly && this.saved.peek() !== 'saved'
    const before = this.#version
    const taken: string[] = []
    batch(() => {
      const next: CellModel[] = []
      for (const j of file.cells) {
        const c = here.get(j.id)
        here.delete(j.id)
        if (!c) {
          if (dirty && this.#undo.some((u) => u.before.some((x) => x.id === j.id))) continue // removed in this page
          next.push(new CellModel(j, this.language.peek()))
          continue
        }
        next.push(c)
        // When a cell runs in one page, its output changes in all. Only an edit changes its code.
        if (this.#edited.has(c.id)) continue
        taken.push(c.id)
        c.type.value = j.cell_type
        c.source.value = j.source
        const read = new CellModel({ ...j, outputs: [] }, this.language.peek())
        c.language.value = read.language.peek()
        c.comments.value = read.comments.peek()
      }
      // Cells that exist only here keep their place if they are new.
      for (const [id, c] of here) {
        if (!this.#touched.has(id) && !dirty && !c.busy) continue
        const at = this.cells.peek().indexOf(c)
        const after = this.cells.peek().slice(0, at).findLast((x) => next.includes(x))
        next.splice(after ? next.indexOf(after) + 1 : 0, 0, c)
      }
      if (next.length !== this.cells.peek().length || next.some((c, i) => c !== this.cells.peek()[i])) this.#set(next)
      if (!this.find(this.active.peek()) && next[0]) this.active.value = this.anchor.value = next[0].id
    })
    // Content from the file is not a change of the file.
    for (const id of taken) this.#edited.delete(id)
    if (!dirty) {
      this.#version = before
      this.#clean()
    }
  }

  /** Returns the cell for code that another page ran before saving it. */
  #appear(id: string, language: string, source: string): CellModel | undefined {
    if (!this.ready.peek()) return undefined // from an older history
    const c = new CellModel({ id, source, cell_type: 'code' }, language)
    this.sharing.peek()?.expect(id)
    this.#set([...this.cells.peek(), c])
    return c
  }

  // The name for text that was typed in the last moments before a page was closed.
  get #draftName(): string {
    return `sandgate.draft.${this.session.id}.${this.path}`
  }

  keepDraft(): void {
    if (this.saved.peek() === 'saved') return
    try {
      const cells = this.cells.peek().map((c) => ({ ...c.toJSON(this.language.peek()), outputs: [] }))
      const s = this.sharing.peek()
      const sandgate = s ? { sums: s.saved?.sums, document: s.id, settled: s.settled } : {}
      localStorage.setItem(this.#draftName, formatNotebook({ cells, metadata: { sandgate }, nbformat_minor: 5 }))
    } catch {
      // The text is too large, or the browser stores nothing.
    }
  }

  #forgetDraft(): void {
    try {
      localStorage.removeItem(this.#draftName)
    } catch {
      // There is none.
    }
  }

  #draft(): void {
    try {
      const text = localStorage.getItem(this.#draftName)
      if (!text) return
      const draft = parseNotebook(text)
      const { sums, base, document, settled } = object(draft.metadata.sandgate)
      const s = this.sharing.peek()
      if (s && settled && document === s.id) return // the others have it
      if (s && Array.isArray(base)) {
        s.restore(draft.cells, s.sumsOfCells(base as CellJSON[])) // written without the server
        return this.touch()
      }
      if (s && sums) {
        s.restore(draft.cells, sums as Sums)
        return this.touch()
      }
      const here = new Map(this.cells.peek().map((c) => [c.id, c]))
      const cells = draft.cells.map((j) => {
        const c = here.get(j.id)
        if (!c) return new CellModel(j, this.language.peek())
        c.source.value = j.source
        c.type.value = j.cell_type
        return c
      })
      if (cells.length) this.#set(cells)
      this.touch()
    } catch {
      this.#forgetDraft()
    }
  }

  // --- cells ---

  /** Remembers the cells before a step, so that it can be undone. Cells keep their output. */
  #remember(tail?: string, move?: Move): void {
    const before = this.cells.peek()
    const step: Step = { before, after: before, active: this.active.peek(), move, ...(tail === undefined ? {} : { tail }) }
    queueMicrotask(() => (step.after = this.cells.peek())) // the step is done
    this.#undo.push(step)
    if (this.#undo.length > maxUndo) this.#undo.shift()
    this.#redo = []
  }

  /** Undoes the last step of this user. Cells that others have added or removed since stay so. */
  undo(): void {
    this.#revert(this.#undo, this.#redo, t('There is nothing to undo'))
  }

  /** Repeats the step that was undone last, unless another one came after it. */
  redo(): void {
    this.#revert(this.#redo, this.#undo, t('There is nothing to redo'))
  }

  #revert(from: Step[], to: Step[], nothing: string): void {
    const u = from.at(-1)
    if (!u) return toast(nothing)
    const may = u.move?.follow(this, from === this.#undo) ?? 'yes'
    if (may === 'later') return
    from.pop()
    if (may === 'yes') this.#apply(u, to)
  }

  /** Undoes or repeats the step of a move, wherever it is. Returns false if it is no longer there. */
  revertMove(move: Move, undo: boolean): boolean {
    const [from, to] = undo ? [this.#undo, this.#redo] : [this.#redo, this.#undo]
    const at = from.findIndex((s) => s.move === move)
    if (at < 0 || this.#closed) return false
    this.#apply(from.splice(at, 1)[0]!, to)
    return true
  }

  #apply(u: Step, to: Step[]): void {
    const now = this.cells.peek()
    const next = u.before.filter((c) => now.includes(c) || !u.after.includes(c))
    now.forEach((c, i) => {
      if (u.before.includes(c) || u.after.includes(c)) return
      next.splice(next.indexOf(now[i - 1]!) + 1, 0, c)
    })
    if (next.length === 0) return
    this.#set(next)
    to.push({ before: now, after: next, active: u.active, move: u.move, ...(u.tail ? { added: u.tail } : {}), ...(u.added ? { tail: u.added } : {}) })
    const split = this.find(u.active)
    if (split && u.tail) split.source.value += u.tail
    if (split && u.added && split.source.peek().endsWith(u.added)) split.source.value = split.source.peek().slice(0, -u.added.length)
    this.select(this.find(u.active) ? u.active : next[0]!.id)
    this.touch()
  }

  select(id: string, extend = false): void {
    const c = this.find(id)
    if (!c) return
    batch(() => {
      if (this.hidden.peek().has(c)) for (const x of this.cells.peek()) if (x.section.peek() && sectionOf(this.cells.peek(), x).includes(c)) x.section.value = false
      this.active.value = id
      if (!extend) this.anchor.value = id
    })
  }

  /** Selects the neighbour. Returns false at the end. */
  step(by: number, extend = false): boolean {
    const cells = this.cells.peek()
    let i = cells.findIndex((c) => c.id === this.active.peek()) + by
    while (this.hidden.peek().has(cells[i]!)) i += by
    const to = cells[i]
    if (!to) return false
    this.select(to.id, extend)
    return true
  }

  insert(at: 'above' | 'below' | number, j: Partial<CellJSON> = {}, language?: string): CellModel {
    this.#remember()
    const cells = this.cells.peek()
    const i = cells.findIndex((c) => c.id === this.active.peek())
    const near = cells[i]
    const c = new CellModel({ cell_type: 'code', ...j }, language ?? near?.language.peek() ?? this.language.peek())
    const index = at === 'above' ? Math.max(0, i) : at === 'below' ? i + 1 : at
    this.#set([...cells.slice(0, index), c, ...cells.slice(index)])
    if (c.type.peek() !== 'code') c.editing.value = true
    this.select(c.id)
    this.touch(c)
    return c
  }

  /** Puts cells that the notebook does not have before another one, or at the end. */
  place(fresh: CellModel[], before: string | undefined, move?: Move): void {
    this.#remember(undefined, move)
    const cells = this.cells.peek()
    const at = cells.findIndex((c) => c.id === before)
    const index = at < 0 ? cells.length : at
    this.#set([...cells.slice(0, index), ...fresh, ...cells.slice(index)])
    this.select(fresh.at(-1)!.id)
    this.touch()
  }

  remove(which = this.selected.peek(), move?: Move): void {
    if (which.length === 0) return
    this.#remember(undefined, move)
    const cells = this.cells.peek()
    const first = cells.indexOf(which[0]!)
    let next = cells.filter((c) => !which.includes(c))
    if (next.length === 0) next = [new CellModel({}, this.language.peek())]
    this.#set(next)
    this.select((next[first] ?? next.at(-1)!).id)
    this.touch()
  }

  copy(cut = false): void {
    // Comments move with a cell, and are not copied.
    this.clipboard.cells = this.selected.peek().map((c) => ({ json: c.toJSON(this.language.peek()), language: c.language.peek() }))
    if (!cut) for (const { json } of this.clipboard.cells) delete json.metadata.sandgate
    if (cut) this.remove()
  }

  paste(where: 'above' | 'below'): void {
    const fresh = this.clipboard.cells.map(({ json: { id: _, ...j }, language }) => new CellModel(j, language))
    if (fresh.length === 0) return
    const cells = this.cells.peek()
    this.place(fresh, cells[cells.findIndex((c) => c.id === this.active.peek()) + (where === 'below' ? 1 : 0)]?.id)
  }

  move(by: -1 | 1, which = this.selected.peek()): void {
    const cells = [...this.cells.peek()]
    const from = cells.indexOf(which[0]!)
    const to = from + by
    if (from < 0 || to < 0 || to + which.length > cells.length) return
    this.#remember()
    cells.splice(from, which.length)
    cells.splice(to, 0, ...which)
    this.cells.value = cells
    this.touch()
  }

  /** Moves cells before another one, or to the end. */
  moveTo(which: CellModel[], before: string | undefined): void {
    const now = this.cells.peek()
    const moved = which.filter((c) => now.includes(c))
    const from = now.findIndex((c) => c.id === before)
    const next = from < 0 ? undefined : now.slice(from).find((c) => !moved.includes(c))
    const cells = now.filter((c) => !moved.includes(c))
    cells.splice(next ? cells.indexOf(next) : cells.length, 0, ...moved)
    if (cells.every((c, i) => c === now[i])) return
    this.#remember()
    this.cells.value = cells
    this.touch()
  }

  setType(type: CellType, which = this.selected.peek()): void {
    for (const c of which) {
      c.type.value = type
      c.editing.value = type === 'markdown'
    }
  }

  setLanguage(c: CellModel, language: string): void {
    c.type.value = 'code'
    c.language.value = language
  }

  heading(level: number): void {
    for (const c of this.selected.peek()) {
      c.type.value = 'markdown'
      c.editing.value = true
      const [first = '', ...rest] = c.source.peek().split('\n')
      c.source.value = [`${'#'.repeat(level)} ${first.replace(/^#+\s*/, '')}`, ...rest].join('\n')
    }
  }

  split(at: number): void {
    const c = this.activeCell
    if (!c) return
    const source = c.source.peek()
    const first = source.slice(0, at).replace(/\n$/, '')
    this.#remember(source.slice(first.length))
    c.source.value = first
    const cells = this.cells.peek()
    const second = new CellModel({ cell_type: c.type.peek(), source: source.slice(at).replace(/^\n/, '') }, c.language.peek())
    if (c.type.peek() === 'markdown') second.editing.value = true
    const i = cells.indexOf(c) + 1
    this.#set([...cells.slice(0, i), second, ...cells.slice(i)])
    this.select(second.id)
    this.touch()
  }

  merge(): void {
    let which = this.selected.peek()
    if (which.length < 2) {
      const cells = this.cells.peek()
      const i = cells.indexOf(which[0]!)
      which = cells.slice(i, i + 2)
    }
    if (which.length < 2) return
    const kinds = new Set(which.map((c) => (c.type.peek() === 'code' ? c.language.peek() : c.type.peek())))
    if (kinds.size > 1) return toast(t('Only cells of one language can be merged'))
    this.#remember()
    const [first, ...rest] = which
    const merged = new CellModel({ ...first!.toJSON(this.language.peek()), id: undefined!, source: which.map((c) => c.source.peek()).join('\n\n'), outputs: [] }, first!.language.peek())
    merged.comments.value = sortComments(which.flatMap((c) => c.comments.peek()))
    this.#set(this.cells.peek().filter((c) => !rest.includes(c)).map((c) => (c === first ? merged : c)))
    this.select(merged.id)
    this.touch()
  }

  // --- running ---

  /** Runs cells in order. Markdown is rendered. */
  run(which: CellModel[] = this.selected.peek()): void {
    for (const c of which) {
      const type = c.type.peek()
      if (type === 'markdown') c.editing.value = false
      if (type !== 'code' || c.busy) continue
      if (c.source.peek().trim() === '') {
        c.output.clear()
        c.count.value = c.order.value = null
        c.state.value = 'none'
        continue
      }
      void this.kernelOf(c).execute(c)
    }
    this.touch()
  }

  kernelOf(c: CellModel): KernelLink {
    return this.kernels.of(c.language.peek())
  }

  runAll(): void {
    this.run(this.cells.peek())
  }

  runAbove(): void {
    this.run(this.cells.peek().slice(0, this.cells.peek().findIndex((c) => c.id === this.active.peek())))
  }

  runBelow(): void {
    this.run(this.cells.peek().slice(this.cells.peek().findIndex((c) => c.id === this.active.peek())))
  }

  /** Interrupts the running cells of a kernel, or of all languages. */
  async interrupt(grace?: number, only?: KernelLink): Promise<void> {
    const meant = (k: KernelLink) => only === undefined || k === only
    for (const c of this.cells.peek()) if (c.state.peek() === 'queued' && meant(this.kernelOf(c))) c.state.value = 'aborted'
    await Promise.all(this.kernels.all.peek().filter((k) => k.state.peek() === 'busy' && meant(k)).map((k) => k.interrupt(grace))).catch((e: unknown) => failed(t('The cell was not interrupted'), e))
  }

  async restart(language = this.activeCell?.language.peek() ?? this.language.peek()): Promise<void> {
    try {
      await this.kernels.of(language).restart()
      this.turns.value++
      this.said.value = t('The kernel has restarted')
    } catch (e) {
      failed(t('The kernel was not restarted'), e)
    }
  }

  /** Downloads the output of the cell's last execution, as far as the kernel's log still has it. */
  async download(c: CellModel): Promise<void> {
    if (!c.execution || !c.channel) return toast(t('Run the cell first: this page has not seen it run'))
    try {
      saveFile(await restBlob(`/v1/sessions/${encodeURIComponent(this.session.id)}/channels/${encodeURIComponent(c.channel)}/text?cell=${c.execution}`), `cell-${c.count.peek() ?? c.execution}.txt`)
    } catch (e) {
      failed(t('The output was not downloaded'), e)
    }
  }

  clearOutputs(which = this.cells.peek()): void {
    for (const c of which) {
      if (c.busy) continue
      c.output.clear()
      c.count.value = c.order.value = null
      c.state.value = 'none'
    }
    this.touch()
  }
}
