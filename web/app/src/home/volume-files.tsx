import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { FileInfo, Sandbox } from '@sandgate/client/base'
import { downloadFolder } from '../files/archive'
import { t } from '../language/texts'
import { save } from '../notebook/rich'
import { filesPath, rest } from '../rest'
import { client, may } from '../server'
import { explain } from '../ui/again'
import { bytes } from '../ui/bytes'
import { confirm, Dialog } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed } from '../ui/toast'

interface Listing {
  entries: (FileInfo & { raw?: string })[]
  next?: string
}

interface ViewProps {
  session: Sandbox
  path: string
  readOnly: boolean
  onClose: () => void
  written: () => void
}

/** The session that a volume is read through, and the folder of the volume in it. */
interface Through {
  session: Sandbox
  root: string
  readOnly: boolean
}

/** Returns a session that has the volume, if possible a running session that can write to it. */
async function sessionWith(volume: string): Promise<Through | undefined> {
  const all = await client.peek()!.sessions()
  const some = all.flatMap((session) => {
    const mount = session.info.volumes?.find((v) => v.name === volume)
    return mount && session.info.state !== 'lost' ? [{ session, root: `/volumes/${volume}`, readOnly: mount.read_only === true || !may('sessions:write') }] : []
  })
  const order = (it: Through) => 2 * Number(it.readOnly) + Number(it.session.info.state !== 'running')
  return some.sort((a, b) => order(a) - order(b))[0]
}

/**
 * Shows the files of a volume. They are read through a session that has the volume. If there is none,
 * the user can start one.
 */
export function VolumeFiles({ name, onClose }: { name: string; onClose(): void }) {
  const [through, setThrough] = useState<Through>()
  const [found, setFound] = useState(false)
  const [error, setError] = useState<Error>()
  const find = () => sessionWith(name).then((it) => { setThrough(it); setFound(true) }, setError)
  useEffect(() => void find(), [name])
  const start = async () => {
    setFound(false)
    try {
      await client.peek()!.call('session.create', { language: 'bash', name: t('Files of {name}', { name }), volumes: [{ name }] })
      await find()
    } catch (e) {
      setError(e as Error)
    }
  }
  return (
    <Dialog label={t('Files of {name}', { name })} class="wide-dialog" onClose={onClose}>
      <div class="dialog volume-files">
        <h2>{t('Files of {name}', { name })}</h2>
        {error && <p class="bad" role="alert">{explain(error)}</p>}
        {!found && !error && <p class="muted" role="status">{t('Loading…')}</p>}
        {found && !through && (
          <>
            <p>{t('No session has this volume. Its files are read through a session.')}</p>
            {may('sessions:manage') && <div><button type="button" class="button primary" onClick={() => void start()}>{t('Start a session with it')}</button></div>}
          </>
        )}
        {through && <Folder {...through} />}
        <div class="actions"><button type="button" class="button" onClick={onClose}>{t('Close')}</button></div>
      </div>
    </Dialog>
  )
}

function Folder({ session: s, root, readOnly }: Through) {
  const [parts, setParts] = useState<string[]>([])
  const [list, setList] = useState<Listing>()
  const [error, setError] = useState<Error>()
  const [turn, setTurn] = useState(0)
  const [viewed, setViewed] = useState('')
  const [Viewer, setViewer] = useState<ComponentType<ViewProps>>()
  const folder = [root, ...parts].join('/')
  const again = () => setTurn((n) => n + 1)
  useEffect(() => {
    let here = true
    rest<Listing>('GET', `${filesPath(s.id, folder)}?list`).then((l) => here && (setList(l), setError(undefined)), (e: Error) => here && setError(e))
    return () => {
      here = false
    }
  }, [folder, turn])
  const more = () => rest<Listing>('GET', `${filesPath(s.id, folder)}?list&after=${encodeURIComponent(list!.next!)}`)
    .then((l) => setList({ ...l, entries: [...list!.entries, ...l.entries] }), (e: unknown) => failed(t('The rest of the folder was not read'), e))
  const view = (path: string) => {
    setViewed(path)
    void import('../notebook/file/viewer').then((m) => setViewer(() => m.FileViewer), (e: unknown) => failed(t('The file was not opened'), e))
  }
  const download = (path: string, name: string) => s.files.open(path).then(async (d) => save(new Blob([await d.bytes() as BlobPart]), name))
    .catch((e: unknown) => failed(t('The file was not read'), e))
  const remove = async (e: FileInfo, name: string) => {
    if (!await confirm({ title: t('Delete {name}?', { name }), text: e.dir ? t('All its files are deleted for all sessions with this volume.') : t('It is deleted for all sessions with this volume.'), yes: t('Delete'), danger: true })) return
    await rest('DELETE', `${filesPath(s.id, e.path)}${e.dir ? '?recursive=true' : ''}`).catch((x: unknown) => failed(t('It was not deleted'), x))
    again()
  }
  const upload = async (files: File[]) => {
    if (files.some((f) => list?.entries.some((e) => e.path.split('/').pop() === f.name))
      && !await confirm({ title: t('Replace files?'), text: t('Files with these names exist.'), yes: t('Replace'), danger: true })) return
    for (const f of files) await s.files.write(`${folder}/${f.name}`, f).catch((e: unknown) => failed(f.name, e))
    again()
  }
  const entries = [...(list?.entries ?? [])].sort((a, b) => Number(b.dir) - Number(a.dir))
  return (
    <>
      <div class="row">
        <nav class="grow crumbs" aria-label={t('Folder of the volume')}>
          <button type="button" class="button quiet" aria-current={parts.length === 0 ? 'page' : undefined} onClick={() => setParts([])}>{root}</button>
          {parts.map((p, i) => <button key={i} type="button" class="button quiet" aria-current={i === parts.length - 1 ? 'page' : undefined} onClick={() => setParts(parts.slice(0, i + 1))}>/ {p}</button>)}
        </nav>
        {!readOnly && <label class="button upload-here"><Icon name="upload" />{t('Upload')}<input type="file" class="sr" multiple onChange={(e) => {
          const chosen = [...(e.currentTarget.files ?? [])]
          e.currentTarget.value = ''
          void upload(chosen)
        }} /></label>}
        <button type="button" class="button icon quiet" aria-label={t('Download this folder')} title={t('Download this folder')} onClick={() => void downloadFolder(s.id, folder)}><Icon name="download" /></button>
      </div>
      {viewed && Viewer && <Viewer key={viewed} session={s} path={viewed} readOnly={readOnly} onClose={() => setViewed('')} written={again} />}
      {error && <p class="bad" role="alert">{explain(error)}</p>}
      {list && entries.length === 0 && <p class="muted">{t('This folder is empty.')}</p>}
      <ul class="sessions volume-list" aria-label={t('Files')}>
        {entries.map((e) => {
          const name = e.path.split('/').pop()!
          return (
            <li key={e.path} class="row">
              <button type="button" class="button quiet entry" disabled={!!e.raw} onClick={() => (e.dir ? setParts([...parts, name]) : view(e.path))}><Icon name={e.dir ? 'folder' : 'file'} /><span class="ellipsis">{name}</span></button>
              {!e.dir && <span class="muted num">{bytes(e.size)}</span>}
              {!e.raw && (
                <Menu label={t('More for {name}', { name })} button={<Icon name="more" />}>
                  {() => (
                    <>
                      <MenuItem onClick={() => void (e.dir ? downloadFolder(s.id, e.path) : download(e.path, name))}><Icon name="download" />{t('Download')}</MenuItem>
                      {!readOnly && <MenuItem danger onClick={() => void remove(e, name)}><Icon name="trash" />{t('Delete…')}</MenuItem>}
                    </>
                  )}
                </Menu>
              )}
            </li>
          )
        })}
      </ul>
      {list?.next && <button type="button" class="button" onClick={() => void more()}>{t('Show more')}</button>}
      <p class="muted hint-line">{t('Read through the session “{name}”.', { name: s.info.name || s.id.slice(0, 10) })}</p>
    </>
  )
}
