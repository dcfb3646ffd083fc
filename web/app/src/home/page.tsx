import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { SandgateError, Sandbox } from '@sandgate/client/base'
import { t } from '../language/texts'
import { facts } from '../notebook/languages'
import { filesPath, offers, rest } from '../rest'
import { navigate, notebookPath, terminalPath } from '../router'
import { client, languages, may } from '../server'
import { explain, mayHelp } from '../ui/again'
import { Bar } from '../ui/bar'
import { Icon } from '../ui/icon'
import { failed } from '../ui/toast'
import { Examples, notebookOf, type Example } from './examples'
import { lastOutput } from './last'
import type { Preview } from './previews'
import type { Detail } from './row'
import { titlesOfSessions } from './titles'
import { Sessions } from './sessions'
import { lookAtSnapshots, Snapshots } from './snapshots'
import { lookAtTemplates, Templates, type Template } from './templates'
import { ChooseVolumes, chosen, lookAtVolumes, Volumes } from './volumes'
import '../style/parts.css'
import './home.css'

const sessions = signal<Sandbox[] | undefined>(undefined)
const lookEvery = 4000
/**
 * The number of sessions, from the beginning of the list, whose memory and last output are
 * requested.
 */
const maxDetails = 20

const details = signal<Record<string, Detail>>({})
/** The titles of the sessions' notebooks. */
const titles = signal<ReadonlyMap<string, string>>(new Map())

/**
 * Requests details that a list lacks. These requests are not work: they resume no session and keep
 * none awake.
 */
async function lookCloser(list: Sandbox[]): Promise<void> {
  const some = list.filter((s) => s.info.state !== 'lost').slice(0, maxDetails)
  const found = await Promise.all(some.map(async (s): Promise<[string, Detail]> => {
    const runs = s.info.state === 'running' || s.info.state === 'paused'
    const [usage, last, previews] = await Promise.all([
      runs ? s.refresh().then((i) => i.usage, () => undefined) : undefined,
      lastOutput(s).catch(() => ''),
      previewsOf(s.id).catch(() => []),
    ])
    return [s.id, { usage, last, previews }]
  }))
  details.value = Object.fromEntries(found)
}

async function previewsOf(id: string): Promise<Preview[]> {
  if (!offers('GET /v1/sessions/{id}/ports/links') || !may('sessions:write')) return []
  return (await rest<{ links: Preview[] | null }>('GET', `/v1/sessions/${encodeURIComponent(id)}/ports/links`)).links ?? []
}

/** Lists all sessions of the user, and creates new ones. */
export default function Home() {
  const [error, setError] = useState<SandgateError | undefined>()
  const [making, setMaking] = useState<string | undefined>()
  const look = async () => {
    try {
      const list = (sessions.value = await client.peek()?.sessions())
      setError(undefined)
      await Promise.all([list && lookCloser(list), titlesOfSessions().then((found) => (titles.value = found), () => {}), lookAtTemplates().catch(() => {}), lookAtVolumes().catch(() => {}), lookAtSnapshots().catch(() => {})])
    } catch (e) {
      setError(e as SandgateError)
    }
  }
  useEffect(() => {
    let gone = false
    void look()
    // One request after the other, however long the server takes.
    let timer = setTimeout(async function again() {
      if (!document.hidden) await look()
      if (!gone) timer = setTimeout(again, lookEvery)
    }, lookEvery)
    return () => {
      gone = true
      clearTimeout(timer)
      sessions.value = undefined
    }
  }, [])
  const make = async (language: string, terminal = false, template?: Template, example?: Example) => {
    setMaking(example?.name ?? template?.name ?? language)
    try {
      const s = await client.peek()!.sandbox({
        language, ...(template ? { template: template.name } : {}), ...(chosen.peek().length ? { volumes: chosen.peek().map((name) => ({ name })) } : {}),
      })
      if (example) await rest('PUT', filesPath(s.id, 'notebook.ipynb'), notebookOf(example))
      navigate(terminal ? terminalPath(s.id) : notebookPath(s.id), { open: terminal })
    } catch (e) {
      failed(t('The session was not created'), e)
      setMaking(undefined)
    }
  }
  const list = sessions.value
  const first = list?.length === 0
  const create = may('sessions:manage') && (
    <section key="new" aria-labelledby="new">
      {first ? <h1 id="new">{t('What would you like to run?')}</h1> : <h2 id="new">{t('New session')}</h2>}
      <p class={first ? 'muted lead' : 'muted'}>{t('A session is your own machine, with a notebook and terminals. It has all languages. The one that you choose starts at once.')}</p>
      <div class="languages">
        {languages.value.map((l) => (
          <button key={l.name} type="button" class="language-card" disabled={making !== undefined} onClick={() => void make(l.name)}>
            <span class="language-badge" style={{ background: facts(l.name).colour }} aria-hidden="true">{facts(l.name).short}</span>
            <span>{l.display_name.replace(' and TypeScript', ' / TS')}</span>{making === l.name && <Icon name="spinner" spin />}
          </button>
        ))}
        <button type="button" class="language-card" disabled={making !== undefined} onClick={() => void make('bash', true)}>
          <span class="language-badge dark" aria-hidden="true"><Icon name="terminal" /></span><span>{t('Terminal')}</span>
        </button>
      </div>
      {first && <Examples making={making} make={(e) => void make(e.language, false, undefined, e)} />}
      <ChooseVolumes />
      <Templates disabled={making !== undefined} make={(template) => void make(template.languages[0] ?? '', false, template)} />
    </section>
  )
  const yours = (
    <section key="yours" aria-labelledby="yours" class="yours">
      {first ? <h2 id="yours">{t('Your sessions')}</h2> : <h1 id="yours">{t('Your sessions')}</h1>}
      {error && <div class="notice bad" role="alert"><Icon name="warning" /><span class="grow">{t('Your sessions could not be listed.')} {explain(error)}</span>{mayHelp(error) && <button type="button" class="button" onClick={() => void look()}>{t('Try again')}</button>}</div>}
      {!list && !error && <ul class="sessions" aria-busy="true">{[1, 2].map((i) => <li key={i} class="session skeleton" />)}</ul>}
      {first && <div class="empty-box"><p>{t('No sessions yet. Choose a language above to start one.')}</p><p class="muted">{t('Variables, files and running programs stay when you leave. A link to a session opens it and runs nothing.')}</p></div>}
      {list && list.length > 0 && <Sessions list={list} details={details.value} titles={titles.value} changed={look} />}
    </section>
  )
  return (
    <>
      <Bar />
      <main class="page home">
        {first ? [create, yours] : [yours, create]}
        <Snapshots />
        <Volumes />
      </main>
    </>
  )
}
