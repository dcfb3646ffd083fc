import { effect } from '@preact/signals'
import { plural, t } from './language/texts'
import { navigate, notebookPath } from './router'
import { client, languageName } from './server'
import { ask } from './ui/dialog'
import { failed } from './ui/toast'

/** The maximum length of code that a link may contain, in characters. */
const maxCode = 100_000

/** Code that a link contains in its fragment, which is sent to no server: #new=python&code=… */
export function parseGiven(hash: string): { language: string; code: string } | undefined {
  const q = new URLSearchParams(hash.slice(1))
  const [language, code] = [q.get('new'), q.get('code')]
  if (!language || !code || !/^[\w+#-]{1,32}$/.test(language) || code.length > maxCode) return undefined
  return { language, code }
}

/** Returns a notebook with this code in its only cell. */
export function asNotebook(code: string): string {
  const cell = { id: 'given', cell_type: 'code', execution_count: null, metadata: {}, outputs: [], source: code }
  return JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [cell] })
}

/**
 * Removes the code from the address bar and offers to put it into a notebook of a new session.
 * Nothing is created or run before the user confirms.
 */
export function takeGiven(): void {
  const given = parseGiven(location.hash)
  if (!given) return
  history.replaceState(null, '', location.pathname + location.search)
  const stop = effect(() => {
    const sg = client.value
    if (!sg) return // before sign-in
    queueMicrotask(async () => {
      stop()
      const name = await ask({
        title: t('Open {language} code from another page?', { language: languageName(given.language) }), yes: t('Open in a new session'), value: given.code.slice(0, 60).split('\n')[0]!.trim(),
        text: plural(given.code.split('\n').length, 'It has 1 line and becomes a cell, which runs when you run it. Name the session:',
          'It has {n} lines and becomes a cell, which runs when you run it. Name the session:'),
      })
      if (name === undefined) return
      try {
        // sandbox would return an existing session of this name
        const { id } = await sg.call('session.create', { language: given.language, name: name.slice(0, 60) })
        const s = await sg.getSandbox(id)
        await s.files.write('notebook.ipynb', asNotebook(given.code))
        navigate(notebookPath(s.id))
      } catch (e) {
        failed(t('The session was not created'), e)
      }
    })
  })
}
