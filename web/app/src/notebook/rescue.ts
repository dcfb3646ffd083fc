// Copies of notebooks in this browser, for sessions that have ended.
import { client } from '../server'
import { formatNotebook, parseNotebook } from './ipynb'

/** The number of notebooks of which the browser keeps a copy, and the size of each. */
const maxCopies = 8
const maxSize = 400_000

const prefix = 'sandgate.copy.'
const draftOf = (session: string, path: string) => `sandgate.draft.${session}.${path}`

/** Keeps the notebook as it was saved last. Outputs are left out if they are too large. */
export function keepCopy(session: string, path: string, text: string): void {
  try {
    const n = text.length > maxSize ? parseNotebook(text) : undefined
    const copy = n ? formatNotebook({ ...n, cells: n.cells.map((c) => ({ ...c, outputs: [] })) }) : text
    const name = `${prefix}${session}.${path}`
    const kept = (JSON.parse(localStorage.getItem('sandgate.copies') ?? '[]') as string[]).filter((k) => k !== name)
    for (const old of kept.splice(0, Math.max(0, kept.length - maxCopies + 1))) localStorage.removeItem(old)
    if (copy.length > maxSize) return
    localStorage.setItem(name, copy)
    localStorage.setItem('sandgate.copies', JSON.stringify([...kept, name]))
  } catch {
    // The browser stores nothing, or has no space.
  }
}

/**
 * Returns the notebook of a session as this browser has it: as it was saved last, with the text
 * that was typed since. Undefined if it has none.
 */
export function copyOf(session: string, path: string): string | undefined {
  try {
    const copy = localStorage.getItem(`${prefix}${session}.${path}`)
    const draft = localStorage.getItem(draftOf(session, path))
    if (!draft) return copy ?? undefined
    const { cells } = parseNotebook(draft)
    if (!copy) return draft
    const saved = parseNotebook(copy)
    const before = new Map(saved.cells.map((c) => [c.id, c]))
    return formatNotebook({ ...saved, cells: cells.map((c) => ({ ...(before.get(c.id) ?? c), cell_type: c.cell_type, source: c.source })) })
  } catch {
    return undefined
  }
}

/** Opens a notebook in a new session, and returns the session's id. Nothing runs. */
export async function openInNewSession(path: string, text: string, language: string | undefined): Promise<string> {
  const n = parseNotebook(text)
  delete n.metadata.sandgate // of the session that has ended
  const session = await client.peek()!.sandbox(language ? { language } : {})
  await session.files.write(path, formatNotebook(n), { over: null })
  return session.id
}
