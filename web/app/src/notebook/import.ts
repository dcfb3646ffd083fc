import type { Sandbox, SandgateError } from '@sandgate/client/base'
import { t } from '../language/texts'
import { failed } from '../ui/toast'
import type { Shell } from './commands'
import { copied, formatNotebook, parseNotebook } from './ipynb'
import type { Notebook } from './notebook'

/** How often another name is tried when other pages take the names that were found. */
const maxNames = 100

/**
 * Stores a notebook of this computer as a file of its own in the session, and returns its path. It
 * replaces no file. Its cells get new ids: the session can have the notebook that it is a copy of.
 * Throws if the file is not a notebook.
 */
export async function importNotebook(session: Sandbox, file: File): Promise<string> {
  return store(session, file.name.replace(/\.(ipynb|json)$/i, '').replaceAll('/', '_') || 'notebook', '', await file.text())
}

/** Stores a copy of a notebook beside it, and returns its path. text is that of an open notebook. */
export async function duplicate(session: Sandbox, path: string, text?: string): Promise<string> {
  return store(session, path.replace(/\.ipynb$/, ''), '-copy', text ?? await (await session.files.open(path)).text())
}

/** Stores a copy of an open notebook, and shows it beside it. */
export async function makeCopy(n: Notebook, shell: Shell): Promise<void> {
  try {
    shell.beside(await duplicate(n.session, n.path, n.export()))
  } catch (e) {
    failed(t('The notebook was not copied'), e)
  }
}

async function store(session: Sandbox, stem: string, end: string, text: string): Promise<string> {
  const body = formatNotebook(copied(parseNotebook(text)))
  for (let i = 1; ; i++) {
    const path = `${stem}${end}${i > 1 ? `-${i}` : ''}.ipynb`
    if (await exists(session, path)) continue
    try {
      await session.files.write(path, body, { over: null })
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
