// Copies of notebooks in this browser, for sessions that have ended: see rescue.ts.
import { formatNotebook, parseNotebook } from './ipynb'

/** The number of notebooks of which the browser keeps a copy, and the size of each. */
const maxCopies = 8
const maxSize = 400_000

export const copyPrefix = 'sandgate.copy.'

/** Keeps the notebook as it was saved last. Outputs are left out if they are too large. */
export function keepCopy(session: string, path: string, text: string): void {
  try {
    const n = text.length > maxSize ? parseNotebook(text) : undefined
    const copy = n ? formatNotebook({ ...n, cells: n.cells.map((c) => ({ ...c, outputs: [] })) }) : text
    const name = `${copyPrefix}${session}.${path}`
    const kept = (JSON.parse(localStorage.getItem('sandgate.copies') ?? '[]') as string[]).filter((k) => k !== name)
    for (const old of kept.splice(0, Math.max(0, kept.length - maxCopies + 1))) localStorage.removeItem(old)
    if (copy.length > maxSize) return
    localStorage.setItem(name, copy)
    localStorage.setItem('sandgate.copies', JSON.stringify([...kept, name]))
  } catch {
    // The browser stores nothing, or has no space.
  }
}
