import type { Bound, Connection } from './connection.js'
import { asError, SandgateError } from './fault.js'

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
export class DocumentLink implements Bound {
  readonly ch: number
  readonly session: string
  readonly path: string
  readonly client: number
  attached = false
  /** Settles when the server has answered for the first time. */
  readonly ready: Promise<void>

  readonly #connection: Connection
  readonly #user: DocumentUser
  #epoch = 0
  #last = 0
  #over = false
  #asking = false
  #first: { resolve(): void; reject(e: SandgateError): void } | undefined

  /** @internal */
  constructor(connection: Connection, ch: number, session: string, path: string, client: number, user: DocumentUser) {
    this.#connection = connection
    this.ch = ch
    this.session = session
    this.path = path
    this.client = client
    this.#user = user
    this.ready = new Promise((resolve, reject) => {
      this.#first = { resolve, reject }
    })
    this.ready.catch(() => {})
  }

  /** @internal */
  attach(): void {
    if (this.#over || this.attached || this.#asking) return
    this.#asking = true
    const params = { session: this.session, path: this.path, client: this.client, ...(this.#epoch ? { epoch: this.#epoch, after: this.#last } : {}) }
    this.#connection.ask<DocumentJoined>('document.join', params, { ch: this.ch, now: true }, (joined, error) => {
      this.#asking = false
      if (this.#over) {
        if (!error) this.#connection.ask('detach', {}, { ch: this.ch, now: true }, () => {})
      } else if (joined) {
        this.attached = true
        if (joined.epoch !== this.#epoch) this.#last = 0
        this.#epoch = joined.epoch
        this.#user.joined(joined)
        this.#first?.resolve()
      } else if (error && error.kind !== 'unavailable') {
        this.fail(error)
      }
    })
  }

  /** @internal */
  lower(): void {
    const was = this.attached
    this.attached = this.#asking = false
    if (was) this.#user.left()
  }

  /** @internal */
  event(name: string, params: unknown): void {
    if (name !== 'document' || this.#over || !this.attached) return
    const n = params as DocumentNews
    if (n.epoch !== this.#epoch) return
    this.#last = Math.max(this.#last, n.last)
    this.#user.news(n)
  }

  /** Adds an update to the document, or changes this member's presence. */
  add(a: DocumentAddition): Promise<DocumentUpdated> {
    if (!this.attached) return Promise.reject(new SandgateError('unavailable', 'there is no connection'))
    return this.#connection.call('document.update', { session: this.session, path: this.path, client: this.client, epoch: this.#epoch, ...a }, { now: true })
  }

  /** Leaves and joins again, from the start: the server has another document. */
  rejoin(): void {
    if (this.#over || !this.attached) return
    this.#connection.ask('detach', {}, { ch: this.ch, now: true }, () => {})
    this.lower()
    this.#epoch = this.#last = 0
    this.attach()
  }

  /** @internal */
  fail(e: unknown): void {
    if (this.#over) return
    this.#over = true
    const error = asError(e, 'internal')
    this.#connection.drop(this, error)
    this.#first?.reject(error)
    this.#user.left()
  }

  /** @internal It has no output and no input. */
  receive(): void {}
  /** @internal */
  inputTaken(): void {}
  /** @internal */
  inputRefused(): void {}

  /** Leaves the document. */
  close(): void {
    this.fail(new SandgateError('canceled', 'the document was left'))
  }
}
