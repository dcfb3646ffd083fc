import { useSignalEffect } from '@preact/signals'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Presence, SandgateError } from '@sandgate/client/base'
import type { PageProps } from '../app'
import { t } from '../language/texts'
import { navigate, notebookPath, route, terminalPath } from '../router'
import { offers } from '../rest'
import { client, languageName, may } from '../server'
import { viewing } from '../token'
import { Bar } from '../ui/bar'
import { expiry } from '../ui/expiry'
import { Icon, type IconName } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { useEntries, type Entry } from '../ui/palette'
import { usePresence } from '../ui/presence'
import { given, renameSession } from '../ui/rename'
import { failed } from '../ui/toast'
import { appView, queryOf } from './appview'
import { Cells, useCare, useGone } from './cells'
import { allowed, commands } from './commands'
import { Desk } from './desk'
import { bringsFiles, dropped } from './drop'
import { keysOf } from './keys'
import { Notebook } from './notebook'
import { rememberPane } from './panes'
import type { PaneName } from './pane'
import { useNotebookKeys } from './presses'
import { CommandItem, Everybody, RunControls, SaveState } from './toolbar'
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
    const early: KeyboardEvent[] = [] // what is typed while the notebook opens
    const press = (e: KeyboardEvent) => { if (e.target === document.body && early.length < 200) early.push(e) }
    addEventListener('keydown', press)
    setNotebook(undefined)
    setError(undefined)
    void (async () => {
      try {
        const s = await patiently(() => client.peek()!.getSandbox(session), () => gone)
        if (gone) return
        n = new Notebook(s, path, !may('sessions:write'))
        setNotebook(n)
        await n.open()
        removeEventListener('keydown', press)
        if (n.fresh) for (const e of early) n.typeAhead(e)
      } catch (e) {
        if (!gone) setError(e as SandgateError)
      }
    })()
    return () => {
      gone = true
      removeEventListener('keydown', press)
      n?.close()
    }
  }, [session, path])
  const problem = error ?? notebook?.problem.value
  const gone = useGone(problem !== undefined)
  if (problem && gone) return <gone.Broken problem={problem} path={path} session={session} />
  if (problem || !notebook?.ready.value) {
    return <><Bar><span class="grow muted">{t('Opening…')}</span></Bar><main class="centred" aria-busy="true"><Icon name="spinner" spin /></main></>
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

/** Loads a part of the page when it is first wanted. */
function useLoaded<T>(wanted: unknown, load: () => Promise<T>): T | undefined {
  const [loaded, setLoaded] = useState<{ part: T }>()
  useEffect(() => {
    if (wanted && !loaded) void load().then((part) => setLoaded({ part }), (e: unknown) => failed(t('This part of the page could not be loaded'), e))
  }, [!!wanted])
  return loaded?.part
}

const touch = matchMedia('(pointer: coarse)')

/** The commands that are only for the page's own notebook. */
const ofPage: ReadonlySet<string> = new Set(['import', 'print', 'app'])

/** The page's own notebook, its panes, and what is shown beside it. */
function Workspace({ notebook: n }: { notebook: Notebook }) {
  const desk = useMemo(() => new Desk(n), [n])
  const { main, current } = desk
  const { helping, sharing, file, pane } = { helping: desk.helping.value, sharing: desk.sharing.value, file: desk.file.value, pane: desk.pane.value }
  const side = desk.dock.value
  const gone = useGone(n.ended.value !== undefined)
  const News = n.news.value?.View
  const Pane = useLoaded(pane, () => import('./pane').then((m) => m.Pane))
  const Help = useLoaded(helping, () => import('./help').then((m) => m.Help))
  const FileView = useLoaded(file, () => import('../terminal/file').then((m) => m.FileView))
  const ShareView = useLoaded(sharing, () => import('../ui/share').then((m) => m.Share))
  const writing = touch.matches && !current.value.notebook.readOnly && current.value.notebook.mode.value === 'edit'
  const sending = desk.sending.value
  const Send = useLoaded(sending, () => import('./send').then((m) => m.Send))
  const CodeBar = useLoaded(writing, () => import('./codebar').then((m) => m.CodeBar))
  const opener = useRef<HTMLInputElement>(null)
  desk.choose = () => opener.current?.click()
  const presence = usePresence(n.session, n.readOnly, (p) => desk.notebooks.forEach((x) => x.kernels.catchUp(Object.keys(p.channels ?? {}))))

  useEntries(() => entriesOf(desk), [desk, current.value])
  useNotebookKeys(desk)
  useCare(n)
  useSignalEffect(() => {
    const { value } = desk.pane
    if (!value || value.view === main) rememberPane(n, value?.name)
  })
  useSignalEffect(() => {
    const name = given.value[n.session.id] || n.session.info.name || n.path.replace(/\.ipynb$/, '')
    document.title = t('{name} – Sandgate', { name: n.kernels.busy.value ? `● ${name}` : name })
  })
  useEffect(() => () => void (document.title = 'Sandgate'), [])
  useEffect(() => {
    // The browser would open the file instead of the notebook, and the editor would insert its text.
    const take = (e: DragEvent) => {
      if (!bringsFiles(e) || (e.target as Element).closest?.('.files, .pane')) return
      e.preventDefault()
      e.stopPropagation()
      if (e.type !== 'drop' || n.readOnly) return
      void dropped(e).then((files) => {
        n.incoming.value = files
        desk.pane.value = { name: 'files', view: main }
      }, (error: unknown) => failed(t('The files were not read'), error))
    }
    for (const type of ['dragover', 'drop'] as const) addEventListener(type, take, true)
    return () => {
      for (const type of ['dragover', 'drop'] as const) removeEventListener(type, take, true)
    }
  }, [desk])

  return (
    <>
      <Toolbar desk={desk} presence={presence} />
      {gone && <gone.Ended notebook={n} />}
      {News && <News of={n.news} />}
      <div class={`workspace${pane ? ' with-pane' : ''}${appView.value ? ' app-view' : ''}`}>
        <Cells view={main} current={current} main />
        {side && <side.View desk={desk} dock={side.dock} />}
        {pane && Pane && <Pane desk={desk} {...pane} />}
      </div>
      {sharing && ShareView && <ShareView session={n.session} views={[{ label: t('The notebook'), at: queryOf(n.path) }, { label: t('An app: text and output, with the code hidden'), at: queryOf(n.path, true) }]} onClose={() => (desk.sharing.value = false)} />}
      {file && FileView && <FileView session={n.session} {...file} onClose={() => (desk.file.value = undefined)} />}
      {sending && Send && <Send desk={desk} {...sending} onClose={() => (desk.sending.value = undefined)} />}
      {writing && CodeBar && <CodeBar view={current.value} />}
      {helping && Help && <Help notebook={current.value.notebook} close={() => (desk.helping.value = false)} />}
      <input ref={opener} type="file" accept=".ipynb,application/x-ipynb+json,application/json" hidden onChange={async (e) => {
        const chosen = e.currentTarget.files?.[0]
        e.currentTarget.value = ''
        if (!chosen) return
        try {
          const { importNotebook } = await import('./import')
          navigate(notebookPath(n.session.id) + queryOf(await importNotebook(n.session, chosen)))
        } catch (error) {
          failed(chosen.name, error)
        }
      }} />
      <div class="sr" role="status" aria-live="polite">{n.said.value}</div>
    </>
  )
}

/** The commands for the palette: those of the notebook that was used last, and those of tabs. */
function entriesOf(desk: Desk): Entry[] {
  const view = desk.current.peek()
  const { notebook: n, shell } = view
  const entry = (id: string, name: string, words: string, run: () => void): Entry => ({ id, kind: 'Command', name, words, run })
  return [
    ...Object.entries(commands()).filter(([id, c]) => !c.hidden && allowed(id, n) && (view === desk.main || !ofPage.has(id))).map(([id, c]) => ({
      ...entry(id, c.name, c.words ?? '', () => c.run(n, shell)), ...(keysOf(id)[0] ? { keys: keysOf(id)[0]! } : {}),
    })),
    ...(n.readOnly ? [] : [
      entry('notebook-beside', t('New notebook beside this one…'), t('create file tab'), () => desk.beside((m) => m.makeNotebook(desk))),
      entry('preview-beside', t('Preview a port beside the notebook…'), t('server web page tab'), () => desk.beside((m) => m.openPreview(desk))),
    ]),
    ...(!desk.dock.peek()?.dock.tabs.length ? [] : [
      entry('tab-enter', t('Go to the tabs beside the notebook'), t('focus pane'), () => desk.beside((m, dock) => m.enterTabs(dock))),
      entry('tab-next', t('Move the tab to the next group'), t('split arrange pane'), () => desk.beside((m, dock) => m.moveTab(dock, 1))),
      entry('tab-previous', t('Move the tab to the previous group'), t('split arrange pane'), () => desk.beside((m, dock) => m.moveTab(dock, -1))),
    ]),
  ]
}

/** The name of the session, and that of the notebook with a menu of the others. */
function Place({ desk }: { desk: Desk }) {
  const n = desk.main.notebook
  const name = given.value[n.session.id] ?? n.session.info.name ?? ''
  const Notebooks = useLoaded(!viewing.value, () => import('./place').then((m) => m.Notebooks))
  const shown = name || t('{language} session', { language: languageName(n.session.info.language) })
  return (
    <div class="title">
      {!viewing.value && (n.readOnly ? <span class="wide ellipsis">{shown}</span> : <button type="button" class="button quiet wide" title={t('Rename the session')} onClick={() => void renameSession(n.session.id, name, shown)}><span class="ellipsis">{shown}</span></button>)}
      {!viewing.value && <span class="wide muted" aria-hidden="true">/</span>}
      {viewing.value ? <span class="ellipsis">{n.path.replace(/\.ipynb$/, '')}</span> : (
        <Menu label={t('Notebook {name}', { name: n.path })} class="button quiet" button={<span class="ellipsis">{n.path.replace(/\.ipynb$/, '')}</span>}>
          {() => Notebooks && <Notebooks desk={desk} />}
        </Menu>
      )}
      {!n.readOnly && <SaveState notebook={n} />}
    </div>
  )
}

function Toolbar({ desk, presence }: { desk: Desk; presence: Presence | undefined }) {
  const view = desk.main
  const { notebook: n, shell } = view
  const item = (id: string) => <CommandItem key={id} view={view} id={id} />
  const open = desk.pane.value
  const toggle = (name: PaneName, icon: IconName, label: string) => (
    <button type="button" class={`button icon quiet pane-${name}`} aria-label={label} title={label} aria-pressed={open?.name === name && open.view === view} onClick={() => shell.pane(name)}><Icon name={icon} /></button>
  )
  const dock = desk.dock.value?.dock
  const hidden = dock && dock.state.value.groups.length > 0 && dock.state.value.hidden
  return (
    <Bar>
      <Place desk={desk} />
      {expiry(n.session.info) && <span class="muted wide expiry">{expiry(n.session.info)}</span>}
      {n.readOnly && <span class="badge">{t('Watching')}</span>}
      <RunControls view={view} shared={desk.others.value.length > 0} />
      {appView.value && <button type="button" class="button quiet" aria-label={t('Show code')} title={t('Show code')} onClick={shell.app}><Icon name="code" /><span class="wide">{t('Show code')}</span></button>}
      <span class="grow" />
      <Everybody notebook={n} presence={presence} />
      <nav class="row pane-buttons" aria-label={t('Panes')}>
        {toggle('files', 'folder', t('Files'))}
        {!n.readOnly && toggle('variables', 'variable', t('Variables'))}
        {toggle('outline', 'list', t('Outline'))}
        {toggle('search', 'search', t('Search'))}
        {hidden && <button type="button" class="button icon quiet" aria-label={t('Show the tabs beside the notebook')} title={t('Show the tabs beside the notebook')} onClick={() => dock.set({ hidden: false })}><Icon name="beside" /></button>}
        <a class="button icon quiet" href={terminalPath(n.session.id)} data-open aria-label={t('Terminal')} title={t('Terminal')}><Icon name="terminal" /></a>
      </nav>
      <Menu label={t('Notebook')} button={<Icon name="menu" />}>
        {() => (
          <>
            <div class="narrow">
              {['files', 'variables', 'outline', 'search'].filter((id) => allowed(id, n)).map(item)}
              {hidden && <MenuItem onClick={() => dock.set({ hidden: false })}>{t('Show the tabs beside the notebook')}</MenuItem>}
              <a role="menuitem" href={terminalPath(n.session.id)} data-open>{t('Terminal')}</a><hr />
            </div>
            {!n.readOnly && offers('POST /v1/sessions/{id}/links') && <MenuItem onClick={shell.share}>{t('Share for viewing…')}</MenuItem>}
            {item('app')}{['save', 'versions', 'undo', 'redo', 'line-numbers'].filter((id) => allowed(id, n)).map(item)}<hr />
            {['import', 'duplicate', 'export-ipynb', 'export-html', 'export-script', 'print'].filter((id) => allowed(id, n)).map(item)}<hr />
            <MenuItem onClick={shell.palette} keys={keysOf('palette')[0]!}>{t('Command palette')}</MenuItem>{item('help')}
          </>
        )}
      </Menu>
    </Bar>
  )
}
