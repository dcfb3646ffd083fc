import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { SandgateError, Session } from '@sandgate/client'
import { facts } from '../notebook/languages'
import { offers, rest } from '../rest'
import { navigate, notebookPath, terminalPath } from '../router'
import { client, languageName, languages } from '../server'
import { Bar } from '../ui/bar'
import { confirm } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed, toast } from '../ui/toast'
import './home.css'

const sessions = signal<Session[] | undefined>(undefined)
const lookEvery = 4000

/** All sessions of the user, and how to make one. */
export default function Home() {
  const [error, setError] = useState<SandgateError | undefined>()
  const [making, setMaking] = useState<string | undefined>()
  const look = async () => {
    try {
      sessions.value = await client.peek()?.sessions()
      setError(undefined)
    } catch (e) {
      setError(e as SandgateError)
    }
  }
  useEffect(() => {
    void look()
    const t = setInterval(() => {
      if (!document.hidden) void look()
    }, lookEvery)
    return () => {
      clearInterval(t)
      sessions.value = undefined
    }
  }, [])
  const make = async (language: string, terminal = false) => {
    setMaking(language)
    try {
      const s = await client.peek()!.createSession({ language })
      navigate(terminal ? terminalPath(s.id) : notebookPath(s.id))
    } catch (e) {
      failed('There is no new session', e)
      setMaking(undefined)
    }
  }
  const list = sessions.value
  return (
    <>
      <Bar />
      <main class="page home">
        <section aria-labelledby="new">
          <h1 id="new">{list?.length === 0 ? 'What would you like to run?' : 'New session'}</h1>
          <p class="muted lead">A session is a machine of your own, with a notebook and terminals. All languages work in it; the one you choose is ready at once.</p>
          <div class="languages">
            {languages.value.map((l) => (
              <button key={l.name} type="button" class="language-card" disabled={making !== undefined} onClick={() => void make(l.name)}>
                <span class="badge" style={{ background: facts(l.name).colour }} aria-hidden="true">{facts(l.name).short}</span>
                <span>{l.display_name.replace(' and TypeScript', ' / TS')}</span>{making === l.name && <Icon name="spinner" spin />}
              </button>
            ))}
            <button type="button" class="language-card" disabled={making !== undefined} onClick={() => void make('bash', true)}>
              <span class="badge dark" aria-hidden="true"><Icon name="terminal" /></span><span>Terminal</span>
            </button>
          </div>
        </section>
        <section aria-labelledby="yours" class="yours">
          <h2 id="yours">Your sessions</h2>
          {error && <div class="notice bad" role="alert"><Icon name="warning" /><span class="grow">{error.message}</span><button type="button" class="button" onClick={() => void look()}>Try again</button></div>}
          {!list && !error && <ul class="sessions" aria-busy="true">{[1, 2].map((i) => <li key={i} class="session skeleton" />)}</ul>}
          {list?.length === 0 && <div class="empty-box"><p>None yet. Choose a language above: the machine is there in a moment.</p><p class="muted">What you leave here stays, also overnight: variables, files and what runs. A link to a session opens it and runs nothing.</p></div>}
          {list && list.length > 0 && <ul class="sessions">{list.map((s) => <Row key={s.id} session={s} changed={look} />)}</ul>}
        </section>
      </main>
    </>
  )
}

/** What an operator's server may say besides. */
type More = { memory_bytes?: number; template?: string }

function Row({ session: s, changed }: { session: Session; changed: () => Promise<void> }) {
  const i = s.info as Session['info'] & More
  const lost = i.state === 'lost'
  const busy = i.channels?.some((c) => c.state === 'busy' || (c.kind === 'process' && c.state === 'running'))
  const word = busy && i.state === 'running' ? 'working' : i.state
  const act = (what: string, f: () => Promise<unknown>) => void f().then(changed, (e: unknown) => failed(what, e))
  const at = (op: string) => `/v1/sessions/${encodeURIComponent(s.id)}/${op}`
  const name = i.name || `${languageName(i.language)} session`
  const terminals = i.channels?.filter((c) => c.kind === 'terminal' && c.state !== 'exited').length ?? 0
  const last = preview(s.id)
  return (
    <li class={`session ${word}`}>
      <span class="badge" style={{ background: facts(i.language).colour }} aria-hidden="true">{facts(i.language).short}</span>
      <div class="grow">
        <a class="session-name" href={notebookPath(s.id)}>{name}</a>
        <p class="muted about">
          <span class={`state ${word}`}><i class="dot" />{word}{lost && i.reason ? `: ${i.reason}` : ''}</span>
          <span>{ago(i.active_ms)}</span>
          {i.memory_bytes ? <span>{Math.round(i.memory_bytes / 1e6)} MB</span> : null}
          {terminals > 0 && <span>{terminals} {terminals === 1 ? 'terminal' : 'terminals'}</span>}
          <code class="id" title={s.id}>{s.id.slice(0, 10)}</code>
        </p>
        {last && <pre class="preview">{last}</pre>}
      </div>
      {!lost && <a class="button quiet open-terminal" href={terminalPath(s.id)} aria-label={`Terminal of ${name}`}><Icon name="terminal" /></a>}
      <Menu label={`More for ${name}`} button={<Icon name="more" />}>
        {() => (
          <>
            {!lost && <MenuItem onClick={() => navigate(notebookPath(s.id))}><Icon name="notebook" />Open</MenuItem>}
            {offers('POST /v1/sessions/{id}/fork') && !lost && <MenuItem onClick={() => act('It was not forked', async () => {
              await rest('POST', at('fork'), {})
              toast('The copy has all variables, files and programs')
            })}><Icon name="fork" />Fork</MenuItem>}
            {offers('POST /v1/sessions/{id}/pause') && i.state === 'running' && <MenuItem onClick={() => act('It was not paused', () => rest('POST', at('pause')))}><Icon name="pause" />Pause</MenuItem>}
            {i.state === 'running' || i.state === 'paused'
              ? <MenuItem onClick={() => act('It was not put to disk', () => rest('POST', at('hibernate')))}><Icon name="moon" />Hibernate</MenuItem>
              : !lost && <MenuItem onClick={() => act('It was not woken', () => rest('POST', at('resume')))}><Icon name="sun" />Wake</MenuItem>}
            <hr />
            <MenuItem danger onClick={async () => {
              if (await confirm({ title: lost ? `Remove “${name}”?` : `End “${name}”?`, text: lost ? 'It is gone already; this takes it off the list.' : 'Everything in it is deleted: variables, files and what runs. Download what you need first.', yes: lost ? 'Remove' : 'End session', danger: true })) {
                act('It was not ended', () => s.delete())
              }
            }}><Icon name="trash" />{lost ? 'Remove' : 'End session…'}</MenuItem>
          </>
        )}
      </Menu>
    </li>
  )
}

/** The last line of output that a notebook in this browser has shown. */
function preview(session: string): string {
  try {
    return localStorage.getItem(`sandgate.last.${session}`) ?? ''
  } catch {
    return ''
  }
}

function ago(ms: number): string {
  const s = Math.max(0, (Date.now() - ms) / 1000)
  if (s < 60) return 'active just now'
  if (s < 3600) return `active ${Math.round(s / 60)} min ago`
  if (s < 86_400) return `active ${Math.round(s / 3600)} h ago`
  return `active ${Math.round(s / 86_400)} d ago`
}
