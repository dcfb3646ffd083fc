import type { Sandbox } from '@sandgate/client/base'
import { useEffect, useRef, useState } from 'preact/hooks'
import { t, time } from '../language/texts'
import { offers, rest } from '../rest'
import { explain } from './again'
import { Dialog } from './dialog'
import { Icon } from './icon'

const hour = 3600
const lives = () => [[hour, t('1 hour')], [24 * hour, t('1 day')], [7 * 24 * hour, t('7 days')]] as const

interface Link {
  id: string
  expires_ms: number
}

const listed = 'GET /v1/sessions/{id}/links'
const when = (ms: number) => time(ms, { dateStyle: 'medium', timeStyle: 'short' })

/** A page that others can see: a path below the session's page. */
interface View {
  label: string
  at: string
}

/** Creates a link with which others can only view the session, at one of the pages. */
export function Share({ session, views, onClose }: { session: Sandbox; views: View[]; onClose(): void }) {
  const [at, setAt] = useState(views[0]!.at)
  const [life, setLife] = useState(hour)
  const [link, setLink] = useState<Link & { token: string }>()
  const [making, setMaking] = useState(false)
  const [error, setError] = useState<Error>()
  const [failed, setFailed] = useState('')
  const said = useRef<HTMLHeadingElement>(null)
  const [copied, setCopied] = useState(false)
  const [others, setOthers] = useState<(Link & { created_ms: number })[]>([])
  const links = `/v1/sessions/${encodeURIComponent(session.id)}/links`
  const field = useRef<HTMLInputElement>(null)
  const address = link && `${location.origin}/s/${encodeURIComponent(session.id)}${at}#view=${link.token}`

  useEffect(() => {
    if (offers(listed)) void rest<{ links: typeof others }>('GET', links).then((all) => setOthers(all.links), () => {})
  }, [])
  const end = async (id: string) => {
    setError(undefined)
    try {
      await rest('DELETE', `${links}/${encodeURIComponent(id)}`)
      setOthers((all) => all.filter((o) => o.id !== id))
      if (id === link?.id) setLink(undefined)
      said.current?.focus()
    } catch (e) {
      setFailed(t('The link was not ended'))
      setError(e as Error)
    }
  }
  const make = async () => {
    setMaking(true)
    setError(undefined)
    try {
      setLink(await rest<Link & { token: string }>('POST', links, { expires_seconds: life }))
      setTimeout(() => field.current?.select())
    } catch (e) {
      setFailed(t('The link was not created'))
      setError(e as Error)
    }
    setMaking(false)
  }
  const rows = link ? [...others, { ...link, created_ms: Date.now() }] : others
  const copy = () => navigator.clipboard.writeText(address!).then(() => setCopied(true), () => field.current?.select())
  return (
    <Dialog label={t('Share for viewing')} class="share" onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); if (!link) void make() }}>
        <h2 ref={said} tabIndex={-1}>{t('Share for viewing')}</h2>
        <p class="muted">{t('Everyone with the link sees the live output and can read the files of this session. They cannot run, type or change anything.')}</p>
        {views.length > 1 && (
          <fieldset class="choices">
            <legend>{t('They see')}</legend>
            {views.map((v) => (
              <label key={v.at}><input type="radio" name="view" checked={at === v.at} onChange={() => { setAt(v.at); setCopied(false) }} />{v.label}</label>
            ))}
          </fieldset>
        )}
        {!link && (
          <fieldset class="choices">
            <legend>{t('The link expires after')}</legend>
            {lives().map(([seconds, words]) => (
              <label key={seconds}><input type="radio" name="life" checked={life === seconds} onChange={() => setLife(seconds)} />{words}</label>
            ))}
          </fieldset>
        )}
        {link && (
          <>
            <div class="row">
              <input ref={field} class="field" readOnly aria-label={t('Link for viewing')} value={address} onFocus={(e) => e.currentTarget.select()} />
              <button type="button" class="button primary" onClick={() => void copy()}><Icon name={copied ? 'check' : 'copy'} />{copied ? t('Copied') : t('Copy')}</button>
            </div>
            <p class="muted">{t('It works until {time}.', { time: when(link.expires_ms) })}</p>
          </>
        )}
        {rows.length > 0 && (
          <section class="links" aria-label={t('Active links')}>
            <h3>{t('Active links')}</h3>
            <ul>
              {rows.map((l) => (
                <li key={l.id}>
                  <span class="grow">{l.id === link?.id ? t('This one') : t('Made {time}', { time: when(l.created_ms) })}<span class="muted">{t('until {time}', { time: when(l.expires_ms) })}</span></span>
                  <button type="button" class="button danger" onClick={() => void end(l.id)}>{t('End this link')}</button>
                </li>
              ))}
            </ul>
          </section>
        )}
        {error && <p class="bad" role="alert">{failed}. {explain(error)}</p>}
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>{link ? t('Done') : t('Cancel')}</button>
          {!link && <button class="button primary" disabled={making}>{making ? t('Creating the link…') : t('Create link')}</button>}
        </div>
      </form>
    </Dialog>
  )
}
