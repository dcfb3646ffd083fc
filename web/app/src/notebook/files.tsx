import { useEffect, useRef, useState } from 'preact/hooks'
import type { FileInfo, SandgateError } from '@sandgate/client/base'
import { downloadFolder } from '../files/archive'
import { inFolder, questionFor } from '../files/chosen'
import { t } from '../language/texts'
import { filesPath, offers, rest } from '../rest'
import { navigate, notebookPath } from '../router'
import { ask, confirm } from '../ui/dialog'
import { bytes } from '../ui/bytes'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed } from '../ui/toast'
import { bringsFiles, dropped, type Dropped } from './drop'
import type { PaneProps } from './pane'
import { save } from './rich'

interface Upload {
  id: number
  name: string
  sent: number
  total: number
  stop: AbortController
}

interface Listing {
  path: string
  entries: (FileInfo & { raw?: string })[]
  next?: string
}

/** The maximum number of concurrent uploads. */
const parallel = 3

/** Shows the session's files: one folder at a time, uploads with progress, drag and drop. */
export function Files({ notebook: n, shell }: PaneProps) {
  const s = n.session
  const listing = offers('POST /v1/sessions/{id}/files/{path}')
  const [folder, setFolder] = useState('')
  const [list, setList] = useState<Listing | undefined>()
  const home = useRef('') // the base of relative paths
  const [error, setError] = useState<SandgateError | undefined>()
  const [uploads, setUploads] = useState<Upload[]>([])
  const [over, setOver] = useState(false)
  const [turn, setTurn] = useState(0)
  const [viewed, setViewed] = useState<{ path: string; fresh?: boolean }>()
  const [Viewer, setViewer] = useState<typeof import('./file/viewer').FileViewer>()
  const chooser = useRef<HTMLInputElement>(null)
  const folderChooser = useRef<HTMLInputElement>(null)
  const again = () => setTurn((n) => n + 1)
  const short = (path: string) => (path.startsWith(`${home.current}/`) ? path.slice(home.current.length + 1) : path)
  const within = (name: string) => (folder ? `${folder.replace(/\/$/, '')}/${name}` : name)

  const ended = n.turns.value // because cells write files
  const kept = n.saved.value === 'saved' // because saving the notebook writes a file
  useEffect(() => {
    if (!listing) return
    let here = true
    rest<Listing>('GET', `${filesPath(s.id, folder)}?list`).then((l) => {
      if (!here) return
      if (folder === '') home.current = l.path
      setList(l)
      setError(undefined)
    }, (e: SandgateError) => here && setError(e))
    return () => {
      here = false
    }
  }, [folder, turn, ended, kept, listing])

  const more = async () => {
    if (!list?.next) return
    try {
      const l = await rest<Listing>('GET', `${filesPath(s.id, folder)}?list&after=${encodeURIComponent(list.next)}`)
      setList({ ...l, entries: [...list.entries, ...l.entries] })
    } catch (e) {
      failed(t('The rest of the folder was not read'), e)
    }
  }

  const send = async (files: Dropped[]) => {
    let entries = list?.entries
    try {
      // Files can be chosen before the folder is there.
      entries ??= listing ? (await rest<Listing>('GET', `${filesPath(s.id, folder)}?list`)).entries : []
    } catch (e) {
      return failed(t('The files were not uploaded'), e)
    }
    const taken = entries.map((e) => e.path.split('/').pop()!)
    const question = questionFor(files, new Set(taken))
    if (question && !await confirm({ ...question, danger: true })) return
    const waiting = [...files]
    const one = async () => {
      for (let f = waiting.shift(); f; f = waiting.shift()) {
        const { name, file } = f
        const u: Upload = { id: Math.random(), name, sent: 0, total: file.size, stop: new AbortController() }
        setUploads((all) => [...all, u])
        try {
          await s.files.write(within(name), file, { signal: u.stop.signal, onProgress: (sent) => setUploads((all) => all.map((x) => (x.id === u.id ? { ...x, sent } : x))) })
        } catch (e) {
          if ((e as SandgateError).kind !== 'canceled') failed(name, e)
        }
        setUploads((all) => all.filter((x) => x.id !== u.id))
        again()
      }
    }
    await Promise.all(Array.from({ length: parallel }, one))
  }
  const drop = async (e: DragEvent) => {
    setOver(false)
    void send(await dropped(e))
  }
  const incoming = n.incoming.value
  useEffect(() => {
    if (!incoming || !list) return
    n.incoming.value = undefined
    void send(incoming)
  }, [incoming, list])
  const view = (file: { path: string; fresh?: boolean }) => {
    setViewed(file)
    void import('./file/viewer').then((m) => setViewer(() => m.FileViewer), (e: unknown) => failed(t('The file was not opened'), e))
  }
  const create = async () => {
    const name = (await ask({ title: t('New file'), text: t('A name that ends with .ipynb makes a notebook.'), value: '', placeholder: t('Name'), yes: t('Create') }))?.trim()
    if (!name) return
    if (list?.entries.some((e) => e.path.split('/').pop() === name)) return failed(t('The file was not created'), new Error(t('There is already a file {name}', { name })))
    if (name.endsWith('.ipynb')) navigate(`${notebookPath(s.id)}?file=${encodeURIComponent(within(name))}`)
    else view({ path: within(name), fresh: true })
  }
  const createNotebook = async () => {
    const path = await import('./dock/open').then((m) => m.newNotebook(s, within('')), (e: unknown) => failed(t('This part of the page could not be loaded'), e))
    if (!path) return
    again()
    shell.beside(path)
  }
  const download = async (e: FileInfo) => {
    try {
      const d = await s.files.open(e.path)
      save(new Blob([await d.bytes() as BlobPart]), e.path.split('/').pop()!)
    } catch (error) {
      failed(t('The file was not read'), error)
    }
  }
  const change = (what: string, f: () => Promise<unknown>) => void f().then(again, (e: unknown) => failed(what, e))
  const parts = folder.split('/').filter(Boolean)
  const files = (list?.entries ?? []).filter((e) => !e.path.split('/').pop()!.startsWith('.')).sort((a, b) => Number(b.dir) - Number(a.dir))

  return (
    <div class={over ? 'files over' : 'files'}
      onDragOver={(e) => { if (!n.readOnly && bringsFiles(e)) { e.preventDefault(); setOver(true) } }}
      onDragLeave={(e) => { if (!e.currentTarget.contains(e.relatedTarget as Node | null)) setOver(false) }}
      onDrop={(e) => { if (!n.readOnly && bringsFiles(e)) { e.preventDefault(); void drop(e) } }}>
      <div class="row">
        {!n.readOnly && <button type="button" class="button" onClick={() => chooser.current?.click()}><Icon name="upload" />{t('Upload')}</button>}
        {!n.readOnly && <button type="button" class="button" onClick={() => void create()}><Icon name="file" />{t('New file')}</button>}
        {!n.readOnly && <button type="button" class="button" onClick={() => void createNotebook()}><Icon name="notebook" />{t('New notebook')}</button>}
        {listing && !n.readOnly && <button type="button" class="button" onClick={async () => {
          const name = await ask({ title: t('New folder'), value: '', placeholder: t('Name'), yes: t('Create') })
          if (name) change(t('The folder was not created'), () => rest('POST', filesPath(s.id, within(name)), { op: 'mkdir' }))
        }}><Icon name="folder" />{t('New folder')}</button>}
        <span class="grow" />
        {listing && <button type="button" class="button icon quiet" aria-label={t('Refresh')} title={t('Refresh')} onClick={again}><Icon name="restart" /></button>}
        {listing && <Menu label={t('More for this folder')} button={<Icon name="more" />}>
          {() => (
            <>
              {!n.readOnly && <MenuItem onClick={() => {
                const input = folderChooser.current!
                input.webkitdirectory = true
                input.click()
              }}><Icon name="upload" />{t('Upload a folder…')}</MenuItem>}
              <MenuItem onClick={() => void downloadFolder(s.id, folder)}><Icon name="download" />{t('Download this folder')}</MenuItem>
            </>
          )}
        </Menu>}
        <input ref={folderChooser} type="file" hidden aria-hidden="true" onChange={(e) => {
          const chosen = inFolder(e.currentTarget.files ?? [])
          e.currentTarget.value = ''
          void send(chosen)
        }} />
        <input ref={chooser} type="file" multiple hidden aria-hidden="true" onChange={(e) => {
          const chosen = [...(e.currentTarget.files ?? [])]
          e.currentTarget.value = ''
          void send(chosen.map((file) => ({ name: file.name, file })))
        }} />
      </div>
      {viewed && Viewer && <Viewer key={viewed.path} session={s} {...viewed} readOnly={n.readOnly} onClose={() => setViewed(undefined)} written={again} beside={() => shell.beside(viewed.path)} />}
      {uploads.map((u) => (
        <div class="upload" key={u.id}>
          <span class="ellipsis">{u.name}</span>
          <progress max={u.total || 1} value={u.sent} aria-label={t('Upload of {name}', { name: u.name })} />
          <button type="button" class="button icon quiet" aria-label={t('Stop the upload of {name}', { name: u.name })} onClick={() => u.stop.abort()}><Icon name="close" /></button>
        </div>
      ))}
      {parts.length > 0 && (
        <nav class="crumbs" aria-label={t('Folder')}>
          <button type="button" onClick={() => setFolder('')}>{t('Home|the folder')}</button>
          {parts.map((p, i) => <span key={i}> / <button type="button" aria-current={i === parts.length - 1 ? 'page' : undefined} onClick={() => setFolder(parts.slice(0, i + 1).join('/'))}>{p}</button></span>)}
        </nav>
      )}
      {error && <p class="bad">{error.message}</p>}
      {(!listing || (list && files.length === 0)) && uploads.length === 0 && <p class="muted empty">{n.readOnly ? t('There are no files here.') : t('Drop files here to upload them. Every cell can read them.')}</p>}
      {listing && (
        <ul class="file-list">
          {files.map((e) => {
            const name = e.path.split('/').pop()!
            return (
              <li key={e.path} class="row">
                <button type="button" class="file-name" disabled={!!e.raw} onClick={() => e.dir ? setFolder(short(e.path)) : name.endsWith('.ipynb') ? navigate(`${notebookPath(s.id)}?file=${encodeURIComponent(short(e.path))}`) : view({ path: e.path })}
                  title={e.dir ? t('Open the folder') : name.endsWith('.ipynb') ? t('Open the notebook') : t('Open the file')}>
                  <Icon name={e.dir ? 'folder' : name.endsWith('.ipynb') ? 'notebook' : 'file'} /><span class="ellipsis">{name}</span>
                </button>
                {!e.dir && <span class="muted num size">{bytes(e.size)}</span>}
                {!e.raw && <Menu label={t('More for {name}', { name })} button={<Icon name="more" />}>
                  {() => (
                    <>
                      {!e.dir && short(e.path) !== n.path && <MenuItem onClick={() => shell.beside(name.endsWith('.ipynb') ? short(e.path) : e.path)}>{t('Show beside the notebook')}</MenuItem>}
                      {!n.readOnly && !e.dir && name.endsWith('.ipynb') && <MenuItem onClick={() => change(t('The notebook was not copied'), async () => (await import('./import')).duplicate(s, short(e.path)))}>{t('Duplicate')}</MenuItem>}
                      <MenuItem onClick={() => void (e.dir ? downloadFolder(s.id, e.path) : download(e))}>{t('Download')}</MenuItem>
                      {!n.readOnly && <MenuItem onClick={async () => {
                        const to = await ask({ title: t('Rename or move'), value: short(e.path), yes: t('Move') })
                        if (to && to !== short(e.path) && short(e.path) === n.path) await import('./place').then((m) => m.moveNotebook(n, to))
                        else if (to && to !== short(e.path)) change(t('The file was not moved'), () => rest('POST', filesPath(s.id, e.path), { op: 'move', to }))
                      }}>{t('Rename…')}</MenuItem>}
                      {!n.readOnly && <MenuItem danger onClick={async () => {
                        if (await confirm({ title: t('Delete {name}?', { name }), text: e.dir ? t('All its files are deleted.') : undefined, yes: t('Delete'), danger: true })) {
                          change(t('It was not deleted'), () => rest('DELETE', `${filesPath(s.id, e.path)}${e.dir ? '?recursive=true' : ''}`))
                        }
                      }}>{t('Delete…')}</MenuItem>}
                    </>
                  )}
                </Menu>}
              </li>
            )
          })}
          {list?.next && <li><button type="button" class="button quiet" onClick={() => void more()}>{t('Show more')}</button></li>}
        </ul>
      )}
    </div>
  )
}
