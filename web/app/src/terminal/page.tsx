import type { Sandbox } from '@sandgate/client/base'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { PageProps } from '../app'
import { navigate, notebookPath, route } from '../router'
import { offers } from '../rest'
import { client, may } from '../server'
import { terminalReader, terminalSize } from '../settings'
import { explain, mayHelp } from '../ui/again'
import { Bar } from '../ui/bar'
import { expiry } from '../ui/expiry'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { paletteOpen, useEntries, type Entry } from '../ui/palette'
import { People, usePresence } from '../ui/presence'
import { Share } from '../ui/share'
import { failed, toast } from '../ui/toast'
import { FileView } from './file'
import { commandOf, keysOf, type Command } from './keys'
import { arrange, maxPanes, panesOf, parse, places, split, without, type Tab } from './layout'
import { shellMarks } from './marks'
import { Pane } from './pane'
import { Player } from './player'
import type { Screen } from './screen'
import './terminal.css'

const remember = (name: string, value: string) => {
  try {
    localStorage.setItem(name, value)
  } catch {
    // The browser stores nothing.
  }
}
const remembered = (name: string) => {
  try {
    return localStorage.getItem(name)
  } catch {
    return null
  }
}

/** Shows the terminals of a session, or a recording of one of its channels. */
export default function Page({ session }: PageProps) {
  const channel = route.value.query.get('cast')
  return channel ? <Player key={channel} session={session} channel={channel} /> : <Terminals session={session} />
}

/** Shows the terminals of a session, in tabs. */
function Terminals({ session: id }: PageProps) {
  const mayWrite = may('sessions:write')
  const readOnly = !mayWrite || route.value.query.has('watch')
  const stored = `sandgate.terminals.${id}`
  const [session, setSession] = useState<Sandbox>()
  const [error, setError] = useState<Error>()
  const [tabs, setTabs] = useState<Tab[]>([])
  const [at, setAt] = useState(0)
  const [active, setActive] = useState('')
  const [titles, setTitles] = useState<Record<string, string>>({})
  const [rung, setRung] = useState<Record<string, boolean>>({})
  const [ended, setEnded] = useState<Record<string, boolean>>({})
  const fontSize = terminalSize.value
  const reader = terminalReader.value
  const [sharing, setSharing] = useState(false)
  const [finding, setFinding] = useState('')
  const presence = usePresence(session, readOnly)
  const [file, setFile] = useState<{ path: string; line: number }>()
  const screen = useRef<Screen>(undefined)
  const tab = tabs[Math.min(at, tabs.length - 1)]
  const panes = tab ? panesOf(tab) : []

  useEffect(() => {
    let here = true
    void (async () => {
      try {
        const s = await client.value!.getSandbox(id)
        const there = s.info.channels.filter((c) => c.kind === 'terminal')
        if (!here) return
        setTitles(Object.fromEntries(there.map((c) => [c.id, c.title ?? ''])))
        setTabs(arrange(parse(remembered(stored)), there.map((c) => c.id)))
        setSession(s)
        // A click in the application opens a terminal. A link from elsewhere starts nothing.
        const asked = (history.state as { open?: boolean } | null)?.open
        history.replaceState(null, '')
        if (asked && !readOnly && there.length === 0) await open(s)
      } catch (e) {
        if (here) setError(e as Error)
      }
    })()
    return () => {
      here = false
    }
  }, [id])
  useEffect(() => { if (session) remember(stored, JSON.stringify(tabs)) }, [tabs])
  useEffect(() => document.querySelector('.tab[aria-selected="true"]')?.scrollIntoView({ inline: 'nearest', block: 'nearest' }), [tab])
  useEffect(() => { if (tab && !panes.includes(active)) setActive(panes[0]!) }, [tab])
  useEffect(() => {
    document.title = `${titles[active] || 'Terminal'} · Sandgate`
    return () => void (document.title = 'Sandgate')
  }, [active, titles])

  const zoom = (px: number) => (terminalSize.value = Math.min(32, Math.max(8, px)))
  /** Opens a terminal, in a separate tab or beside another. */
  const open = async (s = session!, beside?: string, rows = false) => {
    try {
      const size = screen.current ? { cols: screen.current.term.cols, rows: screen.current.term.rows } : { cols: 80, rows: 24 }
      const t = await s.terminal({ ...size, env: shellMarks })
      t.close() // the pane attaches itself
      setTabs((all) => {
        const next = beside ? split(all, beside, t.id, rows) : [...all, { layout: t.id }]
        if (!beside) setAt(next.length - 1)
        return next
      })
      setActive(t.id)
    } catch (e) {
      failed('No terminal could be opened', e)
    }
  }
  const close = (pane: string) => {
    setTabs((all) => without(all, pane))
    setAt((n) => Math.max(0, Math.min(n, tabs.length - (tabs.some((t) => t.layout === pane) ? 2 : 1))))
    if (!readOnly) session!.closeChannel(pane).catch(() => {})
  }
  const mayOpen = !readOnly && session !== undefined
  const maySplit = mayOpen && panes.length < maxPanes
  const mayShare = mayWrite && tab !== undefined && offers('POST /v1/sessions/{id}/links')
  const jump = (by: -1 | 1) => screen.current?.marks.jump(by)
  const copyOutput = () => {
    const text = screen.current?.marks.lastOutput
    if (text === undefined) return toast('No command has ended here')
    navigator.clipboard.writeText(text).then(() => toast('The output of the last command is in the clipboard'), (e: unknown) => failed('The output was not copied', e))
  }
  const keys = (e: KeyboardEvent) => {
    const command = commandOf(e)
    if (!command || command === 'find') return // the pane's
    e.preventDefault()
    const act = {
      open: () => mayOpen && void open(),
      close: () => mayOpen && active && close(active),
      right: () => maySplit && void open(session, active),
      down: () => maySplit && void open(session, active, true),
      next: () => setAt((at + 1) % tabs.length),
      previous: () => setAt((at + tabs.length - 1) % tabs.length),
      larger: () => zoom(fontSize + 1), smaller: () => zoom(fontSize - 1), reset: () => zoom(13),
      palette: () => (paletteOpen.value = true),
      earlier: () => jump(-1), later: () => jump(1),
    }[command]
    act()
  }
  useEntries(() => {
    const all: [id: Command, name: string, words: string, ok: boolean, run: () => void][] = [
      ['open', 'New terminal', 'shell tab', mayOpen, () => void open()],
      ['right', 'Split right', 'divide columns', maySplit, () => void open(session, active)],
      ['down', 'Split down', 'divide rows', maySplit, () => void open(session, active, true)],
      ['find', 'Find in the terminal', 'search', !!tab, () => setFinding(active)],
      ['earlier', 'Scroll to the previous prompt', 'jump command', !!tab, () => jump(-1)],
      ['later', 'Scroll to the next prompt', 'jump command', !!tab, () => jump(1)],
      ['close', 'Close this terminal', 'end exit', !!tab && !readOnly, () => close(active)],
      ['next', 'Next terminal', 'tab', tabs.length > 1, () => setAt((at + 1) % tabs.length)],
      ['previous', 'Previous terminal', 'tab', tabs.length > 1, () => setAt((at + tabs.length - 1) % tabs.length)],
    ]
    const others: [id: string, name: string, words: string, ok: boolean, run: () => void][] = [
      ['copy output', 'Copy the output of the last command', 'clipboard', !!tab, copyOutput],
      ['reset screen', 'Reset the screen', 'clear repair', !!tab, () => screen.current?.reset()],
      ['replay', 'Replay and record', 'recording asciicast', !!tab, () => navigate(`?cast=${encodeURIComponent(active)}`)],
      ['share', 'Share for viewing…', 'link watch', mayShare, () => setSharing(true)],
    ]
    const entry = ([id, name, words, , run]: [string, string, string, boolean, () => void]): Entry => ({ id, kind: 'Command', name, words, run })
    return [...all.filter((e) => e[3]).map((e) => ({ ...entry(e), keys: keysOf(e[0]) })), ...others.filter((e) => e[3]).map(entry)]
  }, [session, tabs, at, active, readOnly])
  const walk = (e: KeyboardEvent) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[e.key]
    if (to === undefined) return
    e.preventDefault()
    const n = (to + tabs.length) % tabs.length
    setAt(n)
    ;(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role=tab]')[n]?.focus()
  }
  const name = (t: Tab, i: number) => titles[panesOf(t).includes(active) ? active : panesOf(t)[0]!] || `Terminal ${i + 1}`

  return (
    <div class="terminals" onKeyDown={keys}>
      <Bar>
        <div class="tabs" role="tablist" aria-label="Terminals" onKeyDown={walk}>
          {tabs.map((t, i) => (
            <button key={panesOf(t)[0]} type="button" role="tab" id={`tab-${panesOf(t)[0]}`} aria-selected={t === tab} aria-controls={`panel-${panesOf(t)[0]}`} tabIndex={t === tab ? 0 : -1}
              class={panesOf(t).every((p) => ended[p]) ? 'tab over' : 'tab'} onClick={() => { setAt(i); setRung({}) }}
              onAuxClick={(e) => { if (e.button === 1) panesOf(t).forEach(close) }}>
              <Icon name="terminal" /><span class="ellipsis">{name(t, i)}</span>
              {t !== tab && panesOf(t).some((p) => rung[p]) && <span class="bell" aria-label="rang" />}
            </button>
          ))}
        </div>
        {session && !readOnly && <button type="button" class="button icon quiet" aria-label="New terminal" title={`New terminal (${keysOf('open')})`} onClick={() => void open()}><Icon name="add" /></button>}
        {session && expiry(session.info) && <span class="muted wide expiry">{expiry(session.info)}</span>}
        {readOnly && <span class="badge">Watching</span>}
        <span class="grow" />
        <People presence={presence} readOnly={readOnly} channel={active} what="this terminal" />
        <a class="button quiet" aria-label="Notebook" href={notebookPath(id)}><Icon name="notebook" /><span class="wide">Notebook</span></a>
        {tab && (
          <Menu label="Terminal" button={<Icon name="more" />}>
            {() => (
              <>
                {maySplit && <MenuItem keys={keysOf('right')} onClick={() => void open(session, active)}>Split right</MenuItem>}
                {maySplit && <MenuItem keys={keysOf('down')} onClick={() => void open(session, active, true)}>Split down</MenuItem>}
                {!readOnly && <hr />}
                <MenuItem keys={keysOf('palette')} onClick={() => (paletteOpen.value = true)}>Command palette</MenuItem>
                <MenuItem keys={keysOf('find')} onClick={() => setFinding(active)}>Find</MenuItem>
                <MenuItem keys={keysOf('earlier')} onClick={() => jump(-1)}>Previous prompt</MenuItem>
                <MenuItem keys={keysOf('later')} onClick={() => jump(1)}>Next prompt</MenuItem>
                <MenuItem onClick={copyOutput}>Copy the last output</MenuItem>
                <hr />
                <MenuItem keys={keysOf('larger')} onClick={() => zoom(fontSize + 1)}>Larger text</MenuItem>
                <MenuItem keys={keysOf('smaller')} onClick={() => zoom(fontSize - 1)}>Smaller text</MenuItem>
                <MenuItem checked={reader} onClick={() => (terminalReader.value = !reader)}>{reader && <Icon name="check" />}Screen reader support</MenuItem>
                <MenuItem onClick={() => screen.current?.reset()}>Reset the screen</MenuItem>
                <hr />
                <MenuItem onClick={() => navigate(`?cast=${encodeURIComponent(active)}`)}><Icon name="play" />Replay and record</MenuItem>
                {mayShare && <MenuItem onClick={() => setSharing(true)}><Icon name="share" />Share for viewing…</MenuItem>}
                {mayWrite && <MenuItem onClick={() => navigate(`?${readOnly ? '' : 'watch'}`)}>{readOnly ? 'Allow typing' : 'Watch only'}</MenuItem>}
                {!readOnly && <MenuItem danger keys={keysOf('close')} onClick={() => close(active)}>Close this terminal</MenuItem>}
              </>
            )}
          </Menu>
        )}
      </Bar>
      <main class="panes" id="panes">
        {error && <div class="centred"><Icon name="warning" /><h1>This session cannot be opened</h1><p>{explain(error)}</p><div class="row">{mayHelp(error) && <button type="button" class="button primary" onClick={() => location.reload()}>Try again</button>}<a class="button" href="/">All sessions</a></div></div>}
        {session && !tab && (
          <div class="centred">
            <Icon name="terminal" />
            <h1>No terminal is open</h1>
            <p>{readOnly ? 'There is nothing to watch in this session yet.' : 'A terminal is a shell in this session’s sandbox. It shares its files with the notebook, and goes on when you close this page.'}</p>
            {!readOnly && <button type="button" class="button primary" autofocus onClick={() => void open()}>Open a terminal</button>}
          </div>
        )}
        {session && tabs.map((t) => (
          <div key={panesOf(t)[0]} class="split" id={`panel-${panesOf(t)[0]}`} role="tabpanel" aria-labelledby={`tab-${panesOf(t)[0]}`} hidden={t !== tab}>
            {places(t).map(({ id: p, ...place }) => (
              <Pane key={`${p}${readOnly ? '-watch' : ''}`} session={session} id={p} place={place} readOnly={readOnly} fontSize={fontSize} screenReader={reader} active={p === active} visible={t === tab}
                finding={finding === p} onFind={(on) => setFinding(on ? p : '')}
                onActive={(s) => { screen.current = s; setActive(p) }}
                onTitle={(title) => setTitles((all) => ({ ...all, [p]: title }))}
                onBell={() => setRung((all) => ({ ...all, [p]: true }))}
                onEnded={() => setEnded((all) => ({ ...all, [p]: true }))}
                onAgain={() => { close(p); void open() }}
                onClose={() => close(p)}
                onFile={(path, line) => setFile({ path, line })} />
            ))}
          </div>
        ))}
      </main>
      {sharing && session && <Share session={session} views={[{ label: 'The terminals', at: '/terminal' }]} onClose={() => setSharing(false)} />}
      {file && session && <FileView session={session} {...file} onClose={() => setFile(undefined)} />}
    </div>
  )
}
