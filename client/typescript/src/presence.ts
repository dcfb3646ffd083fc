import type { Connection } from './connection.js'
import { SandgateError } from './fault.js'
import { Subscription } from './subscription.js'
import type { Presence } from './types.js'

/**
 * Reports who is connected to a session. It continues over lost connections; only the present state
 * is reported.
 */
export class PresenceWatch extends Subscription<Presence> {
  /** The last known state. */
  now: Presence | undefined
  readonly #readOnly: boolean
  readonly #tell: (p: Presence) => void

  /** @internal */
  constructor(connection: Connection, ch: number, session: string, readOnly: boolean, tell: (p: Presence) => void) {
    super(connection, ch, session)
    this.#readOnly = readOnly
    this.#tell = tell
  }

  /** @internal */
  protected request() {
    return { op: 'session.watch', params: { session: this.session, ...(this.#readOnly ? { read_only: true } : {}) } }
  }

  /** @internal */
  protected begun(now: Presence): void {
    this.#changed(now)
  }

  /** @internal */
  event(name: string, params: unknown): void {
    if (name === 'presence' && !this.over) this.#changed(params as Presence)
  }

  #changed(p: Presence): void {
    this.now = p
    try {
      this.#tell(p)
    } catch {
      // an error of a listener is ignored
    }
  }

  /** Ends it. */
  close(): void {
    this.fail(new SandgateError('canceled', 'the watch has ended'))
  }
}
