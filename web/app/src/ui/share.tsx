import type { Session } from '@sandgate/client'
import { useRef, useState } from 'preact/hooks'
import { rest } from '../rest'
import { explain } from './again'
import { Dialog } from './dialog'
import { Icon } from './icon'

const lives = [[3600, '1 hour'], [86_400, '1 day'], [7 * 86_400, '7 days']] as const

interface Link {
  token: string
  expires_ms: number
}

/** Makes a link by which others can look at the session, and do nothing else. at is what they see: a path below the session's page. */
export function Share({ session, at, onClose }: { session: Session; at: string; onClose(): void }) {
  const [life, setLife] = useState<number>(lives[0][0])
  const [link, setLink] = useState<Link>()
  const [making, setMaking] = useState(false)
  const [error, setError] = useState<Error>()
  const [copied, setCopied] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  const address = link && `${location.origin}/s/${encodeURIComponent(session.id)}${at}#view=${link.token}`

  const make = async () => {
    setMaking(true)
    setError(undefined)
    try {
      setLink(await rest<Link>('POST', `/v1/sessions/${encodeURIComponent(session.id)}/links`, { expires_seconds: life }))
      setTimeout(() => field.current?.select())
    } catch (e) {
      setError(e as Error)
    }
    setMaking(false)
  }
  const copy = () => navigator.clipboard.writeText(address!).then(() => setCopied(true), () => field.current?.select())
  return (
    <Dialog label="Share for viewing" class="share" onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); if (!link) void make() }}>
        <h2>Share for viewing</h2>
        <p class="muted">Whoever has the link sees what is printed here, live, and can read this session’s files. They can run, type and change nothing.</p>
        {!link && (
          <fieldset class="choices">
            <legend>The link works for</legend>
            {lives.map(([seconds, words]) => (
              <label key={seconds}><input type="radio" name="life" checked={life === seconds} onChange={() => setLife(seconds)} />{words}</label>
            ))}
          </fieldset>
        )}
        {link && (
          <>
            <div class="row">
              <input ref={field} class="field" readOnly aria-label="Link for viewing" value={address} onFocus={(e) => e.currentTarget.select()} />
              <button type="button" class="button primary" onClick={() => void copy()}><Icon name={copied ? 'check' : 'copy'} />{copied ? 'Copied' : 'Copy'}</button>
            </div>
            <p class="muted">It works until {new Date(link.expires_ms).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })}. To end it before that, end the session.</p>
          </>
        )}
        {error && <p class="bad" role="alert">There is no link. {explain(error)}</p>}
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>{link ? 'Done' : 'Cancel'}</button>
          {!link && <button class="button primary" disabled={making}>{making ? 'Making the link…' : 'Make the link'}</button>}
        </div>
      </form>
    </Dialog>
  )
}
