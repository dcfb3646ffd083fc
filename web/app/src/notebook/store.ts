import type { Sandbox, SandgateError } from '@sandgate/client/base'
import { parseNotebook, type NotebookJSON } from './ipynb'

/** A notebook's file in the session. */
export class Store {
  readonly path: string
  readonly #session: Sandbox
  /** The etag of the version that was read or written last; null while there is no file. */
  #seen: string | null = null
  #saving: Promise<void> | undefined
  #channel: BroadcastChannel

  constructor(session: Sandbox, path: string, told: () => void) {
    this.#session = session
    this.path = path
    this.#channel = new BroadcastChannel(`sandgate.notebook.${session.id}.${path}`)
    this.#channel.onmessage = told
  }

  /** Returns the notebook, or undefined if there is no such file. */
  async load(): Promise<NotebookJSON | undefined> {
    try {
      await this.#session.files.stat(this.path) // a missing file in this request is not logged as an error on the console
      const file = await this.#session.files.open(this.path)
      const text = await file.text()
      this.#seen = file.etag ?? null
      return parseNotebook(text)
    } catch (e) {
      if ((e as SandgateError).kind !== 'not_found') throw e
      this.#seen = null
      return undefined
    }
  }

  /** The etag of the version that was read or written last; empty while there is no file. */
  get etag(): string {
    return this.#seen ?? ''
  }

  /** The next write replaces this version of the file. */
  see(etag: string): void {
    this.#seen = etag || null
  }

  /**
   * Returns the etag of the file if another program has written it since it was read or written
   * here, empty if it was removed, and undefined if nothing has changed.
   */
  async changed(): Promise<string | undefined> {
    let now: string | null
    try {
      now = (await this.#session.files.stat(this.path)).etag ?? null
    } catch (e) {
      if ((e as SandgateError).kind !== 'not_found') throw e
      now = null
    }
    return now === this.#seen ? undefined : (now ?? '')
  }

  /**
   * Writes the file, completely or not at all, one write at a time. Throws conflict when the file
   * has changed since it was last read or written.
   */
  async save(text: string): Promise<void> {
    while (this.#saving) await this.#saving.catch(() => {})
    this.#saving = (async () => {
      this.#seen = (await this.#session.files.write(this.path, text, { over: this.#seen })).etag ?? null
      this.#channel.postMessage('saved')
    })()
    try {
      await this.#saving
    } finally {
      this.#saving = undefined
    }
  }

  close(): void {
    this.#channel.close()
  }
}
