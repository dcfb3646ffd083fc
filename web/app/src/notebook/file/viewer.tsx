import type { Sandbox, SandgateError } from '@sandgate/client/base'
import { useEffect, useRef, useState } from 'preact/hooks'
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

interface Props {
  session: Sandbox
  path: string
  readOnly: boolean
  onClose: () => void
  /** The file was written. */
  written: () => void
  /** It is a file that does not exist yet. */
  fresh?: boolean
}

/** Shows a file of the session by its kind; text can be edited. */
export function FileViewer({ session, path, readOnly, onClose, written, fresh = false }: Props) {
  const name = path.split('/').pop()!
  const kind = kindOf(name)
  const [content, setContent] = useState<Content | undefined>(fresh ? { data: new Uint8Array(), etag: null, text: '' } : undefined)
  const [error, setError] = useState<Error>()
  const [asText, setAsText] = useState(fresh)
  const [draft, setDraft] = useState<string>()
  const [clash, setClash] = useState(false)
  const [saving, setSaving] = useState(false)
  const [turn, setTurn] = useState(0)
  const [opened, setOpened] = useState(0) // a dialog that was closed with changes opens again
  const closer = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (fresh && turn === 0) return
    const gone = new AbortController()
    session.files.open(path, { signal: gone.signal }).then(async (d) => {
      if (d.size !== undefined && d.size > maxShown) throw new Error(`It has ${bytes(d.size)}; up to ${bytes(maxShown)} are shown. Download it instead`)
      const data = await d.bytes()
      setContent({ data, etag: d.etag ?? null, text: data.length > maxEdited && kind !== 'table' ? undefined : textIn(data) })
      setDraft(undefined)
      setClash(false)
      setError(undefined)
    }).catch((e: Error) => gone.signal.aborted || setError(e))
    return () => gone.abort()
  }, [path, turn])
  const dirty = draft !== undefined && draft !== content?.text
  const editable = !readOnly && content?.text !== undefined && content.data.length <= maxEdited
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
      else failed('The file was not saved', e)
    }
    setSaving(false)
  }
  const store = () => void write(content!.etag)
  const close = async () => {
    if (dirty && !await confirm({ title: `Discard the changes to ${name}?`, text: 'They are not saved.', yes: 'Discard', danger: true })) return setOpened((n) => n + 1)
    onClose()
  }
  const rich = kind === 'table' || kind === 'markdown' || kind === 'image'
  return (
    <Dialog key={opened} label={name} class="file-view" onClose={() => void close()}>
      <div class="file-frame" onKeyDown={(e) => {
        if (!(e.ctrlKey || e.metaKey) || e.key.toLowerCase() !== 's') return
        e.preventDefault()
        if (editable && dirty && !saving) store()
      }}>
        <header class="row">
          <h2 class="grow ellipsis" title={path}>{name}{dirty && <span class="muted"> (changed)</span>}</h2>
          {rich && content?.text !== undefined && <button type="button" class="button" aria-pressed={asText} onClick={() => setAsText(!asText)}>{asText ? 'Preview' : 'Text'}</button>}
          {content && <button type="button" class="button icon quiet" aria-label="Download" title="Download" onClick={() => download(new Blob([content.data as BlobPart]), name)}><Icon name="download" /></button>}
          {editable && (asText || kind === 'other' || dirty) && <button type="button" class="button primary" disabled={saving || (!dirty && !(fresh && content.etag === null))} onClick={store}>{saving ? 'Saving…' : 'Save'}</button>}
          <button ref={closer} type="button" class="button" onClick={(e) => e.currentTarget.closest('dialog')!.close()}>Close</button>
        </header>
        {error && <p class="bad" role="alert">The file cannot be shown. {explain(error)}</p>}
        {clash && <div class="row clash" role="alert"><p class="grow">The file has changed since you opened it.</p>
          <button type="button" class="button" onClick={() => setTurn((t) => t + 1)}>Load it again</button>
          <button type="button" class="button danger" onClick={() => void write(undefined)}>Overwrite it</button></div>}
        {!content && !error && <p class="muted" role="status">Loading…</p>}
        {content && <Body key={turn} name={name} content={content} text={draft ?? content.text} asText={asText || kind === 'other'} editable={editable} changed={setDraft} leave={() => closer.current?.focus()} />}
      </div>
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
}

function Body({ name, content, text, asText, editable, changed, leave }: BodyProps) {
  const kind = kindOf(name)
  if (asText && text !== undefined) return <TextEditor name={name} text={text} editable={editable} changed={changed} leave={leave} />
  if (kind === 'table' && text !== undefined) return <FileTable text={text} separator={separatorOf(name)} />
  if (kind === 'markdown' && text !== undefined) return <Page text={text} />
  if (kind === 'image' || kind === 'audio' || kind === 'video') return <Media name={name} kind={kind} data={content.data} />
  return <p class="muted">This is no text that can be shown. It has {bytes(content.data.length)}. Download it to open it on your computer.</p>
}

function TextEditor({ name, text, editable, changed, leave }: Omit<BodyProps, 'content' | 'asText'> & { text: string }) {
  const at = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let editor: Editor | undefined
    let gone = false
    void import('../editor').then(({ Editor }) => {
      if (gone || !at.current) return
      const none = async () => undefined
      editor = new Editor(at.current, text, `Text of ${name}`, { changed, leave: () => {}, escape: leave, focused: () => {}, complete: none, inspect: none }, !editable)
      editor.setNumbers(true)
      editor.setFolds(true)
      void editor.setKeys(editorKeys.peek())
      void editor.setLanguage(languageOfFile(name))
      editor.focus('start')
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
  return <div class="file-page" ref={at} role="region" aria-label="Page" tabIndex={0} />
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
  if (broken) return <p class="bad" role="alert">The browser cannot show this file.</p>
  if (!url) return null
  const fail = () => setBroken(true)
  return (
    <div class="file-media">
      {kind === 'image' ? <img src={url} alt={name} onError={fail} /> : kind === 'audio' ? <audio src={url} controls aria-label={name} onError={fail} /> : <video src={url} controls aria-label={name} onError={fail} />}
    </div>
  )
}
