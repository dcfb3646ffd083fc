import type { Bound, Connection } from './connection.js'
import { asError, SandgateError } from './fault.js'

/** ms after which a request is sent again whose node could not be reached. */
const retryTime = 1000

/**
 * A request whose events the server sends until it is closed. It is sent again after each
 * reconnection. It has neither output nor input.
 */
export abstract class Subscription<T> implements Bound {
  readonly ch: number
  readonly session: string
  attached = false
  /** Settles when the server has answered for the first time. */
  readonly ready: Promise<void>

  protected readonly connection: Connection
  #over = false
  #asking = false
  #first: { resolve(): void; reject(e: SandgateError): void } | undefined

  /** @internal */
  constructor(connection: Connection, ch: number, session: string) {
    this.connection = connection
    this.ch = ch
    this.session = session
    this.ready = new Promise((resolve, reject) => {
      this.#first = { resolve, reject }
    })
    this.ready.catch(() => {})
  }

  /** @internal Whether it has ended. */
  protected get over(): boolean {
    return this.#over
  }

  /** @internal Returns the operation and its parameters. */
  protected abstract request(): { op: string; params: unknown }
  /** @internal Takes the server's answer. */
  protected abstract begun(answer: T): void
  /** @internal Takes an event of the server. */
  abstract event(name: string, params: unknown): void

  /** @internal */
  attach(): void {
    if (this.#over || this.attached || this.#asking) return
    this.#asking = true
    const { op, params } = this.request()
    this.connection.ask<T>(op, params, { ch: this.ch, now: true }, (answer, error) => {
      this.#asking = false
      if (this.#over) {
        if (!error) this.detach() // it was closed meanwhile
      } else if (!error) {
        this.attached = true
        this.begun(answer as T)
        this.#first?.resolve()
      } else if (error.kind !== 'unavailable') {
        this.fail(error)
      } else if (this.connection.connected) {
        setTimeout(() => this.attach(), retryTime) // the node cannot be reached
      } // otherwise the link was lost: the next one begins it again
    })
  }

  /** @internal */
  protected detach(): void {
    this.connection.ask('detach', {}, { ch: this.ch, now: true }, () => {})
  }

  /** @internal */
  lower(): void {
    this.attached = this.#asking = false
  }

  /** @internal Ends it: with an error, or without one if nobody has failed. */
  protected end(error: SandgateError | undefined): void {
    if (this.#over) return
    this.#over = true
    this.connection.drop(this, error ?? new SandgateError('canceled', 'it was closed'))
    if (error) this.#first?.reject(error)
    else this.#first?.resolve()
  }

  /** @internal */
  fail(e: unknown): void {
    this.end(asError(e, 'internal'))
  }

  /** @internal */
  receive(): void {}
  /** @internal */
  inputTaken(): void {}
  /** @internal */
  inputRefused(): void {}
}
