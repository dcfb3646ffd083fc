// Opens the copies of notebooks of sessions that have ended.
import { client } from '../server'
import { formatNotebook, parseNotebook } from './ipynb'
import { copyPrefix } from './keep'

export const draftPrefix = 'sandgate.draft.'
export const draftOf = (session: string, path: string): string => `${draftPrefix}${session}.${path}`

/**
 * Returns the notebook of a session as this browser has it: as it was saved last, with the text
 * that was typed since. Undefined if it has none.
 */
export function copyOf(session: string, path: string): string | undefined {
  try {
    const copy = localStorage.getItem(`${copyPrefix}${session}.${path}`)
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
