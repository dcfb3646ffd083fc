import type { Session, SandgateError } from '@sandgate/client'
import { parseNotebook, type NotebookJSON } from './ipynb'

/** A notebook's file in the session. */
export class Store {
  readonly path: string
  readonly #session: Session
  #seen: { size: number; modified: number } | undefined
  #saving: Promise<void> | undefined
  #channel: BroadcastChannel

  constructor(session: Session, path: string, told: () => void) {
    this.#session = session
    this.path = path
    this.#channel = new BroadcastChannel(`sandgate.notebook.${session.id}.${path}`)
    this.#channel.onmessage = told
  }

  /** The notebook; undefined while there is no such file. */
  async load(): Promise<NotebookJSON | undefined> {
    try {
      const info = await this.#session.stat(this.path)
      const file = await this.#session.download(this.path)
      const text = await file.text()
      this.#seen = { size: info.size, modified: info.modified_ms }
      return parseNotebook(text)
    } catch (e) {
      if ((e as SandgateError).kind === 'not_found') return undefined
      throw e
    }
  }

  /** Whether somebody else has written the file since it was read or written here. */
  async changed(): Promise<boolean> {
    try {
      const info = await this.#session.stat(this.path)
      return !this.#seen || info.size !== this.#seen.size || info.modified_ms !== this.#seen.modified
    } catch (e) {
      if ((e as SandgateError).kind === 'not_found') return false
      throw e
    }
  }

  /** Writes the file, whole or not at all; one at a time. */
  async save(text: string): Promise<void> {
    while (this.#saving) await this.#saving.catch(() => {})
    this.#saving = (async () => {
      const info = await this.#session.upload(this.path, text)
      this.#seen = { size: info.size, modified: info.modified_ms }
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
