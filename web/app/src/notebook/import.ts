import type { Sandbox, SandgateError } from '@sandgate/client/base'
import { parseNotebook } from './ipynb'

/** How often an import tries another name when other pages take the names that it has found. */
const maxNames = 100

/**
 * Stores a notebook of this computer as a file of its own in the session, and returns its path. It
 * replaces no file. Throws if the file is not a notebook.
 */
export async function importNotebook(session: Sandbox, file: File): Promise<string> {
  const text = await file.text()
  parseNotebook(text)
  const stem = file.name.replace(/\.(ipynb|json)$/i, '').replaceAll('/', '_') || 'notebook'
  for (let i = 1; ; i++) {
    const path = `${stem}${i > 1 ? `-${i}` : ''}.ipynb`
    if (await exists(session, path)) continue
    try {
      await session.files.write(path, text, { over: null })
      return path
    } catch (e) {
      if ((e as SandgateError).kind !== 'conflict' || i > maxNames) throw e // another page has taken the name
    }
  }
}

async function exists(session: Sandbox, path: string): Promise<boolean> {
  try {
    await session.files.stat(path)
    return true
  } catch (e) {
    if ((e as SandgateError).kind !== 'not_found') throw e
    return false
  }
}
