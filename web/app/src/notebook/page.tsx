import { useSignalEffect } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { codePoints, type Presence, type SandgateError, type Sandbox } from '@sandgate/client/base'
import type { PageProps } from '../app'
import { navigate, notebookPath, route, terminalPath } from '../router'
import { offers } from '../rest'
import { client, languageName, languages, may } from '../server'
import { autosave, editorKeys } from '../settings'
import { Bar } from '../ui/bar'
import { expiry } from '../ui/expiry'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { paletteOpen, useEntries } from '../ui/palette'
import { People, usePresence } from '../ui/presence'
import { failed, toast } from '../ui/toast'
import { appView, queryOf, toggleAppView } from './appview'
import { useArrange } from './arrange'
import { CellView, duration, type Editors } from './cell-view'
import { allowed, commands, restart, type Shell } from './commands'
import { Dock } from './dock/state'
import { bringsFiles, dropped } from './drop'
import { chord, commandKeys, editKeys, isEditors, isGridKey, Keys, keysOf } from './keys'
import { facts } from './languages'
import { Notebook } from './notebook'
import { rememberedPane, rememberPane } from './panes'
import type { PaneName } from './pane'
import './notebook.css'

/**
 * The notebook of a session. Its file is in the query, default notebook.ipynb. Opening it runs
 * nothing.
 */
export default function NotebookPage({ session }: PageProps) {
  const [notebook, setNotebook] = useState<Notebook | undefined>()
  const [error, setError] = useState<SandgateError | undefined>()
  const path = route.value.query.get('file') ?? 'notebook.ipynb'
  useEffect(() => {
    let n: Notebook | undefined
    let gone = false
    setNotebook(undefined)
    setError(undefined)
    void (async () => {
      try {
        const s = await patiently(() => client.peek()!.getSandbox(session), () => gone)
        if (gone) return
        n = new Notebook(s, path, !may('sessions:write'))
        setNotebook(n)
        await n.open()
      } catch (e) {
        if (!gone) setError(e as SandgateError)
      }
    })()
    const keep = () => n?.keepDraft()
    addEventListener('pagehide', keep)
    return () => {
      gone = true
      removeEventListener('pagehide', keep)
      n?.close()
    }
  }, [session, path])
  const problem = error ?? notebook?.problem.value
  const gone = useGone(problem !== undefined)
  if (problem && gone) return <gone.Broken problem={problem} path={path} session={session} />
  if (problem || !notebook?.ready.value) {
    return <><Bar><span class="grow muted">Opening…</span></Bar><main class="centred" aria-busy="true"><Icon name="spinner" spin /></main></>
  }
  return <Workspace notebook={notebook} />
}

/** Retries a request to an overloaded server: five times, within 6 s. */
async function patiently<T>(f: () => Promise<T>, gone: () => boolean): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await f()
    } catch (e) {
      const { retryable, kind } = e as SandgateError
      if (gone() || tries === 5 || !(retryable || kind === 'deadline_exceeded')) throw e
      await new Promise((resolve) => setTimeout(resolve, 200 * 2 ** tries))
    }
  }
}

/** Loads the components for a session that has ended, or cannot be opened. */
function useGone(wanted: boolean): typeof import('./gone') | undefined {
  const [gone, setGone] = useState<typeof import('./gone')>()
  useEffect(() => {
    if (wanted) void import('./gone').then(setGone)
  }, [wanted])
  return gone
}

function Workspace({ notebook: n }: { notebook: Notebook }) {
  const editors: Editors = useMemo(() => new Map(), [n])
  const gone = useGone(n.ended.value !== undefined)
  const [pane, setPane] = useState<PaneName | undefined>(() => rememberedPane(n))
  const dock = useMemo(() => new Dock(n.session.id, n.session.info.channels.map((c) => c.id)), [n])
  const docked = dock.state.value.tabs.length > 0
  const [DockView, setDockView] = useState<typeof import('./dock/dock').DockView>()
  useEffect(() => {
    if (docked) void import('./dock/dock').then((m) => setDockView(() => m.DockView), (e: unknown) => failed('This part of the page could not be loaded', e))
  }, [docked])
  const [PaneView, setPaneView] = useState<typeof import('./pane').Pane | undefined>()
  useEffect(() => {
    rememberPane(n, pane)
    if (pane) void import('./pane').then((m) => setPaneView(() => m.Pane))
  }, [pane])
  const [helping, setHelping] = useState(false)
  const [Help, setHelp] = useState<typeof import('./help').Help | undefined>()
  const main = useRef<HTMLElement>(null)
  const opener = useRef<HTMLInputElement>(null)
  const keys = useMemo(() => new Keys(), [n])
  const presence = usePresence(n.session, n.readOnly, (p) => n.kernels.catchUp(Object.keys(p.channels ?? {})))
  const [sharing, setSharing] = useState(false)
  const [file, setFile] = useState<{ path: string; line: number }>()
  const [FileView, setFileView] = useState<typeof import('../terminal/file').FileView>()
  const [ShareView, setShareView] = useState<typeof import('../ui/share').Share | undefined>()

  const shell: Shell = useMemo(() => ({
    pane: (p) => setPane((now) => (now === p && p !== 'search' ? undefined : p)),
    palette: () => (paletteOpen.value = true),
    help: () => {
      setHelping(true)
      void import('./help').then((m) => setHelp(() => m.Help))
    },
    export: (as) => void import('./export').then((m) => m.exportNotebook(n, as)).catch((e: unknown) => failed('The notebook was not exported', e)),
    import: () => opener.current?.click(),
    beside: (path) => {
      if (path !== undefined) return dock.open({ kind: 'file', path }) || toast('Close a tab first: there are too many')
      void import('./dock/dock').then((m) => m.openTerminal(dock, n.session), (e: unknown) => failed('No terminal could be opened', e))
    },
    print: () => void import('./print').then((m) => m.printPage()).catch((e: unknown) => failed('The notebook was not printed', e)),
    app: () => toggleAppView(n.path),
    cursor: () => {
      const cell = n.activeCell
      const editor = cell && editors.get(cell.id)?.editor
      return editor ? codePoints(cell.source.peek(), editor.cursor) : 0
    },
    file: (path, line) => {
      setFile({ path, line })
      void import('../terminal/file').then((m) => setFileView(() => m.FileView), (e: unknown) => failed('The file was not opened', e))
    },
    share: () => {
      setSharing(true)
      void import('../ui/share').then((m) => setShareView(() => m.Share))
    },
  }), [n])

  n.openFile = (path, line) => shell.file(path, line)
  useEntries(() => Object.entries(commands).filter(([id, c]) => !c.hidden && allowed(id, n)).map(([id, c]) => ({
    id, kind: 'Command', name: c.name, words: c.words ?? '', ...(keysOf(id)[0] ? { keys: keysOf(id)[0]! } : {}), run: () => c.run(n, shell),
  })), [n])

  // Moves the focus once, at once or when the cell appears in the page. If the user has clicked
  // elsewhere meanwhile, that focus stays.
  const owed = useRef(false)
  n.focus = () => {
    const el = document.getElementById(`cell-${n.active.peek()}`)
    const editor = editors.get(n.active.peek())
    owed.current = !el || (n.mode.peek() === 'edit' && !editor)
    if (owed.current) return
    if (n.mode.peek() === 'command' || !editor!.editor) el!.focus({ preventScroll: true })
    if (n.mode.peek() === 'edit') editor!.focus()
    el!.scrollIntoView({ block: 'nearest' })
  }
  useLayoutEffect(() => n.focus(), [n])
  // Drawing moves cells that others have moved. An editor in such a cell would lose the focus or the
  // cursor.
  const focused = document.activeElement
  const writing = focused?.closest('.cm-editor') ? editors.get(n.active.peek())?.editor : undefined
  const cursor = writing?.selection
  const place = getSelection()?.anchorNode
  useLayoutEffect(() => {
    if (owed.current) n.focus()
    else if (cursor && focused?.isConnected && (focused !== document.activeElement || place !== getSelection()?.anchorNode)) writing!.restore(cursor)
  })
  useSignalEffect(() => {
    document.title = `${n.kernels.busy.value ? '● ' : ''}${n.session.info.name || n.path.replace(/\.ipynb$/, '')} – Sandgate`
  })
  useEffect(() => () => void (document.title = 'Sandgate'), [])
  useEffect(() => {
    // The browser would open the file instead of the notebook, and the editor would insert its text.
    const take = (e: DragEvent) => {
      if (!bringsFiles(e) || (e.target as Element).closest?.('.files, .dock')) return
      e.preventDefault()
      e.stopPropagation()
      if (e.type !== 'drop' || n.readOnly) return
      void dropped(e).then((files) => {
        n.incoming.value = files
        setPane('files')
      }, (error: unknown) => failed('The files were not read', error))
    }
    for (const type of ['dragover', 'drop'] as const) addEventListener(type, take, true)
    return () => {
      for (const type of ['dragover', 'drop'] as const) removeEventListener(type, take, true)
    }
  }, [n])

  const key = (e: KeyboardEvent) => {
    const target = e.target as Element
    if (target.closest('.file-view, .dock')) return
    if (target.closest('.data-grid') && isGridKey(chord(e))) return
    if (target.closest('dialog, .menu, .side, .out-input, .comments')) {
      if (!(e.ctrlKey || e.metaKey)) return
    }
    const inEditor = !!target.closest('.cm-editor')
    if (!inEditor && target.closest('input, textarea, select')) return
    const press = chord(e)
    if (inEditor && isEditors(editorKeys.peek(), press, e)) return
    // Buttons and scrolling elements handle their own keys.
    if (!inEditor && /^(Enter|Space|Shift\+Space)$/.test(press) && target.closest('button, a, summary')) return
    // Escape also works while the editor is still being loaded.
    if (press === 'Escape' && !inEditor && n.mode.peek() === 'edit') {
      e.preventDefault()
      n.mode.value = 'command'
      return n.focus()
    }
    // Text that is typed while the editor is being loaded is not a command.
    const writing = inEditor || (n.mode.peek() === 'edit' && target.matches('.cell.active'))
    const found = keys.match(writing ? editKeys : commandKeys, press, e.timeStamp)
    if (!found) return
    // Selected text is copied as text.
    if (found === 'copy' && String(getSelection())) return
    if (found === 'pending' || !allowed(found, n)) return
    e.preventDefault()
    e.stopPropagation()
    if (found === 'split') {
      const editor = editors.get(n.active.peek())?.editor
      if (editor) n.split(editor.cursor)
      return n.focus()
    }
    commands[found]!.run(n, shell)
  }
  useLayoutEffect(() => {
    // Handle keys before the editor does.
    addEventListener('keydown', key, true)
    return () => removeEventListener('keydown', key, true)
  }, [n])
  useEffect(() => {
    const stir = () => n.stir()
    const signs = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'focus'] as const
    for (const s of signs) addEventListener(s, stir, { passive: true, capture: true })
    return () => {
      for (const s of signs) removeEventListener(s, stir, { capture: true })
    }
  }, [n])

  return (
    <>
      <Toolbar notebook={n} shell={shell} pane={pane} dock={dock} people={<Everybody notebook={n} presence={presence} />} />
      {gone && <gone.Ended notebook={n} />}
      <div class={`workspace${pane ? ' with-pane' : ''}${appView.value ? ' app-view' : ''}`}>
        <main ref={main} class="cells" aria-label={`Notebook ${n.path}`}
          {...useArrange(n, main)}>
          {n.cells.value.length === 1 && n.cells.value[0]!.state.value === 'none' && (n.fresh || n.cells.value[0]!.source.value === '') && (n.readOnly ? <p class="welcome muted">This notebook is empty. Cells and their output appear here when they are saved.</p> : <Welcome notebook={n} />)}
          {n.cells.value.map((c, i) => <CellView key={c.id} notebook={n} cell={c} index={i} editors={editors} shell={shell} />)}
          {!n.readOnly && !appView.value && <AddBar notebook={n} />}
        </main>
        {docked && DockView && <DockView dock={dock} session={n.session} readOnly={n.readOnly} leave={() => n.focus()} openFile={shell.file} />}
        {pane && PaneView && <PaneView name={pane} notebook={n} editors={editors} shell={shell} close={() => { setPane(undefined); n.focus() }} />}
      </div>
      {sharing && ShareView && <ShareView session={n.session} views={[{ label: 'The notebook', at: queryOf(n.path) }, { label: 'An app: text and output, with the code hidden', at: queryOf(n.path, true) }]} onClose={() => setSharing(false)} />}
      {file && FileView && <FileView session={n.session} {...file} onClose={() => setFile(undefined)} />}
      {helping && Help && <Help notebook={n} close={() => setHelping(false)} />}
      <input ref={opener} type="file" accept=".ipynb,application/x-ipynb+json,application/json" hidden onChange={async (e) => {
        const file = e.currentTarget.files?.[0]
        e.currentTarget.value = ''
        if (!file) return
        try {
          const { importNotebook } = await import('./import')
          navigate(`${notebookPath(n.session.id)}?file=${encodeURIComponent(await importNotebook(n.session, file))}`)
        } catch (error) {
          failed(file.name, error)
        }
      }} />
      <div class="sr" role="status" aria-live="polite">{n.said.value}</div>
    </>
  )
}

/** Shows who edits the notebook by name, and the number of those who only watch. */
function Everybody({ notebook: n, presence }: { notebook: Notebook; presence: Presence | undefined }) {
  const Here = n.people.value?.PeopleHere
  const sharing = n.sharing.value
  return <>{(!sharing || !!presence?.viewers) && <People presence={presence} readOnly={n.readOnly} />}{Here && sharing && <Here notebook={n} sharing={sharing} />}</>
}

function Toolbar({ notebook: n, shell, pane, dock, people }: { notebook: Notebook; shell: Shell; pane: PaneName | undefined; dock: Dock; people: ComponentChildren }) {
  const saved = { saved: 'Saved', unsaved: autosave.value ? 'Editing' : 'Unsaved changes', saving: 'Saving…', failed: 'Not saved' }[n.ended.value === undefined ? n.saved.value : 'failed']
  const item = (id: string) => <MenuItem key={id} onClick={() => commands[id]!.run(n, shell)} {...(keysOf(id)[0] ? { keys: keysOf(id)[0]! } : {})}>{commands[id]!.name}</MenuItem>
  const toggle = (name: PaneName, icon: 'folder' | 'variable' | 'list' | 'search', label: string) => (
    <button type="button" class={`button icon quiet pane-${name}`} aria-label={label} title={label} aria-pressed={pane === name} onClick={() => shell.pane(name)}><Icon name={icon} /></button>
  )
  return (
    <Bar>
      <div class="title">
        <span class="ellipsis">{n.session.info.name || n.path.replace(/\.ipynb$/, '')}</span>
        {!n.readOnly && <span class={`save-state ${n.saved.value}`}>{saved}</span>}
      </div>
      {expiry(n.session.info) && <span class="muted wide expiry">{expiry(n.session.info)}</span>}
      {n.readOnly && <span class="badge">Watching</span>}
      <KernelChip notebook={n} shell={shell} />
      {!n.readOnly && <span class="split-button">
        <button type="button" class="button" aria-label="Run all" title="Run all" onClick={() => n.runAll()}><Icon name="play" /><span class="wide">Run all</span></button>
        <Menu label="More ways to run" class="button icon" button={<Icon name="more" />}>
          {() => <>{['run', 'run-above', 'run-below'].map(item)}<hr />{['restart', 'restart-run', 'clear-outputs'].map(item)}</>}
        </Menu>
      </span>}
      {/* It is no neighbour that moves under the pointer: a double click on Run all would stop it. */}
      {!n.readOnly && <StopButton notebook={n} />}
      {appView.value && <button type="button" class="button quiet" aria-label="Show code" title="Show code" onClick={shell.app}><Icon name="code" /><span class="wide">Show code</span></button>}
      <span class="grow" />
      {people}
      <nav class="row pane-buttons" aria-label="Panes">
        {toggle('files', 'folder', 'Files')}
        {!n.readOnly && toggle('variables', 'variable', 'Variables')}
        {toggle('outline', 'list', 'Outline')}
        {toggle('search', 'search', 'Search')}
        {dock.state.value.tabs.length > 0 && dock.state.value.hidden && <button type="button" class="button icon quiet" aria-label="Show files and terminals beside the notebook" title="Show files and terminals beside the notebook" onClick={() => dock.set({ hidden: false })}><Icon name="beside" /></button>}
        <a class="button icon quiet" href={terminalPath(n.session.id)} data-open aria-label="Terminal" title="Terminal"><Icon name="terminal" /></a>
      </nav>
      <Menu label="Notebook" button={<Icon name="menu" />}>
        {() => (
          <>
            <div class="narrow">{['files', 'variables', 'outline', 'search'].filter((id) => allowed(id, n)).map(item)}<a role="menuitem" href={terminalPath(n.session.id)} data-open>Terminal</a><hr /></div>
            {!n.readOnly && offers('POST /v1/sessions/{id}/links') && <MenuItem onClick={shell.share}>Share for viewing…</MenuItem>}
            {item('app')}{['save', 'versions', 'undo', 'redo', 'line-numbers'].filter((id) => allowed(id, n)).map(item)}<hr />
            {['import', 'export-ipynb', 'export-html', 'export-script', 'print'].filter((id) => allowed(id, n)).map(item)}<hr />
            <MenuItem onClick={shell.palette} keys={keysOf('palette')[0]!}>Command palette</MenuItem>{item('help')}
          </>
        )}
      </Menu>
    </Bar>
  )
}

/** Shows the state of the kernels in words. */
function KernelChip({ notebook: n, shell }: { notebook: Notebook; shell: Shell }) {
  const all = n.kernels.all.value
  const busy = all.filter((k) => k.state.value === 'busy')
  const starting = all.some((k) => k.state.value === 'starting')
  const dead = all.some((k) => k.state.value === 'dead')
  const word = n.ended.value !== undefined ? 'Ended' : dead ? 'Dead' : starting ? 'Starting' : busy.length ? 'Busy' : all.some((k) => k.state.value === 'idle') ? 'Ready' : 'Not started'
  return (
    <Menu label={`Kernels: ${word}`} class={`button quiet chip ${word.toLowerCase().replace(' ', '-')}`} button={<><i class="dot" /><span class="wide">{word}</span></>}>
      {() => (
        <>
          {all.map((k) => (
            <MenuItem key={k.language} disabled={n.readOnly} onClick={() => void restart(n, k.language)}>
              <i class="dot" style={{ background: facts(k.language).colour }} />{languageName(k.language)}: {k.state.value}{!n.readOnly && <span class="muted">Restart…</span>}
            </MenuItem>
          ))}
          {all.length > 0 && <hr />}
          {!n.readOnly && <MenuItem onClick={() => commands.interrupt!.run(n, shell)} keys="I I" disabled={busy.length === 0}>Interrupt</MenuItem>}
          <Usage notebook={n} />
        </>
      )}
    </Menu>
  )
}

/** Shows the resource use of the session at the time the menu opens. */
function Usage({ notebook: n }: { notebook: Notebook }) {
  const [used, setUsed] = useState<Sandbox['info']['usage']>()
  useEffect(() => {
    let here = true
    n.session.refresh().then((i) => here && setUsed(i.usage), () => {}) // a session that is not running uses nothing
    return () => {
      here = false
    }
  }, [n])
  return used ? <p class="usage muted">{Math.round(used.memory_bytes / 1e6).toLocaleString('en')} MB of memory, {duration(used.cpu_ms)} of processor time</p> : null
}

/** Interrupts. If that has not helped within 3 s, it kills. */
function StopButton({ notebook: n }: { notebook: Notebook }) {
  const busy = n.kernels.busy.value
  const [asked, setAsked] = useState<'no' | 'asked' | 'force'>('no')
  useEffect(() => {
    if (!busy) setAsked('no')
  }, [busy])
  useEffect(() => {
    if (asked !== 'asked') return
    const t = setTimeout(() => setAsked('force'), 3000)
    return () => clearTimeout(t)
  }, [asked])
  if (!busy) return null
  const words = { no: 'Stop', asked: 'Stopping…', force: 'Force stop' }[asked]
  return (
    <button type="button" class={asked === 'force' ? 'button danger stop' : 'button stop'} aria-label={words} title={words} onClick={() => {
      if (asked === 'force') void n.interrupt(1)
      else {
        setAsked('asked')
        void n.interrupt()
      }
    }}><Icon name="stop" /><span class="wide">{words}</span></button>
  )
}

function AddBar({ notebook: n }: { notebook: Notebook }) {
  const add = (type: 'code' | 'markdown', language?: string) => {
    n.insert(n.cells.peek().length, { cell_type: type }, language)
    n.mode.value = 'edit'
    n.focus()
  }
  return (
    <div class="add-bar">
      <button type="button" class="button quiet" onClick={() => add('code')}><Icon name="add" />Code</button>
      <button type="button" class="button quiet" onClick={() => add('markdown')}><Icon name="add" />Text</button>
      <Menu label="Other language" class="button quiet" button={<><Icon name="add" />Other language</>}>
        {() => languages.value.map((l) => <MenuItem key={l.name} onClick={() => add('code', l.name)}><i class="dot" style={{ background: facts(l.name).colour }} />{l.display_name}</MenuItem>)}
      </Menu>
    </div>
  )
}

function Welcome({ notebook: n }: { notebook: Notebook }) {
  return (
    <div class="welcome">
      <h1>{n.session.info.name || 'A new notebook'}</h1>
      <p class="muted">Write code and press <kbd>Shift</kbd> <kbd>Enter</kbd>. Cells of all languages share one machine and its files. Everything stays when you close this page, and your code keeps running. <kbd>Esc</kbd> <kbd>H</kbd> shows all keys.</p>
    </div>
  )
}
