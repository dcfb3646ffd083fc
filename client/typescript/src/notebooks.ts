import type { Core } from './core.js'
import { SandgateError } from './fault.js'
import type { Abortable, NotebookInfo, NotebookVersion } from './types.js'

/**
 * Copies that the server keeps of each saved *.ipynb file, in versions. They outlive the sandbox.
 */
export class Notebooks {
  readonly #core: Core

  /** @internal */
  constructor(core: Core) {
    this.#core = core
  }

  /** Returns the stored notebooks of a session or, without one, of the tenant, saved last first. */
  async list({ signal, ...query }: Abortable & { session?: string } = {}): Promise<NotebookInfo[]> {
    return (await this.#core.ask('notebook.list', query, { signal })).notebooks
  }

  /** Returns the versions of a notebook, newest first. */
  async versions(notebook: string, o: Abortable = {}): Promise<NotebookVersion[]> {
    return (await this.#core.ask('notebook.versions', { notebook }, o)).versions
  }

  /**
   * Returns the text of a version, by default of the newest: the content of the file. Throws
   * conflict if a save has replaced the version meanwhile.
   */
  async read(notebook: string, version?: string, o: Abortable = {}): Promise<string> {
    const wanted = version ?? (await this.versions(notebook, o))[0]?.id
    if (wanted === undefined) {
      throw new SandgateError('not_found', 'the notebook has no version', { field: 'version' })
    }
    let text = ''
    for (let offset: number | undefined = 0; offset !== undefined;) {
      const part: { text: string; next?: number } =
        await this.#core.ask('notebook.read', { notebook, version: wanted, offset }, o)
      text += part.text
      offset = part.next || undefined
    }
    return text
  }

  /**
   * Gives a version a name, with which it is kept; an empty name removes it. After closed, the next
   * save begins another version.
   */
  name(
    notebook: string, version: string, name: string, { signal, ...more }: Abortable & { closed?: boolean } = {},
  ): Promise<NotebookVersion> {
    return this.#core.ask('notebook.name', { notebook, version, name, ...more }, { signal })
  }

  /** Removes a stored notebook with all versions. The file in the session stays. */
  async delete(notebook: string, o: Abortable = {}): Promise<void> {
    await this.#core.call('notebook.delete', { notebook }, o)
  }
}
