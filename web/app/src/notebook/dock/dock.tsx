import { useRef, useState } from 'preact/hooks'
import type { Sandbox } from '@sandgate/client/base'
import { terminalReader, terminalSize } from '../../settings'
import { commandOf } from '../../terminal/keys'
import { shellMarks } from '../../terminal/marks'
import { Pane } from '../../terminal/pane'
import type { Screen } from '../../terminal/screen'
import '../../terminal/terminal.css'
import { Icon } from '../../ui/icon'
import { paletteOpen } from '../../ui/palette'
import { failed } from '../../ui/toast'
import { FilePart, useFile, type OpenFile } from '../file/viewer'
import { keyOf, sizes, type Dock, type DockTab } from './state'
import './dock.css'

interface Props {
  dock: Dock
  session: Sandbox
  readOnly: boolean
  /** Returns the focus to the notebook. */
  leave: () => void
  /** Shows a file at a line. */
  openFile: (path: string, line: number) => void
}

const whole = { left: 0, top: 0, width: 100, height: 100 }

/** Opens a terminal beside the notebook. */
export async function openTerminal(dock: Dock, session: Sandbox): Promise<void> {
  try {
    const t = await session.terminal({ cols: 80, rows: 24, env: shellMarks })
    t.close() // the pane attaches itself
    if (!dock.open({ kind: 'terminal', id: t.id })) await session.closeChannel(t.id)
  } catch (e) {
    failed('No terminal could be opened', e)
  }
}

/** Files and terminals beside the notebook or below it, in tabs. Their places are remembered. */
export function DockView({ dock, session, readOnly, leave, openFile }: Props) {
  const { tabs, at, below, size, hidden } = dock.state.value
  const [titles, setTitles] = useState<Record<string, string>>({})
  const [finding, setFinding] = useState('')
  const focused = dock.focused.value
  const screen = useRef<Screen>(undefined)
  const files = useRef(new Map<string, OpenFile>())
  if (tabs.length === 0 || hidden) return null
  const close = async (t: DockTab) => {
    const file = files.current.get(keyOf(t))
    if (file && !await file.mayClose()) return
    dock.close(t)
    if (t.kind === 'terminal' && !readOnly) session.closeChannel(t.id).catch(() => {}) // it has ended already
    if (dock.state.peek().tabs.length === 0) leave()
  }
  const name = (t: DockTab) => (t.kind === 'file' ? t.path.split('/').pop()! : titles[t.id] || 'Terminal')
  const walk = (e: KeyboardEvent) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[e.key]
    if (e.key === 'Delete') void close(tabs[at]!)
    if (to === undefined) return
    e.preventDefault()
    const n = (to + tabs.length) % tabs.length
    dock.set({ at: n })
    ;(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role=tab]')[n]?.focus()
  }
  const keys = (e: KeyboardEvent) => {
    const command = commandOf(e)
    if (command === 'palette') paletteOpen.value = true
    else if (command === 'earlier' || command === 'later') screen.current?.marks.jump(command === 'earlier' ? -1 : 1)
    else return
    e.preventDefault()
  }
  return (
    <aside class={below ? 'dock below' : 'dock'} style={{ '--dock-size': size }} aria-label="Beside the notebook" onKeyDown={keys}>
      <Divider dock={dock} below={below} size={size} />
      <header class="row">
        <div class="tabs grow" role="tablist" aria-label="Files and terminals" onKeyDown={walk}>
          {tabs.map((t, i) => (
            <button key={keyOf(t)} type="button" role="tab" class="tab" id={`dock-tab-${i}`} aria-selected={i === at} aria-controls={`dock-part-${i}`} tabIndex={i === at ? 0 : -1}
              title={t.kind === 'file' ? t.path : undefined} onClick={() => { dock.set({ at: i }); dock.focused.value = keyOf(t) }} onAuxClick={(e) => { if (e.button === 1) void close(t) }}>
              <Icon name={t.kind === 'file' ? 'file' : 'terminal'} /><span class="ellipsis">{name(t)}</span>
            </button>
          ))}
        </div>
        {!readOnly && <button type="button" class="button icon quiet" aria-label="New terminal beside the notebook" title="New terminal" onClick={() => void openTerminal(dock, session)}><Icon name="add" /></button>}
        <button type="button" class="button icon quiet wide" aria-label={below ? 'Move to the side' : 'Move below'} title={below ? 'Move to the side' : 'Move below'} onClick={() => dock.set({ below: !below })}><Icon name={below ? 'beside' : 'below'} /></button>
        <button type="button" class="button icon quiet" aria-label="Hide" title="Hide" onClick={() => { dock.set({ hidden: true }); leave() }}><Icon name={below ? 'down' : 'forward'} /></button>
        <button type="button" class="button icon quiet" aria-label={`Close ${name(tabs[at]!)}`} title="Close this tab" onClick={() => void close(tabs[at]!)}><Icon name="close" /></button>
      </header>
      {tabs.map((t, i) => (
        <div key={keyOf(t)} class="dock-part" id={`dock-part-${i}`} role="tabpanel" aria-labelledby={`dock-tab-${i}`} hidden={i !== at}>
          {t.kind === 'file'
            ? <DockFile session={session} tab={t} readOnly={readOnly} opened={(f) => files.current.set(keyOf(t), f)} leave={() => document.getElementById(`dock-tab-${i}`)?.focus()} />
            : <Pane session={session} id={t.id} place={whole} readOnly={readOnly} fontSize={terminalSize.value} screenReader={terminalReader.value} active={focused === keyOf(t)} visible={i === at}
                finding={finding === t.id} onFind={(on) => setFinding(on ? t.id : '')} onActive={(s) => { screen.current = s; dock.focused.value = keyOf(t) }}
                onTitle={(title) => setTitles((all) => ({ ...all, [t.id]: title }))} onBell={() => {}} onEnded={() => {}}
                onAgain={() => { void close(t); void openTerminal(dock, session) }} onClose={() => void close(t)} onFile={openFile} />}
        </div>
      ))}
    </aside>
  )
}

function DockFile({ session, tab, readOnly, opened, leave }: { session: Sandbox; tab: Extract<DockTab, { kind: 'file' }>; readOnly: boolean; opened: (f: OpenFile) => void; leave: () => void }) {
  const f = useFile({ session, path: tab.path, readOnly, written: () => {}, ...(tab.fresh ? { fresh: true } : {}) })
  opened(f)
  return <FilePart file={f} leave={leave}>{null}</FilePart>
}

/** The line between the notebook and its neighbour, which can be moved. */
function Divider({ dock, below, size }: { dock: Dock; below: boolean; size: number }) {
  const move = (to: number) => dock.set({ size: Math.round(Math.min(sizes.most, Math.max(sizes.least, to))) })
  return (
    <div class="divider" role="separator" tabIndex={0} aria-label="Size of the part beside the notebook" aria-orientation={below ? 'horizontal' : 'vertical'} aria-valuenow={size} aria-valuemin={sizes.least} aria-valuemax={sizes.most}
      onKeyDown={(e) => {
        const by = { ArrowLeft: 2, ArrowUp: 2, ArrowRight: -2, ArrowDown: -2 }[e.key]
        if (by === undefined) return
        e.preventDefault()
        move(size + by)
      }}
      onPointerDown={(e) => e.currentTarget.setPointerCapture(e.pointerId)}
      onPointerMove={(e) => {
        if (!e.currentTarget.hasPointerCapture(e.pointerId)) return
        move(below ? (100 * (innerHeight - e.clientY)) / innerHeight : (100 * (document.documentElement.clientWidth - sideWidth() - e.clientX)) / document.documentElement.clientWidth)
      }} />
  )
}

/** The width of the pane at the right of it. */
const sideWidth = (): number => document.querySelector('.workspace > .side')?.getBoundingClientRect().width ?? 0
