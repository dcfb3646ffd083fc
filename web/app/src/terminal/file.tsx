import type { Sandbox } from '@sandgate/client/base'
import { useEffect, useRef, useState } from 'preact/hooks'
import { number, t } from '../language/texts'
import { Dialog } from '../ui/dialog'
import './file.css'

/** How much of a file is shown, in characters, and in lines around the requested line. */
const maxText = 2_000_000
const around = 400

/** Shows a file at a line, read-only. */
export function FileView({ session, path, line, onClose }: { session: Sandbox; path: string; line: number; onClose(): void }) {
  const [text, setText] = useState<string>()
  const [error, setError] = useState('')
  const mark = useRef<HTMLElement>(null)
  useEffect(() => {
    const gone = new AbortController()
    session.files.open(path, { signal: gone.signal }).then(async (d) => {
      if (d.size !== undefined && d.size > maxText) throw new Error(t('it has {size} bytes, {most} are shown', { size: number(d.size), most: number(maxText) }))
      setText(await d.text())
    }).catch((e: Error) => gone.signal.aborted || setError(e.message))
    return () => gone.abort()
  }, [path])
  useEffect(() => mark.current?.scrollIntoView({ block: 'center' }), [text])
  const lines = text?.split('\n') ?? []
  const from = Math.max(0, line - 1 - around)
  return (
    <Dialog label={path} class="file" onClose={onClose}>
      <div class="file-head"><strong class="ellipsis">{path}</strong><span class="muted">{t('line {line}', { line })}</span><span class="grow" /><button type="button" class="button" onClick={onClose}>{t('Close')}</button></div>
      {error && <p class="bad" role="alert">{t('The file cannot be shown: {error}', { error })}</p>}
      {text !== undefined && (
        <pre class="file-text" tabIndex={0}>
          {lines.slice(from, line + around).map((l, i) => {
            const n = from + i + 1
            return n === line ? <mark key={n} ref={mark}><span class="n">{n}</span>{l}{'\n'}</mark> : <span key={n}><span class="n">{n}</span>{l}{'\n'}</span>
          })}
        </pre>
      )}
    </Dialog>
  )
}
