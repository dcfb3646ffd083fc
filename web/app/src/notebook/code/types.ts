// Languages whose kernels know the types in a notebook, and answer questions while a cell runs.
import type { Completion, Inspection } from '@sandgate/client/base'
import type { CellModel } from '../cell'
import type { Notebook } from '../notebook'
import { cellsOf } from './ask'

const typed: ReadonlySet<string> = new Set(['javascript', 'golang'])

export const knowsTypes = (language: string): boolean => typed.has(language)

/** The signature of a function whose arguments are typed. */
export interface Signature {
  label: string
  /** Ranges of the label. */
  parameters: [number, number][]
  /** The index of the parameter at the cursor. */
  active: number
  doc?: string
  /** The number of other signatures that the function has. */
  more?: number
}

/** The time in which a kernel answers while code is typed, in milliseconds. */
const soon = 5000

/** Questions of one cell's editor, with the code of all cells of its language. */
export class Types {
  readonly #n: Notebook
  readonly #c: CellModel

  constructor(n: Notebook, c: CellModel) {
    this.#n = n
    this.#c = c
  }

  #about(code: string): { cells: string[]; at: number } {
    const cells = cellsOf(this.#n, this.#c.language.peek())
    const at = cells.indexOf(this.#c)
    return { cells: cells.map((x, i) => (i === at ? code : x.source.peek())), at }
  }

  /** asked is false while code is typed. Then no kernel is started. */
  async complete(code: string, cursor: number, asked: boolean): Promise<Completion | undefined> {
    if (this.#c.type.peek() !== 'code' || this.#n.readOnly) return undefined
    const link = this.#n.kernelOf(this.#c)
    const types = knowsTypes(this.#c.language.peek())
    const ready = link.state.peek() === 'idle' || (types && link.state.peek() === 'busy')
    const kernel = asked ? await link.open() : ready ? link.kernel : undefined
    return kernel?.complete(code, cursor, { ...(types ? { about: this.#about(code) } : {}), signal: AbortSignal.timeout(soon) })
  }

  /** Describes the name at the cursor. Starts no kernel. */
  async inspect(code: string, cursor: number): Promise<Inspection | undefined> {
    const found = await this.#ask('describe', code, cursor)
    if (found?.found) return found
    const link = this.#n.kernelOf(this.#c)
    // A kernel that was started by an earlier release knows no types.
    if (this.#c.type.peek() !== 'code' || this.#n.readOnly || (found && link.state.peek() === 'busy')) return undefined
    return link.kernel?.inspect(code, cursor, { signal: AbortSignal.timeout(soon) })
  }

  /** Returns the signature of the call around the cursor, if the language knows types. */
  async signature(code: string, cursor: number): Promise<Signature | undefined> {
    const found = await this.#ask('signature', code, cursor)
    return found?.found ? (found.data?.['application/json'] as Signature | undefined) : undefined
  }

  async #ask(kind: string, code: string, cursor: number): Promise<Inspection | undefined> {
    if (this.#c.type.peek() !== 'code' || this.#n.readOnly || !knowsTypes(this.#c.language.peek())) return undefined
    const about = { kind, ...this.#about(code) }
    return this.#n.kernelOf(this.#c).kernel?.inspect(code, cursor, { about, signal: AbortSignal.timeout(soon) })
  }
}
