import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { notebookPath, route, terminalPath } from '../router'
import { dark } from '../theme'
import { token } from '../token'
import { Bar } from '../ui/bar'
import { Icon } from '../ui/icon'
import { clock, count, maxCast, parseCast, withoutIdle, type Cast } from './cast'
import { colours } from './colours'

const speeds = [0.5, 1, 2, 4, 8]
/** The largest and the smallest text, in pixels. Between them, the recorded screen fits the page. */
const text = { largest: 13, smallest: 6 }

/** Returns a channel's name for people. */
const spoken = (channel: string) => channel.replace(/^t(?=\d)/, 'terminal ').replace(/^k(?=\d)/, 'kernel ')

/** Plays the part of a channel's output that the server still has. */
export function Player({ session, channel }: { session: string; channel: string }) {
  const box = useRef<HTMLDivElement>(null)
  const term = useRef<Terminal>(undefined)
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
        if (fetched.current.size > maxCast) throw new Error(`it has ${fetched.current.size.toLocaleString()} bytes, ${maxCast.toLocaleString()} are played; download it`)
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
    const t = (term.current = new Terminal({
      cols: whole.cols, rows: whole.rows, disableStdin: true, fontSize: text.largest, lineHeight: 1.2, theme: colours(), minimumContrastRatio: 4.5,
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'), scrollback: 10_000, linkHandler: { activate() {} },
    }))
    t.open(box.current!)
    shown.current = 0
    const fit = () => {
      const stage = box.current!
      const style = getComputedStyle(stage)
      const frame = (...sides: string[]) => sides.reduce((n, s) => n + (parseFloat(style.getPropertyValue(s)) || 0), 0)
      t.options.fontSize = text.largest
      const screen = t.element!.querySelector('.xterm-screen')!.getBoundingClientRect()
      const room = stage.parentElement!.getBoundingClientRect()
      const scale = Math.min((room.width - 16 - frame('padding-left', 'padding-right')) / screen.width, (room.height - frame('padding-top', 'padding-bottom', 'border-top-width', 'border-bottom-width')) / screen.height)
      t.options.fontSize = Math.max(text.smallest, Math.min(text.largest, Math.floor(2 * text.largest * scale) / 2))
    }
    const observer = new ResizeObserver(fit)
    observer.observe(box.current!.parentElement!)
    const resized = t.onResize(fit)
    return () => {
      observer.disconnect()
      resized.dispose()
      t.dispose()
    }
  }, [whole])
  useEffect(() => { if (term.current) term.current.options.theme = colours() }, [dark.value])

  /**
   * Shows the screen at a time: continues from the current time, or starts again from the
   * beginning.
   */
  const go = (to: number) => {
    const t = term.current
    if (!t || !cast) return
    const n = count(cast.events, to)
    if (n < shown.current) {
      t.reset()
      t.resize(cast.cols, cast.rows)
      shown.current = 0
    }
    let text = ''
    for (; shown.current < n; shown.current++) {
      const e = cast.events[shown.current]!
      if (e.code === 'o') text += e.text
      else {
        const [cols, rows] = e.text.split('x').map(Number)
        t.write(text, cols && rows ? () => t.resize(Math.min(cols, 1000), Math.min(rows, 1000)) : undefined)
        text = ''
      }
    }
    if (text) t.write(text)
  }
  useEffect(() => go(at), [at, whole, idle])
  useEffect(() => {
    if (!playing) return
    let before = performance.now()
    let frame = requestAnimationFrame(function next(now) {
      const passed = ((now - before) / 1000) * speed
      before = now
      setAt((t) => {
        if (t + passed >= end) setPlaying(false)
        return Math.min(t + passed, end)
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
  return (
    <div class="terminals" onKeyDown={keys}>
      <Bar>
        <strong class="ellipsis">Recording of {whole?.title || spoken(channel)}{cell && `, cell ${cell}`}</strong>
        <span class="grow" />
        {whole && <button type="button" class="button" aria-label="Download" onClick={download}><Icon name="download" /><span class="wide">Download</span></button>}
        {cell
          ? <a class="button quiet" aria-label="Notebook" href={notebookPath(session)}><Icon name="notebook" /><span class="wide">Notebook</span></a>
          : <a class="button quiet" aria-label="Terminals" href={terminalPath(session)}><Icon name="terminal" /><span class="wide">Terminals</span></a>}
      </Bar>
      <main class="player">
        {error && <div class="centred"><Icon name="warning" /><h1>The recording cannot be played</h1><p>{error}</p></div>}
        {whole && whole.events.length === 0 && <div class="centred"><h1>Nothing has been printed yet</h1><p>Recording starts with the first output.</p></div>}
        <div class="stage" ref={box} tabIndex={0} aria-label="The recorded terminal" hidden={!whole || whole.events.length === 0} />
      </main>
      {whole && whole.events.length > 0 && (
        <div class="controls" role="toolbar" aria-label="Playback">
          <button type="button" class="button icon" aria-label={playing ? 'Pause' : 'Play'} onClick={toggle}><Icon name={playing ? 'pause' : 'play'} /></button>
          <input type="range" min={0} max={end} step="any" value={at} aria-label="Position" aria-valuetext={`${clock(at)} of ${clock(end)}`}
            onInput={(e) => { setPlaying(false); setAt(Number(e.currentTarget.value)) }} />
          <span class="num muted">{clock(at)} / {clock(end)}</span>
          <select class="button" aria-label="Speed" value={speed} onChange={(e) => setSpeed(Number(e.currentTarget.value))}>
            {speeds.map((s) => <option key={s} value={s}>{s}×</option>)}
          </select>
          <label class="row"><input type="checkbox" checked={!idle} onChange={() => { setIdle(!idle); setAt(0) }} />Skip pauses</label>
        </div>
      )}
    </div>
  )
}
