import { useEffect, useState } from 'preact/hooks'
import type { SandgateError } from '@sandgate/client/base'
import { t } from '../language/texts'
import { navigate, notebookPath } from '../router'
import { may } from '../server'
import { explain, mayHelp } from '../ui/again'
import { Bar } from '../ui/bar'
import { failed } from '../ui/toast'
import type { Notebook } from './notebook'
import { copyOf, openInNewSession } from './rescue'
import { storedCopy } from './stored'

/** Opens the notebook in a new session. */
function Rescue({ path, language, text }: { path: string; language?: string; text: () => string }) {
  const [going, setGoing] = useState(false)
  if (!may('sessions:manage')) return null
  return (
    <button type="button" class="button primary" disabled={going} onClick={async () => {
      setGoing(true)
      try {
        const id = await openInNewSession(path, text(), language)
        navigate(`${notebookPath(id)}${path === 'notebook.ipynb' ? '' : `?file=${encodeURIComponent(path)}`}`)
      } catch (e) {
        failed(t('The notebook was not opened'), e)
        setGoing(false)
      }
    }}>{t('Open this notebook in a new session')}</button>
  )
}

/** Says that the session has ended while its notebook is open. */
export function Ended({ notebook: n }: { notebook: Notebook }) {
  const why = n.ended.value
  if (why === undefined) return null
  return (
    <div class="session-ended" role="alert">
      <p><strong>{t('The session has ended.')}</strong> {why && `${why[0]!.toUpperCase()}${why.slice(1).replace(/\.$/, '')}. `}{t('Its variables and files are gone. The notebook is still here, with its outputs.')}</p>
      <Rescue path={n.path} language={n.language.value} text={() => n.export()} />
    </div>
  )
}

/** Says that a notebook cannot be opened, and offers a copy of it if its session has ended. */
export function Broken({ problem, path, session }: { problem: Error; path: string; session: string }) {
  const gone = ['not_found', 'sandbox_lost'].includes((problem as SandgateError).kind)
  const again = !gone && mayHelp(problem)
  // The browser's copy has what was typed last.
  const mine = gone ? copyOf(session, path) : undefined
  const [stored, setStored] = useState<string>()
  useEffect(() => {
    if (gone && mine === undefined) void storedCopy(session, path).then(setStored, () => {}) // then there is none
  }, [gone])
  const copy = mine ?? stored
  const kept = copy !== undefined
  return (
    <>
      <Bar />
      <main class="centred">
        <h1>{gone ? t('This session has ended') : t('{path} could not be opened', { path })}</h1>
        <p>{gone ? t('It was ended, or it has expired. Its variables and files cannot be restored.') : explain(problem)}{kept && ` ${mine ? t('This browser still has the notebook.') : t('The server still has the notebook.')}`}</p>
        <div class="row">
          {again && <button type="button" class="button primary" onClick={() => location.reload()}>{t('Try again')}</button>}
          {kept && <Rescue path={path} text={() => copy} />}
          <a class={again || kept ? 'button' : 'button primary'} href="/">{t('All sessions')}</a>
        </div>
      </main>
    </>
  )
}
