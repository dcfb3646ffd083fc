import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { number, t } from '../language/texts'
import { notebookPath, route, terminalPath } from '../router'
import { dark } from '../theme'
import { token } from '../token'
import { Bar } from '../ui/bar'
import { Icon } from '../ui/icon'
import { clock, count, maxCast, parseCast, withoutIdle, type Cast } from './cast'
import { colours } from './colours'
import { Pictures } from './pictures/pictures'

const speeds = [0.5, 1, 2, 4, 8]
/** The largest and the smallest text, in pixels. Between them, the recorded screen fits the page. */
const text = { largest: 13, smallest: 6 }

/** Returns a channel's name for people. */
function spoken(channel: string): string {
  const [, kind, id] = /^([tk])(\d.*)/.exec(channel) ?? []
  if (!id) return channel
  return kind === 't' ? t('terminal {id}', { id }) : t('kernel {id}', { id })
}

/** Plays the part of a channel's output that the server still has. */
export function Player({ session, channel }: { session: string; channel: string }) {
  const box = useRef<HTMLDivElement>(null)
  const term = useRef<Terminal>(undefined)
  const pictures = useRef<Pictures>(undefined)
  const [whole, setWhole] = useState<Cast>()
  const [error, setError] = useState('')
  const [playing, setPlaying] = useState(false)
  const [speed, setSpeed] = useState(1)
  const [idle, setIdle] = useState(false)
  const [at, setAt] = useState(0)
  const shown = useRef(0) // the number of events on the screen
  const cast = whole && (idle ? whole : withoutIdle(whole))
  const end = cast?.events.at(-1)?.at ?? 0

  const cell = route.value.query.get('cell')
  const address = `/v1/sessions/${encodeURIComponent(session)}/channels/${encodeURIComponent(channel)}/cast${cell ? `?cell=${encodeURIComponent(cell)}` : ''}`
  const fetched = useRef<Blob>(undefined)

  useEffect(() => {
    const gone = new AbortController()
    void (async () => {
      try {
        const res = await fetch(address, { headers: { Authorization: `Bearer ${token.value}` }, signal: gone.signal })
        if (!res.ok) throw new Error(((await res.json()) as { error: { message: string } }).error.message)
        fetched.current = await res.blob()
        if (fetched.current.size > maxCast) throw new Error(t('it has {size} bytes, {most} are played; download it', { size: number(fetched.current.size), most: number(maxCast) }))
        setWhole(parseCast(await fetched.current.text()))
        setPlaying(true)
      } catch (e) {
        if (!gone.signal.aborted) setError((e as Error).message)
      }
    })()
    return () => gone.abort()
  }, [address])

  useEffect(() => {
    if (!whole) return
    const made = (term.current = new Terminal({
      cols: whole.cols, rows: whole.rows, disableStdin: true, fontSize: text.largest, lineHeight: 1.2, theme: colours(), minimumContrastRatio: 4.5,
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'), scrollback: 10_000, linkHandler: { activate() {} },
    }))
    const stage = box.current! // fit may run after the page has left it
    made.open(stage)
    const out = (pictures.current = new Pictures(made))
    shown.current = 0
    const fit = () => {
      const style = getComputedStyle(stage)
      const frame = (...sides: string[]) => sides.reduce((n, s) => n + (parseFloat(style.getPropertyValue(s)) || 0), 0)
      made.options.fontSize = text.largest
      const screen = made.element!.querySelector('.xterm-screen')!.getBoundingClientRect()
      const room = (stage.parentElement ?? stage).getBoundingClientRect()
      const scale = Math.min((room.width - 16 - frame('padding-left', 'padding-right')) / screen.width, (room.height - frame('padding-top', 'padding-bottom', 'border-top-width', 'border-bottom-width')) / screen.height)
      made.options.fontSize = Math.max(text.smallest, Math.min(text.largest, Math.floor(2 * text.largest * scale) / 2))
    }
    const observer = new ResizeObserver(fit)
    observer.observe(stage.parentElement!)
    const resized = made.onResize(fit)
    return () => {
      observer.disconnect()
      resized.dispose()
      out.dispose()
      made.dispose()
    }
  }, [whole])
  useEffect(() => { if (term.current) term.current.options.theme = colours() }, [dark.value])

  /**
   * Shows the screen at a time: continues from the current time, or starts again from the
   * beginning.
   */
  const go = (to: number) => {
    const screen = term.current
    const out = pictures.current
    if (!screen || !out || !cast) return
    const n = count(cast.events, to)
    if (n < shown.current) {
      out.reset()
      screen.resize(cast.cols, cast.rows)
      shown.current = 0
    }
    let text = ''
    for (; shown.current < n; shown.current++) {
      const e = cast.events[shown.current]!
      if (e.code === 'o') text += e.text
      else {
        const [cols, rows] = e.text.split('x').map(Number)
        void out.write(text)
        if (cols && rows) void out.after(() => screen.resize(Math.min(cols, 1000), Math.min(rows, 1000)))
        text = ''
      }
    }
    if (text) void out.write(text)
  }
  useEffect(() => go(at), [at, whole, idle])
  useEffect(() => {
    if (!playing) return
    let before = performance.now()
    let frame = requestAnimationFrame(function next(now) {
      const passed = ((now - before) / 1000) * speed
      before = now
      setAt((from) => {
        if (from + passed >= end) setPlaying(false)
        return Math.min(from + passed, end)
      })
      frame = requestAnimationFrame(next)
    })
    return () => cancelAnimationFrame(frame)
  }, [playing, speed, end])

  const toggle = () => {
    if (!playing && at >= end) setAt(0)
    setPlaying(!playing)
  }
  const download = () => {
    const a = document.createElement('a')
    a.href = URL.createObjectURL(fetched.current!)
    a.download = `${channel}.cast`
    a.click()
    setTimeout(() => URL.revokeObjectURL(a.href), 1000)
  }
  const keys = (e: KeyboardEvent) => {
    if ((e.target as Element).matches('button, input, select, textarea:not(.xterm-helper-textarea)')) return
    if (e.key === ' ') toggle()
    else if (e.key === 'ArrowRight') setAt(Math.min(end, at + 5))
    else if (e.key === 'ArrowLeft') setAt(Math.max(0, at - 5))
    else return
    e.preventDefault()
  }
  const name = whole?.title || spoken(channel)
  return (
    <div class="terminals" onKeyDown={keys}>
      <Bar>
        <strong class="ellipsis">{cell ? t('Recording of {name}, cell {cell}', { name, cell }) : t('Recording of {name}', { name })}</strong>
        <span class="grow" />
        {whole && <button type="button" class="button" aria-label={t('Download')} onClick={download}><Icon name="download" /><span class="wide">{t('Download')}</span></button>}
        {cell
          ? <a class="button quiet" aria-label={t('Notebook')} href={notebookPath(session)}><Icon name="notebook" /><span class="wide">{t('Notebook')}</span></a>
          : <a class="button quiet" aria-label={t('Terminals')} href={terminalPath(session)}><Icon name="terminal" /><span class="wide">{t('Terminals')}</span></a>}
      </Bar>
      <main class="player">
        {error && <div class="centred"><Icon name="warning" /><h1>{t('The recording cannot be played')}</h1><p>{error}</p></div>}
        {whole && whole.events.length === 0 && <div class="centred"><h1>{t('Nothing has been printed yet')}</h1><p>{t('Recording starts with the first output.')}</p></div>}
        <div class="stage" ref={box} tabIndex={0} aria-label={t('The recorded terminal')} hidden={!whole || whole.events.length === 0} />
      </main>
      {whole && whole.events.length > 0 && (
        <div class="controls" role="toolbar" aria-label={t('Playback')}>
          <button type="button" class="button icon" aria-label={playing ? t('Pause|a recording') : t('Play')} onClick={toggle}><Icon name={playing ? 'pause' : 'play'} /></button>
          <input type="range" min={0} max={end} step="any" value={at} aria-label={t('Position')} aria-valuetext={t('{at} of {end}', { at: clock(at), end: clock(end) })}
            onInput={(e) => { setPlaying(false); setAt(Number(e.currentTarget.value)) }} />
          <span class="num muted">{clock(at)} / {clock(end)}</span>
          <select class="button" aria-label={t('Speed')} value={speed} onChange={(e) => setSpeed(Number(e.currentTarget.value))}>
            {speeds.map((s) => <option key={s} value={s}>{s}×</option>)}
          </select>
          <label class="row"><input type="checkbox" checked={!idle} onChange={() => { setIdle(!idle); setAt(0) }} />{t('Skip pauses')}</label>
        </div>
      )}
    </div>
  )
}
