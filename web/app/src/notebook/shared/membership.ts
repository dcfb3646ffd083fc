import type { DocumentAddition, DocumentJoined, DocumentNews, DocumentUpdated, SandgateError } from '@sandgate/client/base'
import * as Y from 'yjs'
import { remote, SharedDocument, type SharedCell } from './document'
import { Members } from './members'

/** The connection to the server's copy of the document. */
export interface Link {
  readonly attached: boolean
  add(a: DocumentAddition): Promise<DocumentUpdated>
  rejoin(): void
}

/** Functions of the user of a membership. */
export interface MembershipUser {
  /** Returns the cells of the file, when nobody else has the document. */
  file(): { cells: SharedCell[]; etag: string }
  /** The document is complete, for the first time or after it was replaced by that of others. */
  arrived(): void
}

/** How long edits are collected before they are sent. */
const collect = 40
/** The number of updates and of bytes after which one update replaces all. */
const maxUpdates = 200
const maxBytes = 256 << 10

/**
 * Keeps a document equal to that of the other members. The server only passes updates on. It may
 * forget the document; then the first member that joins again restores it.
 */
export class Membership {
  /** The document. It is replaced by another one if the members began again from the file. */
  shared = new SharedDocument()
  members = new Members(this.shared.doc)
  /** Why nothing is sent any more. */
  problem: SandgateError | undefined
  readonly #link: () => Link | undefined
  readonly #user: MembershipUser
  #begun = false
  #arriving: SharedDocument | undefined // until all updates before the join have come
  #goal = 0
  #epoch = 0
  #known = 0 // this member has all updates up to this number
  #own = new Set<number>() // its own ones beyond that
  #queue: Uint8Array[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  #sending = false
  #shown = false // the presence is sent
  #compact = false

  constructor(link: () => Link | undefined, user: MembershipUser) {
    this.#link = link
    this.#user = user
    this.#use(this.shared)
  }

  /** Whether the server has all edits of this member. */
  get settled(): boolean {
    return !!this.#link()?.attached && !this.#arriving && !this.#sending && this.#queue.length === 0
  }

  #use(s: SharedDocument): void {
    s.doc.on('update', (update: Uint8Array, origin: unknown) => {
      if (s !== this.shared || origin === remote) return
      this.#queue.push(update)
      this.#soon()
    })
    this.members.tell = () => {
      this.#shown = false
      this.#soon()
    }
  }

  // --- what the server says ---

  joined(j: DocumentJoined): void {
    const again = j.epoch === this.#epoch
    this.#epoch = j.epoch
    this.#goal = j.last
    this.#shown = false
    if (!again) {
      this.#known = 0
      this.#own.clear()
    }
    if (!j.id) {
      if (!this.#begun) {
        const { cells, etag } = this.#user.file()
        this.shared.begin(cells, etag)
      }
      // All is sent, and the first of several members that do this is heard.
      this.#arriving = undefined
      this.#queue = [Y.encodeStateAsUpdate(this.shared.doc)]
      this.#arrive()
      return
    }
    // A document that another member began is not merged with this one as it is.
    const same = !this.#begun || this.shared.id === j.id
    this.#arriving = same ? this.shared : new SharedDocument()
    // After the loss of the server's copy it may lack anything.
    if (this.#begun && same && !again) this.#queue = [Y.encodeStateAsUpdate(this.shared.doc)]
    if (this.#known >= this.#goal) this.#arrive()
  }

  news(n: DocumentNews): void {
    if (n.epoch !== this.#epoch) return
    const to = this.#arriving ?? this.shared
    for (const u of n.updates ?? []) Y.applyUpdate(to.doc, bytes(u.update), remote)
    this.#seen(n.last)
    for (const m of n.members ?? []) {
      try {
        this.members.set(m.client, JSON.parse(new TextDecoder().decode(bytes(m.presence))))
      } catch {
        // Another release may show something else.
      }
    }
    if (n.left) this.members.remove(n.left)
    if (this.#arriving && this.#known >= this.#goal) this.#arrive()
  }

  left(): void {
    this.members.alone()
  }

  #seen(number: number): void {
    this.#known = Math.max(this.#known, number)
    while (this.#own.delete(this.#known + 1)) this.#known++
  }

  #arrive(): void {
    const next = this.#arriving
    this.#arriving = undefined
    const old = this.shared
    if (next && next !== old) {
      this.shared = next
      const { user, cell } = this.members.getLocalState()
      next.doc.clientID = old.doc.clientID
      this.members = new Members(next.doc)
      this.members.setLocalStateField('user', user)
      if (cell) this.members.setLocalStateField('cell', cell)
      this.#queue = []
      this.#use(next)
      // Edits made here meanwhile are taken over as text.
      next.merge(old.cells, old.saved?.sums ?? {})
    }
    const first = !this.#begun || this.shared !== old
    this.#begun = true
    if (first) this.#user.arrived()
    this.#soon()
  }

  // --- what the server gets ---

  #soon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.flush()
    }, collect)
  }

  /** Sends what is not sent yet. */
  async flush(): Promise<void> {
    const link = this.#link()
    if (!link?.attached || !this.#begun || this.#arriving || this.#sending || this.problem) return
    const a: DocumentAddition = {}
    const edits = this.#queue
    if (this.#compact) Object.assign(a, { id: this.shared.id, update: base64(Y.encodeStateAsUpdate(this.shared.doc)), replaces: this.#known })
    else if (edits.length > 0) Object.assign(a, { id: this.shared.id, update: base64(edits.length === 1 ? edits[0]! : Y.mergeUpdates(edits)) })
    const shows = !this.#shown
    if (shows) a.presence = base64(new TextEncoder().encode(JSON.stringify(this.members.getLocalState())))
    if (!a.update && !a.presence) return
    this.#queue = []
    this.#sending = true
    this.#shown = true
    const epoch = this.#epoch
    try {
      const u = await link.add(a)
      if (epoch === this.#epoch && a.update) {
        this.#own.add(u.number)
        this.#seen(0)
        this.#compact = false
        if (u.updates > maxUpdates || (u.updates > 1 && u.bytes > maxBytes && u.bytes > 4 * Y.encodeStateAsUpdate(this.shared.doc).length)) this.#compact = true
      }
    } catch (e) {
      const error = e as SandgateError
      this.#queue = [...edits, ...this.#queue]
      if (shows) this.#shown = false
      if (error.kind === 'exhausted' && !this.#compact) this.#compact = true
      else if (error.kind === 'conflict' || error.kind === 'not_found') link.rejoin()
      else if (error.kind !== 'unavailable' && error.kind !== 'canceled') this.problem = error
    } finally {
      this.#sending = false
    }
    if (this.#queue.length > 0 || this.#compact || !this.#shown) this.#soon()
  }

  /**
   * Changes the document in a way that only one member may. Returns false if another one has done
   * it.
   */
  async once(name: string, change: (copy: SharedDocument) => void): Promise<boolean> {
    const link = this.#link()
    if (!link) return false
    const copy = new SharedDocument()
    Y.applyUpdate(copy.doc, Y.encodeStateAsUpdate(this.shared.doc))
    const before = Y.encodeStateVector(copy.doc)
    change(copy)
    const update = Y.encodeStateAsUpdate(copy.doc, before)
    try {
      const u = await link.add({ id: this.shared.id, update: base64(update), once: name })
      this.#own.add(u.number)
      this.#seen(0)
    } catch (e) {
      if ((e as SandgateError).kind === 'conflict') return false
      throw e
    }
    Y.applyUpdate(this.shared.doc, update, remote)
    return true
  }

  close(): void {
    clearTimeout(this.#timer)
    this.shared.doc.destroy()
  }
}

function bytes(s: string): Uint8Array {
  return Uint8Array.from(atob(s), (c) => c.charCodeAt(0))
}

function base64(b: Uint8Array): string {
  let s = ''
  for (let i = 0; i < b.length; i += 0x8000) s += String.fromCharCode(...b.subarray(i, i + 0x8000))
  return btoa(s)
}
