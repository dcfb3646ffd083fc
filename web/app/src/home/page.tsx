import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { SandgateError, Sandbox } from '@sandgate/client/base'
import { facts } from '../notebook/languages'
import { offers, rest } from '../rest'
import { navigate, notebookPath, terminalPath } from '../router'
import { client, languageName, languages, may } from '../server'
import { explain, mayHelp } from '../ui/again'
import { Bar } from '../ui/bar'
import { ask, confirm } from '../ui/dialog'
import { expiryOrNone } from '../ui/expiry'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed, toast } from '../ui/toast'
import { lastOutput } from './last'
import { lookAtTemplates, Templates, type Template } from './templates'
import { ChooseVolumes, chosen, lookAtVolumes, Volumes } from './volumes'
import './home.css'

const sessions = signal<Sandbox[] | undefined>(undefined)
const lookEvery = 4000
/**
 * The number of sessions, from the beginning of the list, whose memory and last output are
 * requested.
 */
const maxDetails = 20

interface Detail {
  memory?: number | undefined
  last?: string
}
const details = signal<Record<string, Detail>>({})

/**
 * Requests details that a list lacks. These requests are not work: they resume no session and keep
 * none awake.
 */
async function lookCloser(list: Sandbox[]): Promise<void> {
  const some = list.filter((s) => s.info.state !== 'lost').slice(0, maxDetails)
  const found = await Promise.all(some.map(async (s): Promise<[string, Detail]> => {
    const runs = s.info.state === 'running' || s.info.state === 'paused'
    const [memory, last] = await Promise.all([
      runs ? s.refresh().then((i) => i.usage?.memory_bytes, () => undefined) : undefined,
      lastOutput(s).catch(() => ''),
    ])
    return [s.id, { memory, last }]
  }))
  details.value = Object.fromEntries(found)
}

/** Lists all sessions of the user, and creates new ones. */
export default function Home() {
  const [error, setError] = useState<SandgateError | undefined>()
  const [making, setMaking] = useState<string | undefined>()
  const look = async () => {
    try {
      const list = (sessions.value = await client.peek()?.sessions())
      setError(undefined)
      await Promise.all([list && lookCloser(list), lookAtTemplates().catch(() => {}), lookAtVolumes().catch(() => {})])
    } catch (e) {
      setError(e as SandgateError)
    }
  }
  useEffect(() => {
    let gone = false
    void look()
    // One request after the other, however long the server takes.
    let t = setTimeout(async function again() {
      if (!document.hidden) await look()
      if (!gone) t = setTimeout(again, lookEvery)
    }, lookEvery)
    return () => {
      gone = true
      clearTimeout(t)
      sessions.value = undefined
    }
  }, [])
  const make = async (language: string, terminal = false, template?: Template) => {
    setMaking(template?.name ?? language)
    try {
      const s = await client.peek()!.sandbox({
        language, ...(template ? { template: template.name } : {}), ...(chosen.peek().length ? { volumes: chosen.peek().map((name) => ({ name })) } : {}),
      })
      navigate(terminal ? terminalPath(s.id) : notebookPath(s.id), { open: terminal })
    } catch (e) {
      failed('The session was not created', e)
      setMaking(undefined)
    }
  }
  const list = sessions.value
  return (
    <>
      <Bar />
      <main class="page home">
        {may('sessions:manage') && <section aria-labelledby="new">
          <h1 id="new">{list?.length === 0 ? 'What would you like to run?' : 'New session'}</h1>
          <p class="muted lead">A session is your own machine, with a notebook and terminals. It has all languages. The one that you choose starts at once.</p>
          <div class="languages">
            {languages.value.map((l) => (
              <button key={l.name} type="button" class="language-card" disabled={making !== undefined} onClick={() => void make(l.name)}>
                <span class="language-badge" style={{ background: facts(l.name).colour }} aria-hidden="true">{facts(l.name).short}</span>
                <span>{l.display_name.replace(' and TypeScript', ' / TS')}</span>{making === l.name && <Icon name="spinner" spin />}
              </button>
            ))}
            <button type="button" class="language-card" disabled={making !== undefined} onClick={() => void make('bash', true)}>
              <span class="language-badge dark" aria-hidden="true"><Icon name="terminal" /></span><span>Terminal</span>
            </button>
          </div>
          <ChooseVolumes />
          <Templates disabled={making !== undefined} make={(t) => void make(t.languages[0] ?? '', false, t)} />
        </section>}
        <section aria-labelledby="yours" class="yours">
          <h2 id="yours">Your sessions</h2>
          {error && <div class="notice bad" role="alert"><Icon name="warning" /><span class="grow">Your sessions could not be listed. {explain(error)}</span>{mayHelp(error) && <button type="button" class="button" onClick={() => void look()}>Try again</button>}</div>}
          {!list && !error && <ul class="sessions" aria-busy="true">{[1, 2].map((i) => <li key={i} class="session skeleton" />)}</ul>}
          {list?.length === 0 && <div class="empty-box"><p>No sessions yet. Choose a language above to start one.</p><p class="muted">Variables, files and running programs stay when you leave. A link to a session opens it and runs nothing.</p></div>}
          {list && list.length > 0 && <ul class="sessions">{[...list].sort((a, b) => b.info.active_ms - a.info.active_ms).map((s) => <Row key={s.id} session={s} changed={look} />)}</ul>}
        </section>
        <Volumes />
      </main>
    </>
  )
}

function Row({ session: s, changed }: { session: Sandbox; changed: () => Promise<void> }) {
  const i = s.info
  const lost = i.state === 'lost'
  const busy = i.channels?.some((c) => c.state === 'busy' || (c.kind === 'process' && c.state === 'running'))
  const word = busy && i.state === 'running' ? 'working' : i.state
  const act = (what: string, f: () => Promise<unknown>) => void f().then(changed, (e: unknown) => failed(what, e))
  const at = (op: string) => `/v1/sessions/${encodeURIComponent(s.id)}${op && `/${op}`}`
  const name = i.name || `${languageName(i.language)} session`
  const terminals = i.channels?.filter((c) => c.kind === 'terminal' && c.state !== 'exited').length ?? 0
  const { memory, last } = details.value[s.id] ?? {}
  return (
    <li class={`session ${word}`}>
      <span class="language-badge" style={{ background: facts(i.language).colour }} aria-hidden="true">{facts(i.language).short}</span>
      <div class="grow">
        <a class="session-name" href={notebookPath(s.id)}>{name}</a>
        <p class="muted about">
          <span class={`state ${word}`}><i class="dot" />{word}{lost && i.reason ? `: ${i.reason}` : ''}</span>
          <span>{ago(i.active_ms)}</span>
          {!lost && <span class="expiry">{expiryOrNone(i)}</span>}
          {memory ? <span class="memory">{Math.round(memory / 1e6).toLocaleString('en')} MB</span> : null}
          {i.template && <span>from {i.template}</span>}
          {i.keep_alive && <span>kept awake</span>}
          {terminals > 0 && <span>{terminals} {terminals === 1 ? 'terminal' : 'terminals'}</span>}
          <code class="id" title={s.id}>{s.id.slice(0, 10)}</code>
        </p>
        {last && <pre class="last-output">{last}</pre>}
      </div>
      {!lost && <a class="button quiet open-terminal" href={terminalPath(s.id)} data-open aria-label={`Terminal of ${name}`}><Icon name="terminal" /></a>}
      <Menu label={`More for ${name}`} button={<Icon name="more" />}>
        {() => (
          <>
            {!lost && <MenuItem onClick={() => navigate(notebookPath(s.id))}><Icon name="notebook" />Open</MenuItem>}
            <MenuItem onClick={async () => {
              const to = await ask({ title: 'Rename the session', value: i.name ?? '', placeholder: name, yes: 'Rename' })
              if (to !== undefined && to !== (i.name ?? '')) act('The session was not renamed', () => rest('PATCH', at(''), { name: to }))
            }}><Icon name="edit" />Rename…</MenuItem>
            {offers('POST /v1/sessions/{id}/fork') && !lost && <MenuItem onClick={() => act('The session was not forked', async () => {
              const { sessions: [copy] } = await rest<{ sessions: { id: string }[] }>('POST', at('fork'), { name: `${name} (copy)` })
              toast('The copy has all variables, files and programs', { label: 'Open', run: () => navigate(notebookPath(copy!.id)) })
            })}><Icon name="fork" />Fork</MenuItem>}
            {offers('POST /v1/sessions/{id}/pause') && i.state === 'running' && <MenuItem onClick={() => act('The session was not paused', () => rest('POST', at('pause')))}><Icon name="pause" />Pause</MenuItem>}
            {i.state === 'running' || i.state === 'paused'
              ? <MenuItem onClick={() => act('The session was not hibernated', () => rest('POST', at('hibernate')))}><Icon name="moon" />Hibernate</MenuItem>
              : !lost && <MenuItem onClick={() => act('The session was not resumed', () => rest('POST', at('resume')))}><Icon name="play" />Resume</MenuItem>}
            {i.state === 'paused' && <MenuItem onClick={() => act('The session was not resumed', () => rest('POST', at('resume')))}><Icon name="play" />Resume</MenuItem>}
            {!lost && <MenuItem onClick={() => act('The session was not changed', () => rest('PATCH', at(''), { keep_alive: !i.keep_alive }))}><Icon name="sun" />{i.keep_alive ? 'Pause when idle' : 'Keep awake'}</MenuItem>}
            <hr />
            <MenuItem danger onClick={async () => {
              if (await confirm({ title: lost ? `Remove “${name}”?` : `End “${name}”?`, text: lost ? 'Its sandbox is already gone. This removes it from the list.' : 'Its variables, files and running programs are deleted. Download the files that you need first.', yes: lost ? 'Remove' : 'End session', danger: true })) {
                act('The session was not ended', () => s.delete())
              }
            }}><Icon name="trash" />{lost ? 'Remove' : 'End session…'}</MenuItem>
          </>
        )}
      </Menu>
    </li>
  )
}

function ago(ms: number): string {
  const s = Math.max(0, (Date.now() - ms) / 1000)
  if (s < 60) return 'active just now'
  if (s < 3600) return `active ${Math.round(s / 60)} min ago`
  if (s < 86_400) return `active ${Math.round(s / 3600)} h ago`
  return `active ${Math.round(s / 86_400)} d ago`
}
