import type { ComponentChildren } from 'preact'
import type { Sandbox, SandgateError } from '@sandgate/client/base'
import { useEffect, useRef, useState } from 'preact/hooks'
import { t } from '../../language/texts'
import { editorKeys } from '../../settings'
import { explain } from '../../ui/again'
import { bytes } from '../../ui/bytes'
import { confirm, Dialog } from '../../ui/dialog'
import { Icon } from '../../ui/icon'
import { failed } from '../../ui/toast'
import type { Editor } from '../editor'
import { save as download } from '../rich'
import { kindOf, languageOfFile, separatorOf, textIn, typeOf } from './kinds'
import { FileTable } from './table'
import './file.css'

/** The bytes of a file that is shown, and of one that is edited. */
const maxShown = 50 << 20
const maxEdited = 2 << 20

interface Content {
  data: Uint8Array
  etag: string | null
  text: string | undefined
}

/** An open file: its content, and what the user has changed. */
export interface OpenFile {
  name: string
  path: string
  content: Content | undefined
  error: Error | undefined
  asText: boolean
  draft: string | undefined
  dirty: boolean
  editable: boolean
  saving: boolean
  /** Somebody else has changed the file meanwhile. */
  clash: boolean
  /** Grows when the content is read again. */
  turn: number
  showText(on: boolean): void
  edit(text: string): void
  save(): void
  overwrite(): void
  reload(): void
  /** Asks before changes are lost. */
  mayClose(): Promise<boolean>
}

interface Opening {
  session: Sandbox
  path: string
  readOnly: boolean
  /** The file was written. */
  written: () => void
  /** It is a file that does not exist yet. */
  fresh?: boolean
}

export function useFile({ session, path, readOnly, written, fresh = false }: Opening): OpenFile {
  const name = path.split('/').pop()!
  const [content, setContent] = useState<Content | undefined>(fresh ? { data: new Uint8Array(), etag: null, text: '' } : undefined)
  const [error, setError] = useState<Error>()
  const [asText, setAsText] = useState(fresh)
  const [draft, setDraft] = useState<string>()
  const [clash, setClash] = useState(false)
  const [saving, setSaving] = useState(false)
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    if (fresh && turn === 0) return
    const gone = new AbortController()
    session.files.open(path, { signal: gone.signal }).then(async (d) => {
      if (d.size !== undefined && d.size > maxShown) throw new Error(t('It has {size}; up to {most} are shown. Download it instead', { size: bytes(d.size), most: bytes(maxShown) }))
      const data = await d.bytes()
      setContent({ data, etag: d.etag ?? null, text: data.length > maxEdited && kindOf(name) !== 'table' ? undefined : textIn(data) })
      setDraft(undefined)
      setClash(false)
      setError(undefined)
    }).catch((e: Error) => gone.signal.aborted || setError(e))
    return () => gone.abort()
  }, [path, turn])
  const dirty = draft !== undefined && draft !== content?.text
  useEffect(() => {
    if (!dirty) return
    const ask = (e: BeforeUnloadEvent) => e.preventDefault()
    addEventListener('beforeunload', ask)
    return () => removeEventListener('beforeunload', ask)
  }, [dirty])
  const write = async (over: string | null | undefined) => {
    if (draft === undefined && !fresh) return
    setSaving(true)
    const text = draft ?? ''
    try {
      const { etag } = await session.files.write(path, text, over === undefined ? {} : { over })
      setContent({ data: new TextEncoder().encode(text), etag: etag ?? null, text })
      setClash(false)
      written()
    } catch (e) {
      if ((e as SandgateError).kind === 'conflict') setClash(true)
      else failed(t('The file was not saved'), e)
    }
    setSaving(false)
  }
  return {
    name, path, content, error, asText, draft, dirty, saving, clash, turn,
    editable: !readOnly && content?.text !== undefined && content.data.length <= maxEdited,
    showText: setAsText, edit: setDraft, save: () => void write(content!.etag), overwrite: () => void write(undefined), reload: () => setTurn((n) => n + 1),
    mayClose: async () => !dirty || confirm({ title: t('Discard the changes to {name}?', { name }), text: t('They are not saved.'), yes: t('Discard'), danger: true }),
  }
}

/**
 * Shows a file by its kind; text can be edited. leave moves the focus out of the editor. enter says
 * whether the editor gets the focus once it is loaded.
 */
export function FilePart({ file: f, leave, enter = () => true, children }: { file: OpenFile; leave: () => void; enter?: () => boolean; children: ComponentChildren }) {
  const kind = kindOf(f.name)
  const rich = kind === 'table' || kind === 'markdown' || kind === 'image'
  const unsaved = f.dirty || f.content?.etag === null
  return (
    <div class="file-frame" onKeyDown={(e) => {
      if (!(e.ctrlKey || e.metaKey) || e.key.toLowerCase() !== 's') return
      e.preventDefault()
      if (f.editable && f.dirty && !f.saving) f.save()
    }}>
      <header class="row">
        <h2 class="grow ellipsis" title={f.path}>{f.name}{f.dirty && <span class="muted"> {t('(changed)')}</span>}</h2>
        {rich && f.content?.text !== undefined && <button type="button" class="button" aria-pressed={f.asText} onClick={() => f.showText(!f.asText)}>{f.asText ? t('Preview|of a file') : t('Text')}</button>}
        {f.content && <button type="button" class="button icon quiet" aria-label={t('Download')} title={t('Download')} onClick={() => download(new Blob([f.content!.data as BlobPart]), f.name)}><Icon name="download" /></button>}
        {f.editable && (f.asText || kind === 'other' || f.dirty) && <button type="button" class="button primary" disabled={f.saving || !unsaved} onClick={f.save}>{f.saving ? t('Saving…') : t('Save')}</button>}
        {children}
      </header>
      {f.error && <p class="bad" role="alert">{t('The file cannot be shown.')} {explain(f.error)}</p>}
      {f.clash && <div class="row clash" role="alert"><p class="grow">{t('The file has changed since you opened it.')}</p>
        <button type="button" class="button" onClick={f.reload}>{t('Load it again')}</button>
        <button type="button" class="button danger" onClick={f.overwrite}>{t('Overwrite it')}</button></div>}
      {!f.content && !f.error && <p class="muted" role="status">{t('Loading…')}</p>}
      {f.content && <Body key={f.turn} name={f.name} content={f.content} text={f.draft ?? f.content.text} asText={f.asText || kind === 'other'} editable={f.editable} changed={f.edit} leave={leave} enter={enter} />}
    </div>
  )
}

/** Shows a file of the session in a dialog. beside shows it beside the notebook instead. */
export function FileViewer({ onClose, beside, ...opening }: Opening & { onClose: () => void; beside?: () => void }) {
  const f = useFile(opening)
  const [opened, setOpened] = useState(0) // a dialog that was closed with changes opens again
  const closer = useRef<HTMLButtonElement>(null)
  const close = async () => {
    if (await f.mayClose()) onClose()
    else setOpened((n) => n + 1)
  }
  return (
    <Dialog key={opened} label={f.name} class="file-view" onClose={() => void close()}>
      <FilePart file={f} leave={() => closer.current?.focus()}>
        {beside && !f.dirty && <button type="button" class="button icon quiet" aria-label={t('Show beside the notebook')} title={t('Show beside the notebook')} onClick={() => { beside(); onClose() }}><Icon name="beside" /></button>}
        <button ref={closer} type="button" class="button" onClick={(e) => e.currentTarget.closest('dialog')!.close()}>{t('Close')}</button>
      </FilePart>
    </Dialog>
  )
}

interface BodyProps {
  name: string
  content: Content
  /** As it was edited. */
  text: string | undefined
  asText: boolean
  editable: boolean
  changed: (text: string) => void
  leave: () => void
  enter: () => boolean
}

function Body({ name, content, text, asText, editable, changed, leave, enter }: BodyProps) {
  const kind = kindOf(name)
  if (asText && text !== undefined) return <TextEditor name={name} text={text} editable={editable} changed={changed} leave={leave} enter={enter} />
  if (kind === 'table' && text !== undefined) return <FileTable text={text} separator={separatorOf(name)} />
  if (kind === 'markdown' && text !== undefined) return <Page text={text} />
  if (kind === 'pdf') return <Pages name={name} data={content.data} />
  if (kind === 'image' || kind === 'audio' || kind === 'video') return <Media name={name} kind={kind} data={content.data} />
  return <p class="muted">{t('This is no text that can be shown. It has {size}. Download it to open it on your computer.', { size: bytes(content.data.length) })}</p>
}

function TextEditor({ name, text, editable, changed, leave, enter }: Omit<BodyProps, 'content' | 'asText'> & { text: string }) {
  const at = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let editor: Editor | undefined
    let gone = false
    void import('../editor').then(({ Editor }) => {
      if (gone || !at.current) return
      const none = async () => undefined
      editor = new Editor(at.current, text, t('Text of {name}', { name }), { changed, leave: () => {}, escape: leave, focused: () => {}, complete: none, inspect: none, signature: none }, !editable)
      editor.setNumbers(true)
      editor.setFolds(true)
      void editor.setKeys(editorKeys.peek())
      void editor.setLanguage(languageOfFile(name))
      if (enter()) editor.focus('start')
    })
    return () => {
      gone = true
      editor?.destroy()
    }
  }, [])
  return <div class="file-editor" ref={at} />
}

function Page({ text }: { text: string }) {
  const at = useRef<HTMLDivElement>(null)
  useEffect(() => void import('../markdown').then(({ markdown }) => at.current?.replaceChildren(markdown(text))), [text])
  return <div class="file-page" ref={at} role="region" aria-label={t('Page')} tabIndex={0} />
}

/** Shows a PDF in the frame of untrusted output: a file of a program is not parsed in this page. */
function Pages({ name, data }: { name: string; data: Uint8Array }) {
  const at = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let stop = () => {}
    let gone = false
    void import('../frame').then(({ frameFor }) => {
      if (gone) return
      const { el, dispose } = frameFor({ kind: 'pdf', name, data })
      stop = dispose
      at.current?.replaceChildren(el)
    })
    return () => {
      gone = true
      stop()
    }
  }, [data])
  return <div class="file-pdf" ref={at} />
}

function Media({ name, kind, data }: { name: string; kind: 'image' | 'audio' | 'video'; data: Uint8Array }) {
  const [url, setURL] = useState('')
  const [broken, setBroken] = useState(false)
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([data as BlobPart], { type: typeOf(name) }))
    setURL(made)
    setBroken(false)
    return () => URL.revokeObjectURL(made)
  }, [data])
  if (broken) return <p class="bad" role="alert">{t('The browser cannot show this file.')}</p>
  if (!url) return null
  const fail = () => setBroken(true)
  return (
    <div class="file-media">
      {kind === 'image' ? <img src={url} alt={name} onError={fail} /> : kind === 'audio' ? <audio src={url} controls aria-label={name} onError={fail} /> : <video src={url} controls aria-label={name} onError={fail} />}
    </div>
  )
}
