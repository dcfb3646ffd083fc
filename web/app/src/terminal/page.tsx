import type { Sandbox } from '@sandgate/client/base'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { PageProps } from '../app'
import { t } from '../language/texts'
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
  const title = titles[active] || t('Terminal')
  useEffect(() => {
    document.title = [title, 'Sandgate'].join(' · ')
    return () => void (document.title = 'Sandgate')
  }, [title])

  const zoom = (px: number) => (terminalSize.value = Math.min(32, Math.max(8, px)))
  /** Opens a terminal, in a separate tab or beside another. */
  const open = async (s = session!, beside?: string, rows = false) => {
    try {
      const size = screen.current ? { cols: screen.current.term.cols, rows: screen.current.term.rows } : { cols: 80, rows: 24 }
      const opened = await s.terminal({ ...size, env: shellMarks })
      opened.close() // the pane attaches itself
      setTabs((all) => {
        const next = beside ? split(all, beside, opened.id, rows) : [...all, { layout: opened.id }]
        if (!beside) setAt(next.length - 1)
        return next
      })
      setActive(opened.id)
    } catch (e) {
      failed(t('No terminal could be opened'), e)
    }
  }
  const close = (pane: string) => {
    setTabs((all) => without(all, pane))
    setAt((n) => Math.max(0, Math.min(n, tabs.length - (tabs.some((x) => x.layout === pane) ? 2 : 1))))
    if (!readOnly) session!.closeChannel(pane).catch(() => {})
  }
  const mayOpen = !readOnly && session !== undefined
  const maySplit = mayOpen && panes.length < maxPanes
  const mayShare = mayWrite && tab !== undefined && offers('POST /v1/sessions/{id}/links')
  const jump = (by: -1 | 1) => screen.current?.marks.jump(by)
  const copyOutput = () => {
    const text = screen.current?.marks.lastOutput
    if (text === undefined) return toast(t('No command has ended here'))
    navigator.clipboard.writeText(text).then(() => toast(t('The output of the last command is in the clipboard')), (e: unknown) => failed(t('The output was not copied'), e))
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
  useEffect(() => {
    // Nothing has the focus between the end of a terminal and the next one.
    const key = (e: KeyboardEvent) => { if (e.target === document.body) keys(e) }
    document.addEventListener('keydown', key)
    return () => document.removeEventListener('keydown', key)
  })
  useEntries(() => {
    const all: [id: Command, name: string, words: string, ok: boolean, run: () => void][] = [
      ['open', t('New terminal'), t('shell tab'), mayOpen, () => void open()],
      ['right', t('Split right'), t('divide columns'), maySplit, () => void open(session, active)],
      ['down', t('Split down'), t('divide rows'), maySplit, () => void open(session, active, true)],
      ['find', t('Find in the terminal'), t('search'), !!tab, () => setFinding(active)],
      ['earlier', t('Scroll to the previous prompt'), t('jump command'), !!tab, () => jump(-1)],
      ['later', t('Scroll to the next prompt'), t('jump command'), !!tab, () => jump(1)],
      ['close', t('Close this terminal'), t('end exit'), !!tab && !readOnly, () => close(active)],
      ['next', t('Next terminal'), t('tab'), tabs.length > 1, () => setAt((at + 1) % tabs.length)],
      ['previous', t('Previous terminal'), t('tab'), tabs.length > 1, () => setAt((at + tabs.length - 1) % tabs.length)],
    ]
    const others: [id: string, name: string, words: string, ok: boolean, run: () => void][] = [
      ['copy output', t('Copy the output of the last command'), t('clipboard'), !!tab, copyOutput],
      ['reset screen', t('Reset the screen'), t('clear repair'), !!tab, () => screen.current?.reset()],
      ['replay', t('Replay and record'), t('recording asciicast'), !!tab, () => navigate(`?cast=${encodeURIComponent(active)}`)],
      ['share', t('Share for viewing…'), t('link watch'), mayShare, () => setSharing(true)],
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
  const name = (x: Tab, i: number) => titles[panesOf(x).includes(active) ? active : panesOf(x)[0]!] || t('Terminal {n}', { n: i + 1 })

  return (
    <div class="terminals" onKeyDown={keys}>
      <Bar>
        <div class="tabs" role="tablist" aria-label={t('Terminals')} onKeyDown={walk}>
          {tabs.map((x, i) => (
            <button key={panesOf(x)[0]} type="button" role="tab" id={`tab-${panesOf(x)[0]}`} aria-selected={x === tab} aria-controls={`panel-${panesOf(x)[0]}`} tabIndex={x === tab ? 0 : -1}
              class={panesOf(x).every((p) => ended[p]) ? 'tab over' : 'tab'} onClick={() => { setAt(i); setRung({}) }}
              onAuxClick={(e) => { if (e.button === 1) panesOf(x).forEach(close) }}>
              <Icon name="terminal" /><span class="ellipsis">{name(x, i)}</span>
              {x !== tab && panesOf(x).some((p) => rung[p]) && <span class="bell" aria-label={t('rang')} />}
            </button>
          ))}
        </div>
        {session && !readOnly && <button type="button" class="button icon quiet" aria-label={t('New terminal')} title={t('New terminal ({keys})', { keys: keysOf('open') })} onClick={() => void open()}><Icon name="add" /></button>}
        {session && expiry(session.info) && <span class="muted wide expiry">{expiry(session.info)}</span>}
        {readOnly && <span class="badge">{t('Watching')}</span>}
        <span class="grow" />
        <People presence={presence} readOnly={readOnly} channel={active} what={t('this terminal')} />
        <a class="button quiet" aria-label={t('Notebook')} href={notebookPath(id)}><Icon name="notebook" /><span class="wide">{t('Notebook')}</span></a>
        {tab && (
          <Menu label={t('Terminal')} button={<Icon name="more" />}>
            {() => (
              <>
                {maySplit && <MenuItem keys={keysOf('right')} onClick={() => void open(session, active)}>{t('Split right')}</MenuItem>}
                {maySplit && <MenuItem keys={keysOf('down')} onClick={() => void open(session, active, true)}>{t('Split down')}</MenuItem>}
                {!readOnly && <hr />}
                <MenuItem keys={keysOf('palette')} onClick={() => (paletteOpen.value = true)}>{t('Command palette')}</MenuItem>
                <MenuItem keys={keysOf('find')} onClick={() => setFinding(active)}>{t('Find')}</MenuItem>
                <MenuItem keys={keysOf('earlier')} onClick={() => jump(-1)}>{t('Previous prompt')}</MenuItem>
                <MenuItem keys={keysOf('later')} onClick={() => jump(1)}>{t('Next prompt')}</MenuItem>
                <MenuItem onClick={copyOutput}>{t('Copy the last output')}</MenuItem>
                <hr />
                <MenuItem keys={keysOf('larger')} onClick={() => zoom(fontSize + 1)}>{t('Larger text')}</MenuItem>
                <MenuItem keys={keysOf('smaller')} onClick={() => zoom(fontSize - 1)}>{t('Smaller text')}</MenuItem>
                <MenuItem checked={reader} onClick={() => (terminalReader.value = !reader)}>{reader && <Icon name="check" />}{t('Screen reader support')}</MenuItem>
                <MenuItem onClick={() => screen.current?.reset()}>{t('Reset the screen')}</MenuItem>
                <hr />
                <MenuItem onClick={() => navigate(`?cast=${encodeURIComponent(active)}`)}><Icon name="play" />{t('Replay and record')}</MenuItem>
                {mayShare && <MenuItem onClick={() => setSharing(true)}><Icon name="share" />{t('Share for viewing…')}</MenuItem>}
                {mayWrite && <MenuItem onClick={() => navigate(`?${readOnly ? '' : 'watch'}`)}>{readOnly ? t('Allow typing') : t('Watch only')}</MenuItem>}
                {!readOnly && <MenuItem danger keys={keysOf('close')} onClick={() => close(active)}>{t('Close this terminal')}</MenuItem>}
              </>
            )}
          </Menu>
        )}
      </Bar>
      <main class="panes" id="panes">
        {error && <div class="centred"><Icon name="warning" /><h1>{t('This session cannot be opened')}</h1><p>{explain(error)}</p><div class="row">{mayHelp(error) && <button type="button" class="button primary" onClick={() => location.reload()}>{t('Try again')}</button>}<a class="button" href="/">{t('All sessions')}</a></div></div>}
        {session && !tab && (
          <div class="centred">
            <Icon name="terminal" />
            <h1>{t('No terminal is open')}</h1>
            <p>{readOnly ? t('There is nothing to watch in this session yet.') : t('A terminal is a shell in this session’s sandbox. It shares its files with the notebook, and goes on when you close this page.')}</p>
            {!readOnly && <button type="button" class="button primary" autofocus onClick={() => void open()}>{t('Open a terminal')}</button>}
          </div>
        )}
        {session && tabs.map((x) => (
          <div key={panesOf(x)[0]} class="split" id={`panel-${panesOf(x)[0]}`} role="tabpanel" aria-labelledby={`tab-${panesOf(x)[0]}`} hidden={x !== tab}>
            {places(x).map(({ id: p, ...place }) => (
              <Pane key={`${p}${readOnly ? '-watch' : ''}`} session={session} id={p} place={place} readOnly={readOnly} fontSize={fontSize} screenReader={reader} active={p === active} visible={x === tab}
                finding={finding === p} onFind={(on) => setFinding(on ? p : '')}
                onActive={(s) => { screen.current = s; setActive(p) }}
                onTitle={(said) => setTitles((all) => ({ ...all, [p]: said }))}
                onBell={() => setRung((all) => ({ ...all, [p]: true }))}
                onEnded={() => setEnded((all) => ({ ...all, [p]: true }))}
                onAgain={() => { close(p); void open() }}
                onClose={() => close(p)}
                onFile={(path, line) => setFile({ path, line })} />
            ))}
          </div>
        ))}
      </main>
      {sharing && session && <Share session={session} views={[{ label: t('The terminals'), at: '/terminal' }]} onClose={() => setSharing(false)} />}
      {file && session && <FileView session={session} {...file} onClose={() => setFile(undefined)} />}
    </div>
  )
}
