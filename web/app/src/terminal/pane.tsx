import type { Exit, Sandbox } from '@sandgate/client/base'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { plural, t } from '../language/texts'
import { client, connection } from '../server'
import { dark } from '../theme'
import { explain } from '../ui/again'
import { confirm } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { bringsFiles, dropped } from '../notebook/drop'
import { localPort, openPreview } from '../ui/preview'
import { failed, toast } from '../ui/toast'
import { dropFiles } from './upload'
import { KeyBar } from './keybar'
import { commandOf } from './keys'
import type { Place } from './layout'
import { Screen } from './screen'

export interface PaneProps {
  session: Sandbox
  id: string
  place: Omit<Place, 'id'>
  readOnly: boolean
  fontSize: number
  screenReader: boolean
  active: boolean
  visible: boolean
  finding: boolean
  onFind(on: boolean): void
  onActive(screen: Screen): void
  onTitle(title: string): void
  onBell(): void
  onEnded(): void
  onAgain(): void
  onClose(): void
  onFile(path: string, line: number): void
}

/** Shows one terminal with its messages. */
export function Pane(p: PaneProps) {
  const box = useRef<HTMLDivElement>(null)
  const screen = useRef<Screen>(undefined)
  const props = useRef(p)
  props.current = p
  const [exit, setExit] = useState<Exit>()
  const [error, setError] = useState<Error>()
  const [served, setServed] = useState<string[]>([])
  const [over, setOver] = useState(false)
  const [size, setSize] = useState<{ cols: number; rows: number; own: boolean }>()

  useEffect(() => {
    const s = (screen.current = new Screen({
      title: (t) => props.current.onTitle(t),
      bell: () => props.current.onBell(),
      ended(e) {
        setExit(e)
        props.current.onEnded()
      },
      failed: setError,
      confirmPaste: (text) => {
        const lines = text.trimEnd().split('\n')
        return confirm({
          title: plural(lines.length, 'Paste 1 line?', 'Paste {n} lines?'), yes: t('Paste'),
          text: <>{t('The program does not mark pastes, so each line may run at once.')}<pre class="preview">{lines.slice(0, 8).join('\n') + (lines.length > 8 ? '\n…' : '')}</pre></>,
        })
      },
      copied: (n, by) => toast(by === 'user' ? t('Copied') : plural(n, 'A program has put 1 character on the clipboard', 'A program has put {n} characters on the clipboard')),
      openFile: (path, line) => props.current.onFile(path, line),
      serves: (uri) => setServed((all) => all.includes(uri) ? all : [...all, uri].slice(-1)),
      openLink: (uri) => localPort(uri) !== undefined && !p.readOnly ? void openPreview(uri) : void confirm({ title: t('Open this link?'), text: <span class="uri">{uri}</span>, yes: t('Open') }).then((yes) => yes && window.open(uri, '_blank', 'noopener,noreferrer')),
      size: (cols, rows, own) => setSize({ cols, rows, own }),
    }, p))
    s.open(box.current!)
    const observer = new ResizeObserver(() => s.fit())
    observer.observe(box.current!)
    s.term.textarea?.addEventListener('focus', () => props.current.onActive(s))
    void s.follow(p.session, p.id)
    return () => {
      observer.disconnect()
      s.close()
    }
  }, [p.id])
  useEffect(() => screen.current?.theme(), [dark.value])
  useEffect(() => { if (screen.current) screen.current.fontSize = p.fontSize }, [p.fontSize])
  useEffect(() => { if (screen.current) screen.current.term.options.screenReaderMode = p.screenReader }, [p.screenReader])
  // At once: a key that is pressed after another pane was closed belongs to this one.
  useLayoutEffect(() => {
    if (p.visible && p.active) screen.current?.term.focus()
  }, [p.visible, p.active])
  useEffect(() => {
    if (!p.visible || !p.active) return
    screen.current?.fit()
    screen.current?.term.focus()
    props.current.onActive(screen.current!)
  }, [p.visible, p.active])

  const c = connection.value
  const down = c !== undefined && c.state !== 'open'
  return (
    <section class={`pane${p.active ? ' active' : ''}${over ? ' over' : ''}`} aria-label={t('Terminal')}
      onDragOver={(e) => { if (bringsFiles(e)) { e.preventDefault(); setOver(!p.readOnly) } }}
      onDragLeave={(e) => { if (!e.currentTarget.contains(e.relatedTarget as Node | null)) setOver(false) }}
      onDrop={(e) => {
        if (!bringsFiles(e)) return
        e.preventDefault()
        setOver(false)
        if (!p.readOnly) void dropped(e).then((files) => dropFiles(p.session, screen.current!, files)).catch((error: unknown) => failed(t('The files were not uploaded'), error))
      }} style={{ left: `${p.place.left}%`, top: `${p.place.top}%`, width: `${p.place.width}%`, height: `${p.place.height}%` }} onKeyDown={(e) => {
      if (commandOf(e) !== 'find') return
      e.preventDefault()
      p.onFind(true)
    }}>
      {p.finding && <Find screen={screen.current!} onClose={() => { p.onFind(false); screen.current!.term.focus() }} />}
      <div class="pane-body">
        <div class="xterm-box" ref={box} />
        {down && !exit && <div class="note" role="status"><Icon name="spinner" spin />{t('Reconnecting. What you type is sent when the connection is back.')}<button type="button" class="button quiet" onClick={() => client.value?.reconnect()}>{t('Try now')}</button></div>}
        {served.length > 0 && !p.readOnly && !exit && !down && (
          <div class="note served" role="status">
            <span class="ellipsis">{t('A program serves {address}', { address: served[0]! })}</span>
            <button type="button" class="button quiet" onClick={() => void openPreview(served[0]!)}>{t('Open preview')}</button>
            <button type="button" class="button icon quiet" aria-label={t('Dismiss')} onClick={() => setServed([])}><Icon name="close" /></button>
          </div>
        )}
        {size && !size.own && !exit && (
          <div class="note" role="status">
            {p.readOnly ? t('You are watching: {cols} × {rows}.', { cols: size.cols, rows: size.rows }) : t('Somebody else is typing: {cols} × {rows}.', { cols: size.cols, rows: size.rows })}
            {!p.readOnly && <button type="button" class="button quiet" onClick={() => screen.current?.take()}>{t('Use my size')}</button>}
          </div>
        )}
      </div>
      {exit && (
        <div class={exit.code === 0 ? 'ended' : 'ended bad'} role="status">
          <span>{said(exit)}</span>
          {!p.readOnly && <button type="button" class="button" onClick={p.onAgain}><Icon name="restart" />{t('New terminal')}</button>}
          <button type="button" class="button" onClick={p.onClose}>{t('Close')}</button>
        </div>
      )}
      {error && !exit && (
        <div class="ended bad" role="alert">
          <span>{explain(error)}</span>
          <button type="button" class="button" onClick={p.onClose}>{t('Close')}</button>
        </div>
      )}
      {!p.readOnly && !exit && <KeyBar screen={() => screen.current} onPaste={() => void navigator.clipboard.readText().then((t) => screen.current?.paste(t), (e) => failed(t('The clipboard cannot be read'), e))} />}
    </section>
  )
}

function said(e: Exit): string {
  if (e.signal) return t('Ended by {signal}.', { signal: e.signal })
  if (e.code >= 0) return e.code === 0 ? t('Ended.') : t('Ended with status {code}.', { code: e.code })
  if (e.reason === 'closed') return t('Closed.')
  return e.reason ? t('Ended: {reason}.', { reason: e.reason }) : t('Ended: the sandbox is gone.')
}

function Find({ screen, onClose }: { screen: Screen; onClose(): void }) {
  const [none, setNone] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.focus(), [])
  const look = (back: boolean) => {
    const text = field.current!.value
    if (text) void screen.find(text, back).then((found) => setNone(!found))
  }
  return (
    <form class="find" role="search" onSubmit={(e) => { e.preventDefault(); look(true) }} onKeyDown={(e) => { if (e.key === 'Escape') onClose() }}>
      <input ref={field} class="field" type="search" aria-label={t('Find in the terminal')} placeholder={t('Find')} onInput={() => look(true)} />
      <span role="status" class="muted">{none ? t('No match') : ''}</span>
      <button type="button" class="button icon quiet" aria-label={t('Earlier')} onClick={() => look(true)}><Icon name="up" /></button>
      <button type="button" class="button icon quiet" aria-label={t('Later')} onClick={() => look(false)}><Icon name="down" /></button>
      <button type="button" class="button icon quiet" aria-label={t('Close the search')} onClick={onClose}><Icon name="close" /></button>
    </form>
  )
}
