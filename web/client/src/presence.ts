import type { Connection, Bound } from './connection.js'
import { asError, SandgateError } from './fault.js'
import type { Presence } from './types.js'

/** Who is at a session, as it changes. It goes on over lost connections; only how it is now is told. */
export class PresenceWatch implements Bound {
  readonly ch: number
  readonly session: string
  attached = false
  /** Who is there, as far as is known. */
  now: Presence | undefined
  /** Settles when the server has told for the first time. */
  readonly ready: Promise<void>

  readonly #connection: Connection
  readonly #readOnly: boolean
  readonly #tell: (p: Presence) => void
  #over = false
  #asking = false
  #first: { resolve(): void; reject(e: SandgateError): void } | undefined

  /** @internal */
  constructor(connection: Connection, ch: number, session: string, readOnly: boolean, tell: (p: Presence) => void) {
    this.#connection = connection
    this.ch = ch
    this.session = session
    this.#readOnly = readOnly
    this.#tell = tell
    this.ready = new Promise((resolve, reject) => {
      this.#first = { resolve, reject }
    })
    this.ready.catch(() => {})
  }

  /** @internal */
  attach(): void {
    if (this.#over || this.attached || this.#asking) return
    this.#asking = true
    const params = { session: this.session, ...(this.#readOnly ? { read_only: true } : {}) }
    this.#connection.ask<Presence>('session.watch', params, { ch: this.ch, now: true }, (now, error) => {
      this.#asking = false
      if (this.#over) {
        // It was closed meanwhile: what the server holds is of no use.
        if (!error) this.#connection.ask('detach', {}, { ch: this.ch, now: true }, () => {})
      } else if (now) {
        this.attached = true
        this.#told(now)
        this.#first?.resolve()
      } else if (error && error.kind !== 'unavailable') {
        this.fail(error)
      } // else the link was lost: the next one begins anew
    })
  }

  /** @internal */
  lower(): void {
    this.attached = this.#asking = false
  }

  /** @internal */
  event(name: string, params: unknown): void {
    if (name === 'presence' && !this.#over) this.#told(params as Presence)
  }

  #told(p: Presence): void {
    this.now = p
    try {
      this.#tell(p)
    } catch {
      // A listener's failure is its own.
    }
  }

  /** @internal */
  fail(e: unknown): void {
    if (this.#over) return
    this.#over = true
    const error = asError(e, 'internal')
    this.#connection.drop(this, error)
    this.#first?.reject(error)
  }

  /** @internal No output and no input belongs to it. */
  receive(): void {}
  /** @internal */
  inputTaken(): void {}
  /** @internal */
  inputRefused(): void {}

  /** Ends it. */
  close(): void {
    this.fail(new SandgateError('canceled', 'the watch has ended'))
  }
}
