import type { Connection } from './connection.js'
import { fromFault, type SandgateError } from './fault.js'
import { Subscription } from './subscription.js'
import type { FileChange, FileChanges } from './types.js'

/** The largest number of events that wait for a slow reader. Above it they become an overflow. */
const maxEvents = 256

/**
 * Changes of files, as they happen. It continues over lost connections, and reports an overflow for
 * changes that it may have missed.
 */
export class FileWatch extends Subscription<unknown> implements AsyncIterable<FileChanges> {
  readonly #params: { session: string; path: string; recursive: boolean }
  #queue: FileChanges[] = []
  #error: SandgateError | undefined
  #again = false
  #wake = () => {}

  /** @internal */
  constructor(connection: Connection, ch: number, params: { session: string; path: string; recursive: boolean }) {
    super(connection, ch, params.session)
    this.#params = params
  }

  /** @internal */
  protected request() {
    return { op: 'file.watch', params: this.#params }
  }

  /** @internal */
  protected begun(): void {
    if (this.#again) this.#push({ changes: [], overflow: true })
    this.#again = true
  }

  /** @internal */
  event(name: string, params: unknown): void {
    if (name !== 'file' || this.over) return
    const p = params as { changes: FileChange[]; overflow?: boolean; ended?: boolean; error?: Parameters<typeof fromFault>[0] }
    if (p.changes.length > 0 || p.overflow) this.#push({ changes: p.changes, overflow: p.overflow ?? false })
    if (!p.ended) return
    this.attached = false // the server has already detached it
    if (p.error) this.fail(fromFault(p.error))
    else this.end(undefined)
  }

  #push(c: FileChanges): void {
    if (this.#queue.length >= maxEvents) this.#queue = [{ changes: [], overflow: true }]
    this.#queue.push(c)
    this.#wake()
  }

  /** @internal */
  protected override end(error: SandgateError | undefined): void {
    if (this.over) return
    this.#error = error
    super.end(error)
    this.#wake()
  }

  /** Ends the watch. Iterations end without an error. */
  close(): void {
    this.end(undefined)
  }

  /**
   * The changes from now on, for one reader. It ends when the watched file or folder is removed.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<FileChanges, void, void> {
    try {
      for (;;) {
        const next = this.#queue.shift()
        if (next) {
          yield next
        } else if (this.over) {
          if (this.#error) throw this.#error
          return
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
        }
      }
    } finally {
      this.close()
    }
  }
}
