import { useSignal, useSignalEffect } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { t } from '../../language/texts'
import { terminalReader, terminalSize } from '../../settings'
import { commandOf } from '../../terminal/keys'
import { Pane } from '../../terminal/pane'
import type { Screen } from '../../terminal/screen'
import '../../terminal/terminal.css'
import { paletteOpen } from '../../ui/palette'
import type { Desk } from '../desk'
import { FilePart, useFile, type OpenFile } from '../file/viewer'
import type { Notebook } from '../notebook'
import { Between, Edge } from './divider'
import { DropZone } from './drag'
import { NotebookTab } from './notebook'
import { openTerminal } from './open'
import { Preview } from './preview'
import { keyOf, shownGroups, type Dock, type DockTab } from './state'
import { idOf, Tabs } from './tabs'
import './dock.css'

export { enterTabs, makeNotebook, moveTab, newNotebook, openFile, openPreview, openTerminal } from './open'
export { Dock } from './state'

const whole = { left: 0, top: 0, width: 100, height: 100 }

/**
 * Notebooks, files, terminals and previews beside the notebook or below it, in groups of tabs. Their
 * places are remembered.
 */
export function DockView({ desk, dock }: { desk: Desk; dock: Dock }) {
  const { session, readOnly } = desk.main.notebook
  const phone = usePhone()
  const [titles, setTitles] = useState<Record<string, string>>({})
  const [finding, setFinding] = useState('')
  const screen = useRef<Screen>(undefined)
  const files = useRef(new Map<string, OpenFile>())
  useSharedTurns(desk)
  const wanted = dock.wanted.value
  useLayoutEffect(() => {
    const el = wanted && document.querySelector<HTMLElement>(`.dock [data-key="${CSS.escape(wanted)}"]`)
    if (!el) return
    dock.wanted.value = ''
    el.focus()
    el.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  })
  const state = dock.state.value
  const { below, size, hidden } = state
  const stacked = state.stacked && !phone
  const groups = shownGroups(state, phone)
  const seen = useRef(false)
  seen.current ||= !hidden
  if (groups.length === 0 || !seen.current) return null
  const close = async (tab: DockTab) => {
    const key = keyOf(tab)
    if (!await (files.current.get(key)?.mayClose() ?? true)) return
    files.current.delete(key)
    const inside = document.activeElement?.closest('.dock')
    dock.close(tab)
    if (tab.kind === 'terminal' && !readOnly) session.closeChannel(tab.id).catch(() => {}) // it has ended already
    const now = dock.state.peek()
    const g = now.groups[now.current]
    if (!g) desk.enter(desk.main)
    else if (inside) dock.wanted.value = keyOf(g.tabs[g.at]!)
  }
  const keys = (e: KeyboardEvent) => {
    const command = commandOf(e)
    if (command === 'palette') paletteOpen.value = true
    else if (command === 'earlier' || command === 'later') screen.current?.marks.jump(command === 'earlier' ? -1 : 1)
    else return
    e.preventDefault()
  }
  const place = (group: number) => ({ gridArea: stacked ? `${group + 1} / 1` : `1 / ${group + 1}` })
  const template = groups.map((g) => `minmax(0, ${100 * g.share}fr)`).join(' ')
  // The parts have a place as a style, and an order that does not depend on it: a move in the
  // document would load a frame again.
  const parts = groups.flatMap((g, group) => g.tabs.map((tab, i) => ({ tab, group, chosen: i === g.at }))).sort((a, b) => (keyOf(a.tab) < keyOf(b.tab) ? -1 : 1))
  const content = (tab: DockTab, shown: boolean) => {
    const key = keyOf(tab)
    switch (tab.kind) {
      case 'file': return <FileTab desk={desk} dock={dock} tab={tab} opened={(f) => files.current.set(key, f)} leave={() => (dock.wanted.value = key)} />
      case 'notebook': return <NotebookTab desk={desk} dock={dock} path={tab.path} shown={shown} />
      case 'preview': return <Preview desk={desk} tab={tab} shown={shown} />
      case 'terminal': return (
        <Pane session={session} id={tab.id} place={whole} readOnly={readOnly} fontSize={terminalSize.value} screenReader={terminalReader.value} active={dock.focused.value === key} visible={shown}
          finding={finding === tab.id} onFind={(on) => setFinding(on ? tab.id : '')} onActive={(s) => { screen.current = s; dock.focused.value = key }}
          onTitle={(title) => setTitles((all) => ({ ...all, [tab.id]: title }))} onBell={() => {}} onEnded={() => {}}
          onAgain={() => { void close(tab); void openTerminal(desk) }} onClose={() => void close(tab)} onFile={desk.main.shell.file} />
      )
    }
  }
  return (
    <aside class={below ? 'dock below' : 'dock'} hidden={hidden} style={{ '--dock-size': size }} aria-label={t('Beside the notebook')} onKeyDown={keys}>
      <Edge dock={dock} below={below} size={size} />
      <div class={stacked ? 'dock-groups stacked' : 'dock-groups'} style={stacked ? { gridTemplateRows: template } : { gridTemplateColumns: template }}>
        {groups.map((g, i) => <Tabs key={i} desk={desk} dock={dock} group={g} index={i} phone={phone} corner={i === (stacked ? 0 : groups.length - 1)} style={place(i)} titles={titles} close={(tab) => void close(tab)} />)}
        {parts.map(({ tab, group, chosen }) => (
          <div key={keyOf(tab)} class="dock-part" id={idOf('part', tab)} role="tabpanel" aria-labelledby={idOf('tab', tab)} style={place(group)} hidden={!chosen} onFocusIn={() => { if (chosen && dock.state.peek().current !== group && !phone) dock.set({ current: group }) }}>
            {content(tab, chosen && !hidden)}
          </div>
        ))}
        {!phone && groups.map((_, i) => i > 0 && <Between key={i} dock={dock} groups={groups} index={i} stacked={stacked} style={place(i)} />)}
        {!phone && groups.map((_, i) => <DropZone key={i} dock={dock} group={i} stacked={stacked} style={place(i)} />)}
      </div>
    </aside>
  )
}

/** Whether the window has the width of a phone. */
function usePhone(): boolean {
  const phone = useSignal(matchMedia('(max-width: 900px)').matches)
  useEffect(() => {
    const query = matchMedia('(max-width: 900px)')
    const change = () => (phone.value = query.matches)
    query.addEventListener('change', change)
    return () => query.removeEventListener('change', change)
  }, [])
  return phone.value
}

/** A cell that has ended changes the variables and files that all notebooks share. */
function useSharedTurns(desk: Desk): void {
  const seen = useRef(new Map<Notebook, number>())
  useSignalEffect(() => {
    const all = [desk.main.notebook, ...desk.others.value]
    const grown = all.filter((n) => n.turns.value !== (seen.current.get(n) ?? n.turns.peek()))
    if (grown.length > 0) for (const n of all) if (!grown.includes(n)) n.turns.value++
    seen.current = new Map(all.map((n) => [n, n.turns.peek()]))
  })
}

function FileTab({ desk, dock, tab, opened, leave }: { desk: Desk; dock: Dock; tab: Extract<DockTab, { kind: 'file' }>; opened: (f: OpenFile) => void; leave: () => void }) {
  const { session, readOnly } = desk.main.notebook
  const f = useFile({ session, path: tab.path, readOnly, written: () => {}, ...(tab.fresh ? { fresh: true } : {}) })
  opened(f)
  // If the user has opened it, and is not elsewhere by now.
  const enter = () => dock.focused.peek() === keyOf(tab) && !document.activeElement?.closest('[role=tab], .cm-editor, .xterm')
  return <FilePart file={f} leave={leave} enter={enter}>{null}</FilePart>
}
