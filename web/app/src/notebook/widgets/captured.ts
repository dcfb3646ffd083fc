import type { CellEvent } from '@sandgate/client/base'
import type { Bundle, OutputJSON } from '../ipynb'
import { isObject } from './state'

/** The number of outputs of an Output widget, and the characters of its text. */
const maxOutputs = 500
const maxText = 1 << 20

/** Finds the Output widget that receives the output of a cell. */
export class Captures {
  readonly #cells = new Map<string, string[]>() // by the number of the cell, the last one receives

  /** Handles an update of a model: an Output widget receives the output of the cell in msg_id. */
  update(id: string, state: Record<string, unknown>): void {
    const cell = state.msg_id
    if (typeof cell !== 'string') return
    for (const [c, list] of this.#cells) {
      const rest = list.filter((x) => x !== id)
      if (rest.length > 0) this.#cells.set(c, rest)
      else this.#cells.delete(c)
    }
    if (cell !== '') this.#cells.set(cell, [...(this.#cells.get(cell) ?? []), id])
  }

  of(cell: number): string | undefined {
    return this.#cells.size === 0 ? undefined : this.#cells.get(String(cell))?.at(-1)
  }

  clear(): void {
    this.#cells.clear()
  }
}

/** The outputs of an Output widget, as in a notebook's file. */
export class Captured {
  #list: OutputJSON[]
  #displays = new Map<string, OutputJSON>()
  #clearNext = false
  #cleared = false

  constructor(outputs: unknown) {
    this.#list = listOf(outputs)
  }

  get outputs(): OutputJSON[] {
    return this.#list
  }

  /** The whole state of the widget has arrived. Its earlier outputs come first. */
  before(outputs: unknown): void {
    if (!this.#cleared) this.#list = [...listOf(outputs), ...this.#list]
  }

  /** Adds an event. Returns false if it is not output. */
  add(e: CellEvent): boolean {
    switch (e.type) {
      case 'stdout': case 'stderr':
        this.#text(e.type, e.text)
        return true
      case 'display_data':
        this.#push({ output_type: 'display_data', data: e.data as Bundle, metadata: e.metadata ?? {} }, e.transient?.display_id)
        return true
      case 'execute_result':
        this.#push({ output_type: 'execute_result', data: e.data as Bundle, metadata: e.metadata ?? {}, execution_count: e.execution_count })
        return true
      case 'update_display_data': {
        const id = e.transient?.display_id
        const old = id === undefined ? undefined : this.#displays.get(id)
        if (!old) return false
        const fresh = { ...old, data: e.data as Bundle, metadata: e.metadata ?? {} } as OutputJSON
        this.#displays.set(id!, fresh)
        this.#list = this.#list.map((o) => (o === old ? fresh : o))
        return true
      }
      case 'error':
        this.#push({ output_type: 'error', ename: e.ename, evalue: e.evalue, traceback: e.traceback ?? [] })
        return true
      case 'clear_output':
        if (e.wait) this.#clearNext = true
        else this.#clear()
        return true
    }
    return false
  }

  #clear(): void {
    this.#clearNext = false
    this.#cleared = true
    this.#list = []
    this.#displays.clear()
  }

  #text(name: 'stdout' | 'stderr', text: string): void {
    if (this.#clearNext) this.#clear()
    const last = this.#list.at(-1)
    if (last?.output_type !== 'stream' || last.name !== name) return this.#push({ output_type: 'stream', name, text: text.slice(-maxText) })
    this.#list = [...this.#list.slice(0, -1), { ...last, text: (last.text + text).slice(-maxText) }]
  }

  #push(o: OutputJSON, display?: string): void {
    if (this.#clearNext) this.#clear()
    this.#list = [...this.#list, o].slice(-maxOutputs)
    if (display !== undefined) this.#displays.set(display, o)
  }
}

function listOf(v: unknown): OutputJSON[] {
  return (Array.isArray(v) ? v : []).filter((o): o is OutputJSON => isObject(o) && typeof o.output_type === 'string')
}
