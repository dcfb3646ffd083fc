import { batch, effect, signal, type Signal } from '@preact/signals'
import type { DocumentLink, Sandbox } from '@sandgate/client/base'
import * as Y from 'yjs'
import { CellModel } from '../cell'
import { sameComments } from '../comment'
import type { CellJSON, NotebookJSON } from '../ipynb'
import { languageOf } from '../languages'
import { sumOfAll, sumsOf, type SharedCell, type Sums } from './document'
import type { MemberState } from './members'
import { Membership } from './membership'

/** The notebook of a page, which shows the document. */
export interface Page {
  readonly session: Sandbox
  readonly path: string
  readonly cells: Signal<CellModel[]>
  readonly active: Signal<string>
  readonly language: Signal<string>
  /** Runs f, which changes cells as somebody else has done. */
  theirs(f: () => void): void
  /** Shows other cells. */
  show(cells: CellModel[]): void
  /** There is something to save that another member should save. */
  late(): void
  /** Another member has saved all that this page has to save. */
  savedByOthers(): void
}

export interface Person {
  client: number
  self: boolean
  user: MemberState['user']
  cell: string | undefined
}

/** How long a page waits for the document, before it opens the file without the others. */
const patience = 10_000

/** Edits a notebook together with other pages that have it open. */
export class Sharing {
  /** The pages that have the notebook open, this one first. */
  readonly people: Signal<Person[]> = signal([])
  /** Grows when the document was replaced: editors then show the other one. */
  readonly generation: Signal<number> = signal(0)
  readonly #page: Page
  readonly #file: { cells: CellJSON[]; etag: string }
  readonly #membership: Membership
  #link: DocumentLink | undefined
  #cells = new Map<CellModel, () => void>() // with the function that stops following it
  #bare = new Set<CellModel>() // cells of others whose outputs come with the file
  #expected = new Set<string>() // cells whose execution was seen before the cell
  #stops: (() => void)[] = []
  #arrived: (() => void) | undefined
  #quiet = false // the document changes because of the page, or the page because of the document

  private constructor(page: Page, file: { cells: CellJSON[]; etag: string }) {
    this.#page = page
    this.#file = file
    this.#membership = new Membership(() => this.#link, {
      file: () => ({ cells: page.cells.peek().map(sharedOf), etag: file.etag }),
      arrived: () => this.#adopt(),
    })
  }

  /**
   * Joins the document of a notebook that the page has read from the file. Returns undefined if the
   * server does not offer it.
   */
  static async join(page: Page, file: { cells: CellJSON[]; etag: string }): Promise<Sharing | undefined> {
    const s = new Sharing(page, file)
    const arrived = new Promise<void>((resolve) => (s.#arrived = resolve))
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), patience)
    try {
      s.#link = await page.session.joinDocument(page.path, s.#membership.shared.doc.clientID, {
        joined: (j) => s.#membership.joined(j),
        news: (n) => s.#membership.news(n),
        left: () => s.#membership.left(),
      }, { signal: late.signal })
      await Promise.race([arrived, new Promise((_, reject) => late.signal.addEventListener('abort', reject))])
      return s
    } catch {
      s.close()
      return undefined
    } finally {
      clearTimeout(timer)
    }
  }

  get id(): string {
    return this.#membership.shared.id
  }

  /** The version that the file had when a member last wrote or read it. */
  get saved(): { etag: string; sums: Sums } | undefined {
    return this.#membership.shared.saved
  }

  /** Whether the file has what the document has. */
  get isSaved(): boolean {
    return sumOfAll(this.saved?.sums ?? {}) === sumOfAll(this.#membership.shared.sums)
  }

  /** Whether the other members have all edits of this page. */
  get settled(): boolean {
    return this.#membership.settled
  }

  /** Whether this member saves what all have done. */
  get leads(): boolean {
    return this.people.peek().every((p) => p.client >= this.#membership.shared.doc.clientID)
  }

  // --- the document and the page ---

  /** Shows the document, for the first time or after it was replaced. */
  #adopt(): void {
    for (const stop of this.#stops) stop()
    for (const stop of this.#cells.values()) stop()
    this.#cells.clear()
    const { shared, members } = this.#membership
    const order = () => this.#toPage()
    shared.order.observe(order)
    const change = () => this.#report()
    members.on('change', change)
    this.#stops = [() => shared.order.unobserve(order), () => members.off('change', change)]
    shared.onFacts((ids) => this.#factsToPage(ids))
    shared.onSaved(() => {
      if (shared !== this.#membership.shared) return
      if (this.isSaved) this.#page.savedByOthers()
      else this.#page.late()
    })
    this.#toPage()
    this.#report()
    this.#stops.push(effect(() => this.#toDocument(this.#page.cells.value)))
    this.#stops.push(effect(() => this.#membership.members.setLocalStateField('cell', this.#page.active.value)))
    this.generation.value++
    this.#arrived?.()
    if (!this.isSaved) this.#page.late()
  }

  #report(): void {
    const self = this.#membership.shared.doc.clientID
    this.people.value = [...this.#membership.members.getStates()].map(([client, m]) => ({ client, self: client === self, user: m.user, cell: m.cell }))
      .sort((a, b) => Number(b.self) - Number(a.self) || a.client - b.client)
  }

  setName(name: string): void {
    const { user } = this.#membership.members.getLocalState()
    this.#membership.members.setLocalStateField('user', { ...user, name })
  }

  #silently(f: () => void): void {
    const before = this.#quiet
    this.#quiet = true
    try {
      f()
    } finally {
      this.#quiet = before
    }
  }

  /** Shows the cells of the document. Cells that are expected keep their place. */
  #toPage(): void {
    if (this.#quiet) return
    const { shared } = this.#membership
    const ids = shared.ids
    const there = new Map(this.#page.cells.peek().map((c) => [c.id, c]))
    const came = ids.filter((id) => this.#expected.delete(id)).length > 0
    this.#silently(() => this.#page.theirs(() => {
      const next = ids.map((id) => there.get(id) ?? this.#make(id))
      for (const c of there.values()) if (this.#expected.has(c.id)) next.push(c)
      const now = this.#page.cells.peek()
      if (next.length !== now.length || next.some((c, i) => c !== now[i])) this.#page.show(next)
      for (const c of next) if (!this.#expected.has(c.id)) this.#follow(c)
    }))
    if (came) this.generation.value++
  }

  #make(id: string): CellModel {
    const { shared } = this.#membership
    const read = this.#file.cells.find((c) => c.id === id)
    const extra = shared.extra(id) ?? (read ? { metadata: read.metadata, ...(read.attachments ? { attachments: read.attachments } : {}) } : {})
    const c = new CellModel({ ...extra, id, cell_type: shared.type(id), source: shared.text(id).toString(), ...(read ? { outputs: read.outputs, execution_count: read.execution_count } : {}) }, this.#page.language.peek())
    const language = shared.language(id)
    if (language) c.language.value = language
    if (!read) this.#bare.add(c)
    return c
  }

  /** Keeps the page's cell and that of the document equal. */
  #follow(c: CellModel): void {
    if (this.#cells.has(c)) return
    const { shared } = this.#membership
    const text = shared.text(c.id)
    const source = text.toString()
    if (c.source.peek() !== source) c.source.value = source
    this.#take(c)
    const changed = (_: Y.YTextEvent, t: Y.Transaction) => {
      if (this.#quiet) return
      const set = () => (c.source.value = text.toString())
      this.#silently(() => (t.local ? set() : this.#page.theirs(set)))
      if (!t.local) this.#page.late()
    }
    text.observe(changed)
    const stops = [
      effect(() => this.#silently(() => shared.setSource(c.id, c.source.value))),
      effect(() => this.#silently(() => shared.setType(c.id, c.type.value))),
      effect(() => this.#silently(() => shared.setLanguage(c.id, c.language.value))),
      effect(() => this.#silently(() => shared.setComments(c.id, c.comments.value))),
      () => text.unobserve(changed),
    ]
    this.#cells.set(c, () => stops.forEach((s) => s()))
  }

  #take(c: CellModel): void {
    const { shared } = this.#membership
    const type = shared.type(c.id)
    if (c.type.peek() !== type) c.type.value = type
    const language = languageOf(shared.language(c.id))
    if (language && c.language.peek() !== language) c.language.value = language
    const comments = shared.comments(c.id)
    if (!sameComments(c.comments.peek(), comments)) c.comments.value = comments
  }

  #factsToPage(ids: string[]): void {
    if (this.#quiet) return
    this.#silently(() => this.#page.theirs(() => {
      for (const id of ids) {
        const c = this.#page.cells.peek().find((x) => x.id === id)
        if (c && this.#cells.has(c)) this.#take(c)
      }
    }))
    this.#page.late()
  }

  /** Writes the cells of the page, and their order. */
  #toDocument(cells: CellModel[]): void {
    if (this.#quiet) return
    const { shared } = this.#membership
    const mine = cells.filter((c) => !this.#expected.has(c.id))
    this.#silently(() => {
      shared.doc.transact(() => {
        for (const c of mine) {
          if (this.#cells.has(c)) continue
          const { metadata, attachments } = c.json
          const extra = JSON.stringify({ metadata, attachments })
          // Large attachments reach the others with the file.
          shared.write({ ...sharedOf(c), ...(extra.length < 100_000 && extra !== '{"metadata":{}}' ? { extra: c.json } : {}) })
        }
        shared.setOrder(mine.map((c) => c.id))
      })
      batch(() => mine.forEach((c) => this.#follow(c)))
    })
  }

  /**
   * Returns the text of a cell for its editor, and the members with their cursors; undefined if the
   * cell is not shared yet.
   */
  textOf(c: CellModel): { text: Y.Text; members: Membership['members'] } | undefined {
    return this.#cells.has(c) ? { text: this.#membership.shared.text(c.id), members: this.#membership.members } : undefined
  }

  /** A cell that ran in another page will come from there. */
  expect(id: string): void {
    if (!this.#membership.shared.ids.includes(id)) this.#expected.add(id)
  }

  // --- the file ---

  /** Marks of the document for the file's metadata: a later reader knows which pages wrote it. */
  mark(cells: CellModel[]): { document: string; sum: string } {
    return { document: this.id, sum: sumOfAll(sumsOf(cells.map(sharedOf))) }
  }

  /** The file has this version of the cells. */
  wrote(etag: string, sums: Sums): void {
    this.#membership.shared.setSaved({ etag, sums })
  }

  sums(): Sums {
    return this.#membership.shared.sums
  }

  /**
   * Takes over changes of the file by a program. A version that a member has written is
   * already in the document.
   */
  async take(file: NotebookJSON, etag: string): Promise<void> {
    this.#file.cells = file.cells
    const cells = file.cells.map((j) => sharedOf(new CellModel({ ...j, outputs: [] }, this.#page.language.peek())))
    const sums = sumsOf(cells)
    const mark = (file.metadata.sandgate ?? {}) as { document?: unknown; sum?: unknown }
    this.#fill(file.cells)
    if (etag === this.saved?.etag || (mark.document === this.id && mark.sum === sumOfAll(sums))) return
    await this.#membership.once(`file ${etag}`, (copy) => {
      copy.merge(cells, copy.saved?.sums ?? {})
      copy.setSaved({ etag, sums })
    })
  }

  /** Whether the file has outputs that this page lacks. */
  get lacks(): boolean {
    return this.#bare.size > 0
  }

  /** Shows the outputs of cells that others have pasted. */
  #fill(file: CellJSON[]): void {
    const read = new Map(file.map((j) => [j.id, j]))
    this.#page.theirs(() => {
      for (const c of this.#bare) {
        const j = read.get(c.id)
        if (!j) continue
        this.#bare.delete(c)
        if (!c.output.empty || c.state.peek() !== 'none') continue
        c.output.load(j.outputs)
        c.count.value = j.execution_count
      }
    })
  }

  /** The sums of cells as they are in a file. */
  sumsOfCells(cells: CellJSON[]): Sums {
    return sumsOf(cells.map((j) => sharedOf(new CellModel({ ...j, outputs: [] }, this.#page.language.peek()))))
  }

  /** Takes over edits of this browser that did not reach the others. */
  restore(cells: CellJSON[], sums: Sums): void {
    this.#membership.shared.merge(cells.map((j) => sharedOf(new CellModel({ ...j, outputs: [] }, this.#page.language.peek()))), sums)
    this.#page.late()
  }

  close(): void {
    for (const stop of this.#stops) stop()
    for (const stop of this.#cells.values()) stop()
    this.#cells.clear()
    void this.#membership.flush().finally(() => {
      this.#link?.close()
      this.#membership.close()
    })
  }
}

function sharedOf(c: CellModel): SharedCell {
  return { id: c.id, type: c.type.peek(), language: c.language.peek(), source: c.source.peek().replace(/\r\n?/g, '\n'), comments: c.comments.peek() }
}
