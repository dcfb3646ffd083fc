import * as Y from 'yjs'
import { shortHash } from '../cellkey'
import { sortComments, type Comment } from '../comment'
import type { CellJSON, CellType } from '../ipynb'

/** The part of a cell that users edit together. Outputs are the kernel's. */
export interface SharedCell {
  id: string
  type: CellType
  language: string
  source: string
  comments?: Comment[] | undefined
  /** The rest of a cell that was copied: metadata and attachments. */
  extra?: Partial<CellJSON> | undefined
}

/** A short hash of each cell in its order, by `.` and its id. It shows which cells have changed. */
export type Sums = Record<`.${string}`, string>

/** The version of the document that the file had when a member last wrote or read it. */
export interface Saved {
  etag: string
  sums: Sums
}

/** Changes of the document that come from other members have this origin. */
export const remote = Symbol('remote')

const sumOf = (c: Pick<SharedCell, 'type' | 'language' | 'source'>): string => shortHash(`${c.type}\n${c.language}\n${c.source}`)

/** The key of the sum of all comments. No cell has this id. */
const commentsKey = '..comments'

export function sumsOf(cells: SharedCell[]): Sums {
  const comments = cells.flatMap((c) => (c.comments?.length ? [[c.id, c.comments]] : []))
  return Object.fromEntries([...cells.map((c) => [`.${c.id}`, sumOf(c)]), ...(comments.length ? [[commentsKey, shortHash(JSON.stringify(comments))]] : [])])
}

/** A short hash of all cells. */
export const sumOfAll = (sums: Sums): string => shortHash(Object.entries(sums).flat().join('\n'))

/**
 * A notebook as a document of Yjs: copies of it that get the same updates, in any order, are equal.
 *
 * The text of a cell is a shared type of its own, and the order of cells is a list of ids. So a cell
 * that one user moves while another one edits it keeps the edits.
 */
export class SharedDocument {
  readonly doc = new Y.Doc()
  readonly order: Y.Array<string> = this.doc.getArray('cells')
  readonly #facts: Y.Map<unknown> = this.doc.getMap('facts')
  readonly #about: Y.Map<unknown> = this.doc.getMap('about')
  readonly #present: Y.Map<boolean> = this.doc.getMap('present') // false for a cell that was removed
  readonly #comments: Y.Map<Comment | false> = this.doc.getMap('comments') // false for one that was removed

  /** The id that the document got when it was made from a file. */
  get id(): string {
    return String(this.#about.get('id') ?? '')
  }

  get saved(): Saved | undefined {
    return this.#about.get('saved') as Saved | undefined
  }

  text(id: string): Y.Text {
    return this.doc.getText(`source ${id}`)
  }

  /**
   * The ids in their order. Two users who move a cell at the same time leave its id twice. If two
   * others then remove one of both each, the id is in no place: such cells come last.
   */
  get ids(): string[] {
    const ids = new Set(this.order.toArray())
    const lost = [...this.#present].filter(([id, there]) => there && !ids.has(id)).map(([id]) => id)
    return [...ids, ...lost.sort()]
  }

  type(id: string): CellType {
    return (this.#facts.get(`type ${id}`) as CellType | undefined) ?? 'code'
  }

  language(id: string): string | undefined {
    return this.#facts.get(`language ${id}`) as string | undefined
  }

  extra(id: string): Partial<CellJSON> | undefined {
    return this.#facts.get(`extra ${id}`) as Partial<CellJSON> | undefined
  }

  get cells(): SharedCell[] {
    const comments = this.#threads()
    return this.ids.map((id) => ({
      id, type: this.type(id), language: this.language(id) ?? '', source: this.text(id).toString(), ...(comments.has(id) ? { comments: comments.get(id)! } : {}),
    }))
  }

  /** The comments of all cells that have some. */
  #threads(): Map<string, Comment[]> {
    const out = new Map<string, Comment[]>()
    for (const [key, c] of this.#comments) {
      if (!c) continue
      const id = key.slice(0, key.indexOf(' '))
      out.set(id, [...(out.get(id) ?? []), c])
    }
    for (const list of out.values()) sortComments(list)
    return out
  }

  comments(id: string): Comment[] {
    return this.#threads().get(id) ?? []
  }

  get sums(): Sums {
    return sumsOf(this.cells)
  }

  /** Makes a document of a file that nobody has open. */
  begin(cells: SharedCell[], etag: string): void {
    this.doc.transact(() => {
      this.#about.set('id', crypto.randomUUID())
      for (const c of cells) this.write(c)
      this.setOrder(cells.map((c) => c.id))
      this.setSaved({ etag, sums: this.sums })
    })
  }

  setSaved(s: Saved): void {
    this.#about.set('saved', s)
  }

  /** Calls f when somebody has written or read the file. */
  onSaved(f: () => void): void {
    this.#about.observe((e) => {
      if (e.keysChanged.has('saved')) f()
    })
  }

  /** Calls f with the ids of cells whose type, language or comments have changed. */
  onFacts(f: (ids: string[]) => void): void {
    this.#facts.observe((e) => f([...e.keysChanged].map((k) => k.slice(k.indexOf(' ') + 1))))
    this.#comments.observe((e) => f([...e.keysChanged].map((k) => k.slice(0, k.indexOf(' ')))))
  }

  /** Writes a cell, as far as it differs. */
  write(c: SharedCell): void {
    this.doc.transact(() => {
      this.setType(c.id, c.type)
      this.setLanguage(c.id, c.language)
      if (c.extra && Object.keys(c.extra).length > 0 && !this.#facts.has(`extra ${c.id}`)) this.#facts.set(`extra ${c.id}`, c.extra)
      this.setSource(c.id, c.source)
      this.#addComments(c)
    })
  }

  /** Adds the comments that the document neither has nor had. */
  #addComments(c: SharedCell): void {
    for (const one of c.comments ?? []) {
      if (!this.#comments.has(`${c.id} ${one.id}`)) this.#comments.set(`${c.id} ${one.id}`, one)
    }
  }

  /** Replaces the comments of a cell, as far as they differ. */
  setComments(id: string, list: Comment[]): void {
    const left = new Map(this.comments(id).map((c) => [c.id, c]))
    this.doc.transact(() => {
      for (const c of list) {
        const now = left.get(c.id)
        left.delete(c.id)
        if (JSON.stringify(now) !== JSON.stringify(c)) this.#comments.set(`${id} ${c.id}`, c)
      }
      for (const gone of left.keys()) this.#comments.set(`${id} ${gone}`, false)
    })
  }

  setType(id: string, type: CellType): void {
    if (this.#facts.get(`type ${id}`) !== type) this.#facts.set(`type ${id}`, type)
  }

  setLanguage(id: string, language: string): void {
    if (this.#facts.get(`language ${id}`) !== language) this.#facts.set(`language ${id}`, language)
  }

  /** Replaces the part of the text that differs. */
  setSource(id: string, source: string): void {
    const text = this.text(id)
    const now = text.toString()
    if (now === source) return
    const most = Math.min(now.length, source.length)
    let start = 0
    while (start < most && now[start] === source[start]) start++
    if (isHigh(now, start - 1)) start-- // no half of a character
    let end = 0
    while (end < most - start && now.at(-1 - end) === source.at(-1 - end)) end++
    if (end > 0 && isLow(now, now.length - end)) end--
    this.doc.transact(() => {
      if (now.length - end > start) text.delete(start, now.length - end - start)
      if (source.length - end > start) text.insert(start, source.slice(start, source.length - end))
    })
  }

  /** Changes the order of cells by moving, removing and inserting as few as it can. */
  setOrder(ids: string[]): void {
    const list = this.order
    const left = new Set(ids)
    this.doc.transact(() => {
      for (const id of this.ids) if (!left.has(id)) this.#present.set(id, false)
      for (const id of ids) if (!this.#present.get(id)) this.#present.set(id, true)
      if (list.length === ids.length && ids.every((id, i) => list.get(i) === id)) return
      ids.forEach((id, i) => {
        // Entries that have no place here: removed cells, and those that come later.
        while (i < list.length && list.get(i) !== id && (!left.has(list.get(i)) || list.get(i + 1) === id)) list.delete(i)
        if (i >= list.length || list.get(i) !== id) {
          const at = list.toArray().indexOf(id, i)
          if (at >= 0) list.delete(at)
          list.insert(i, [id])
        }
        left.delete(id)
      })
      if (list.length > ids.length) list.delete(ids.length, list.length - ids.length)
    })
  }

  /**
   * Takes over another version of the notebook, such as a file that a program has written. sums are
   * those of the version that both have in common. A cell that has changed in both is kept in both
   * versions, so nothing is lost.
   */
  merge(theirs: SharedCell[], sums: Sums): void {
    this.doc.transact(() => {
      const ours = new Map(this.cells.map((c) => [c.id, c]))
      const given = new Set(theirs.map((c) => c.id))
      const next: string[] = []
      for (const c of theirs) {
        const mine = ours.get(c.id)
        const sum = sumOf(c)
        if (!mine) {
          if (sums[`.${c.id}`] === sum) continue // it was removed here
          this.write(c)
          next.push(c.id)
          continue
        }
        next.push(c.id)
        this.#addComments(c)
        const now = sumOf(mine)
        if (sum === now || sum === sums[`.${c.id}`]) continue
        if (now === sums[`.${c.id}`]) {
          this.write(c)
          continue
        }
        const copy = { ...c, id: shortHash(`${c.id} ${sum}`) }
        if (ours.has(copy.id)) continue
        this.write(copy)
        next.push(copy.id)
      }
      // A cell that they lack is new here, or was changed here, or they have removed it.
      let before: string | undefined
      for (const c of ours.values()) {
        if (!given.has(c.id) && (sums[`.${c.id}`] === undefined || sums[`.${c.id}`] !== sumOf(c)) && !next.includes(c.id)) next.splice(before === undefined ? 0 : next.indexOf(before) + 1, 0, c.id)
        if (next.includes(c.id)) before = c.id
      }
      this.setOrder(next)
    })
  }
}

const isHigh = (s: string, i: number): boolean => i >= 0 && i < s.length && (s.charCodeAt(i) & 0xfc00) === 0xd800
const isLow = (s: string, i: number): boolean => i >= 0 && i < s.length && (s.charCodeAt(i) & 0xfc00) === 0xdc00
