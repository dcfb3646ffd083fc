// Notebooks that this browser keeps, for a time without the server. Text that is typed then is a
// draft, which the notebook takes over when it is opened again.
import { formatNotebook, newCellID, parseNotebook, type CellJSON } from '../notebook/ipynb'
import { copyPrefix } from '../notebook/keep'
import { copyOf, draftOf, draftPrefix } from '../notebook/rescue'

const object = (v: unknown): Record<string, unknown> => (typeof v === 'object' && v !== null ? (v as Record<string, unknown>) : {})

export interface Kept {
  session: string
  path: string
  /** It has changes that the session does not have. */
  changed: boolean
}

/** Returns the notebooks that this browser keeps, those with changes first. */
export function keptNotebooks(): Kept[] {
  const found = new Map<string, Kept>()
  try {
    for (const key of Object.keys(localStorage)) {
      const prefix = [draftPrefix, copyPrefix].find((p) => key.startsWith(p))
      if (!prefix) continue
      const [session = '', ...path] = key.slice(prefix.length).split('.')
      const name = `${session} ${path.join('.')}`
      found.set(name, { session, path: path.join('.'), changed: prefix === draftPrefix || found.get(name)?.changed === true })
    }
  } catch {
    // The browser stores nothing.
  }
  return [...found.values()].sort((a, b) => Number(b.changed) - Number(a.changed) || a.path.localeCompare(b.path))
}

export interface KeptCell {
  json: CellJSON
  source: string
}

/** A notebook that can be read and edited without the server. */
export class KeptNotebook {
  readonly cells: KeptCell[]
  readonly #session: string
  readonly #path: string
  readonly #metadata: Record<string, unknown>

  private constructor(session: string, path: string, text: string) {
    this.#session = session
    this.#path = path
    const { cells, metadata } = parseNotebook(text)
    this.cells = cells.map((json) => ({ json, source: json.source }))
    // The version on which the draft is based: an older draft has its own.
    const draft = localStorage.getItem(draftOf(session, path))
    const copy = localStorage.getItem(`${copyPrefix}${session}.${path}`)
    const marks = draft ? object(parseNotebook(draft).metadata.sandgate) : {}
    const base = copy && !marks.sums && !marks.base ? { base: parseNotebook(copy).cells.map((c) => ({ ...c, outputs: [] })) } : {}
    this.#metadata = { ...metadata, sandgate: { ...marks, ...base, settled: false } }
  }

  /** Returns undefined if this browser does not have the notebook. */
  static find(session: string, path: string): KeptNotebook | undefined {
    const text = copyOf(session, path)
    try {
      return text === undefined ? undefined : new KeptNotebook(session, path, text)
    } catch {
      return undefined
    }
  }

  add(): void {
    const json: CellJSON = { id: newCellID(), cell_type: 'code', source: '', metadata: {}, execution_count: null, outputs: [] }
    this.cells.push({ json, source: '' })
  }

  /** Keeps what was typed. Returns false if the browser stores nothing, or has no space. */
  keep(): boolean {
    const cells = this.cells.map(({ json, source }) => ({ ...json, source, outputs: [] }))
    try {
      localStorage.setItem(draftOf(this.#session, this.#path), formatNotebook({ cells, metadata: this.#metadata, nbformat_minor: 5 }))
      return true
    } catch {
      return false
    }
  }
}
