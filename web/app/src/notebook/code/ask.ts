// Questions to a kernel about the code of a notebook's cells.
import type { CellModel } from '../cell'
import type { Notebook } from '../notebook'

export interface Problem {
  /** From 1. */
  line: number
  /** From 0, in code points, as end. */
  column: number
  end: number
  message: string
  severity: 'error' | 'warning'
}

/** A place in a cell: a line from 1 and a column from 0, in code points. */
export interface Place {
  cell: number
  line: number
  column: number
  /** Texts around a new name at this place: { a } becomes { a: b }. */
  before?: string
  after?: string
}

/** Returns the code cells of a language, which share its names. */
export function cellsOf(n: Notebook, language: string): CellModel[] {
  return n.cells.peek().filter((c) => c.type.peek() === 'code' && c.language.peek() === language)
}

/**
 * Asks the kernel of a cell. The answer is undefined if the kernel is not running, or its language
 * does not answer such questions.
 */
export async function ask<T>(n: Notebook, c: CellModel, kind: string, cursor = 0, more: Record<string, unknown> = {}): Promise<T | undefined> {
  const cells = cellsOf(n, c.language.peek())
  const about = { kind, cells: cells.map((x) => x.source.peek()), at: cells.indexOf(c), ...more }
  return (await n.kernelOf(c).ask(about, c.source.peek(), cursor)) as T | undefined
}

/** Returns the index in a text of a line, from 1, and a column in code points. */
export function indexOf(text: string, line: number, column: number): number {
  let start = 0
  for (let i = 1; i < line; i++) start = text.indexOf('\n', start) + 1
  let at = start
  for (let i = 0; i < column && at < text.length; i++) at += text.codePointAt(at)! > 0xffff ? 2 : 1
  return at
}
