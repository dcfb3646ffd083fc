import { useEffect, useState } from 'preact/hooks'
import type { Sandbox } from '@sandgate/client/base'
import { t, time } from '../language/texts'
import { rest } from '../rest'
import { explain } from '../ui/again'
import { Dialog } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { failed, toast } from '../ui/toast'

/** An address at which others reach a port of a session. */
export interface Preview {
  id: string
  url?: string
  port: number
  visibility: string
  password?: boolean
  expires_ms?: number
  label?: string
}

const pathOf = (session: string) => `/v1/sessions/${encodeURIComponent(session)}/ports`

const nameOf = (p: Preview): string => p.label || t('Port {port}', { port: p.port })

const lives = (): [number, string][] => [[3600, t('1 hour')], [86_400, t('1 day')], [7 * 86_400, t('7 days')], [0, t('No end')]]

/** Lists, makes and revokes the preview links of a session. */
export function Previews({ session: s, name, onClose }: { session: Sandbox; name: string; onClose(): void }) {
  const [links, setLinks] = useState<Preview[]>()
  const [ports, setPorts] = useState<number[]>([])
  const [wrong, setWrong] = useState('')
  const look = () => rest<{ links: Preview[] | null }>('GET', `${pathOf(s.id)}/links`).then((r) => setLinks(r.links ?? []), (e: Error) => setWrong(explain(e)))
  useEffect(() => {
    void look()
    if (s.info.state === 'running') void rest<{ ports: { port: number }[] | null }>('GET', pathOf(s.id)).then((r) => setPorts((r.ports ?? []).map((p) => p.port)), () => {})
  }, [s.id])
  const create = async (form: HTMLFormElement) => {
    const f = new FormData(form)
    const port = Number(f.get('port'))
    if (!Number.isInteger(port) || port < 1 || port > 65_535) return setWrong(t('A port is a number from 1 to 65535.'))
    const life = Number(f.get('life'))
    const label = String(f.get('label')).trim()
    try {
      await rest('POST', `${pathOf(s.id)}/${port}/links`, { visibility: String(f.get('visibility')), ...(life ? { expires_seconds: life } : {}), ...(label ? { label } : {}) })
      setWrong('')
      form.reset()
      await look()
    } catch (e) {
      setWrong(explain(e as Error))
    }
  }
  const revoke = async (p: Preview) => {
    await rest('DELETE', `${pathOf(s.id)}/links/${encodeURIComponent(p.id)}`).catch((e: unknown) => failed(t('The link was not revoked'), e))
    await look()
  }
  return (
    <Dialog label={t('Preview links of {name}', { name })} class="wide-dialog" onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); void create(e.currentTarget) }}>
        <h2>{t('Preview links of {name}', { name })}</h2>
        <p class="muted">{t('A preview link is an address of a web page that a program in the session serves.')}</p>
        {links && links.length > 0 && (
          <ul class="sessions" aria-label={t('Preview links')}>
            {links.map((p) => (
              <li key={p.id} class="session snapshot">
                <div class="grow">
                  {p.url ? <a href={p.url} target="_blank" rel="noreferrer noopener">{nameOf(p)}</a> : <strong>{nameOf(p)}</strong>}
                  <p class="muted about"><span>{t('port {port}', { port: p.port })}</span><span>{p.visibility === 'public' ? t('for everyone who has the address') : t('for users of your tenant')}</span>{p.password && <span>{t('with a password')}</span>}
                    <span>{p.expires_ms ? t('until {time}', { time: time(p.expires_ms) }) : t('no end')}</span></p>
                </div>
                {p.url && <button type="button" class="button icon quiet" aria-label={t('Copy the address of {name}', { name: nameOf(p) })} title={t('Copy the address')} onClick={() => void navigator.clipboard.writeText(p.url!).then(() => toast(t('The address is in the clipboard')), (e: unknown) => failed(t('The address was not copied'), e))}><Icon name="copy" /></button>}
                <button type="button" class="button icon quiet" aria-label={t('Revoke {name}', { name: nameOf(p) })} title={t('Revoke')} onClick={() => void revoke(p)}><Icon name="trash" /></button>
              </li>
            ))}
          </ul>
        )}
        {links?.length === 0 && <p>{t('This session has no preview links.')}</p>}
        <div class="two">
          <label class="labelled">{t('Port')}<input class="field" name="port" inputMode="numeric" required autocomplete="off" list="session-ports" autofocus /></label>
          <datalist id="session-ports">{ports.map((p) => <option key={p} value={p} />)}</datalist>
          <label class="labelled">{t('Label|of a link')}<input class="field" name="label" maxLength={64} autocomplete="off" placeholder={t('Optional')} /></label>
          <label class="labelled">{t('Who may open it')}<select class="field" name="visibility"><option value="private">{t('Users of your tenant')}</option><option value="public">{t('Everyone who has the address')}</option></select></label>
          <label class="labelled">{t('Valid for')}<select class="field" name="life">{lives().map(([seconds, text]) => <option key={seconds} value={seconds}>{text}</option>)}</select></label>
        </div>
        {wrong && <p class="bad" role="alert">{wrong}</p>}
        <div class="actions"><button type="button" class="button" onClick={onClose}>{t('Close')}</button><button class="button primary">{t('Create link')}</button></div>
      </form>
    </Dialog>
  )
}
