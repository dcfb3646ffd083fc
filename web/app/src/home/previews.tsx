import { useEffect, useState } from 'preact/hooks'
import type { Sandbox } from '@sandgate/client/base'
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

const nameOf = (p: Preview): string => p.label || `Port ${p.port}`

const lives: [number, string][] = [[3600, '1 hour'], [86_400, '1 day'], [7 * 86_400, '7 days'], [0, 'No end']]

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
    if (!Number.isInteger(port) || port < 1 || port > 65_535) return setWrong('A port is a number from 1 to 65535.')
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
    await rest('DELETE', `${pathOf(s.id)}/links/${encodeURIComponent(p.id)}`).catch((e: unknown) => failed('The link was not revoked', e))
    await look()
  }
  return (
    <Dialog label={`Preview links of ${name}`} class="wide-dialog" onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); void create(e.currentTarget) }}>
        <h2>Preview links of {name}</h2>
        <p class="muted">A preview link is an address of a web page that a program in the session serves.</p>
        {links && links.length > 0 && (
          <ul class="sessions" aria-label="Preview links">
            {links.map((p) => (
              <li key={p.id} class="session snapshot">
                <div class="grow">
                  {p.url ? <a href={p.url} target="_blank" rel="noreferrer noopener">{nameOf(p)}</a> : <strong>{nameOf(p)}</strong>}
                  <p class="muted about"><span>port {p.port}</span><span>{p.visibility === 'public' ? 'for everyone who has the address' : 'for users of your tenant'}</span>{p.password && <span>with a password</span>}
                    <span>{p.expires_ms ? `until ${new Date(p.expires_ms).toLocaleString()}` : 'no end'}</span></p>
                </div>
                {p.url && <button type="button" class="button icon quiet" aria-label={`Copy the address of ${nameOf(p)}`} title="Copy the address" onClick={() => void navigator.clipboard.writeText(p.url!).then(() => toast('The address is in the clipboard'), (e: unknown) => failed('The address was not copied', e))}><Icon name="copy" /></button>}
                <button type="button" class="button icon quiet" aria-label={`Revoke ${nameOf(p)}`} title="Revoke" onClick={() => void revoke(p)}><Icon name="trash" /></button>
              </li>
            ))}
          </ul>
        )}
        {links?.length === 0 && <p>This session has no preview links.</p>}
        <div class="two">
          <label class="labelled">Port<input class="field" name="port" inputMode="numeric" required autocomplete="off" list="session-ports" autofocus /></label>
          <datalist id="session-ports">{ports.map((p) => <option key={p} value={p} />)}</datalist>
          <label class="labelled">Label<input class="field" name="label" maxLength={64} autocomplete="off" placeholder="Optional" /></label>
          <label class="labelled">Who may open it<select class="field" name="visibility"><option value="private">Users of your tenant</option><option value="public">Everyone who has the address</option></select></label>
          <label class="labelled">Valid for<select class="field" name="life">{lives.map(([seconds, text]) => <option key={seconds} value={seconds}>{text}</option>)}</select></label>
        </div>
        {wrong && <p class="bad" role="alert">{wrong}</p>}
        <div class="actions"><button type="button" class="button" onClick={onClose}>Close</button><button class="button primary">Create link</button></div>
      </form>
    </Dialog>
  )
}
