import type { Connection } from './connection.js'
import { SandgateError } from './fault.js'
import { Subscription } from './subscription.js'

/** The state of a document when a client joins it. */
export interface DocumentJoined {
  /** Numbers of updates of different epochs are unrelated. */
  epoch: number
  /** The id of the document, if there is one already. */
  id?: string
  /** The number of the last update. */
  last: number
}

/** Changes of a document since the previous event. Content is in base64. */
export interface DocumentNews {
  epoch: number
  id?: string
  updates?: { number: number; client: number; update: string; once?: string }[]
  last: number
  members?: { client: number; presence: string }[]
  left?: number[]
}

/** An addition of a client to a document. Content is in base64. */
export interface DocumentAddition {
  id?: string
  update?: string
  /** The update contains all updates up to this number. */
  replaces?: number
  /** Names work that only one client may do. A second one gets the error conflict. */
  once?: string
  presence?: string
}

export interface DocumentUpdated {
  number: number
  updates: number
  bytes: number
}

/** Functions of the user of a document. */
export interface DocumentUser {
  /** Called after each connection. The updates after the last known one follow, as news. */
  joined(j: DocumentJoined): void
  news(n: DocumentNews): void
  /** The connection was lost. It joins again by itself. */
  left(): void
}

/**
 * The membership in a document that several clients edit together. It joins again after each
 * reconnection. The server passes updates between the members and does not know their content.
 */
export class DocumentLink extends Subscription<DocumentJoined> {
  readonly path: string
  readonly client: number
  readonly #user: DocumentUser
  #epoch = 0
  #last = 0

  /** @internal */
  constructor(connection: Connection, ch: number, session: string, path: string, client: number, user: DocumentUser) {
    super(connection, ch, session)
    this.path = path
    this.client = client
    this.#user = user
  }

  /** @internal */
  protected request() {
    const known = this.#epoch ? { epoch: this.#epoch, after: this.#last } : {}
    return { op: 'document.join', params: { session: this.session, path: this.path, client: this.client, ...known } }
  }

  /** @internal */
  protected begun(joined: DocumentJoined): void {
    if (joined.epoch !== this.#epoch) this.#last = 0
    this.#epoch = joined.epoch
    this.#user.joined(joined)
  }

  /** @internal */
  override lower(): void {
    const was = this.attached
    super.lower()
    if (was) this.#user.left()
  }

  /** @internal */
  event(name: string, params: unknown): void {
    if (name !== 'document' || this.over || !this.attached) return
    const n = params as DocumentNews
    if (n.epoch !== this.#epoch) return
    this.#last = Math.max(this.#last, n.last)
    this.#user.news(n)
  }

  /** Adds an update to the document, or changes this member's presence. */
  add(a: DocumentAddition): Promise<DocumentUpdated> {
    if (!this.attached) return Promise.reject(new SandgateError('unavailable', 'there is no connection'))
    return this.connection.call('document.update', { session: this.session, path: this.path, client: this.client, epoch: this.#epoch, ...a }, { now: true })
  }

  /** Leaves and joins again, from the start: the server has another document. */
  rejoin(): void {
    if (this.over || !this.attached) return
    this.detach()
    this.lower()
    this.#epoch = this.#last = 0
    this.attach()
  }

  /** @internal */
  protected override end(error: SandgateError | undefined): void {
    if (this.over) return
    super.end(error)
    this.#user.left()
  }

  /** Leaves the document. */
  close(): void {
    this.fail(new SandgateError('canceled', 'the document was left'))
  }
}
