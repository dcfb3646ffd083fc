import { useState } from 'preact/hooks'
import type { KeyInfo, NewKey } from '@sandgate/client/base'
import { t, time } from '../language/texts'
import { rest } from '../rest'
import { may } from '../server'
import { explain } from '../ui/again'
import { confirm, Dialog } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed, toast } from '../ui/toast'
import { Shown, useLoaded } from './load'

/** The roles of keys, each with its rights. Only an admin can give the last two. */
const roles = (): [string, string][] => [
  ['owner', t('Everything of the tenant, keys included')], ['driver', t('Create and use sessions')], ['viewer', t('Watch sessions')],
  ['run', t('Run single programs')], ['metrics', t('Read the metrics')], ['admin', t('The whole server')],
]

const day = 86_400
const lifetimes = (): [string, number][] => [
  [t('Never'), 0], [t('After a day'), day], [t('After 30 days'), 30 * day], [t('After 90 days'), 90 * day], [t('After a year'), 365 * day],
]

/** The keys of the tenant, or of all tenants for an admin. */
export function Keys() {
  const keys = useLoaded(async () => (await rest<{ keys: KeyInfo[] | null }>('GET', `/v1/keys${may('admin') ? '?all=true' : ''}`)).keys ?? [], [])
  const [making, setMaking] = useState(false)
  const [made, setMade] = useState<NewKey>()
  const rotate = async (k: KeyInfo) => {
    if (!await confirm({ title: t('Give “{name}” a new secret?', { name: nameOf(k) }), text: t('The old secret stays valid for one hour.'), yes: t('Rotate') })) return
    try {
      setMade(await rest<NewKey>('POST', `/v1/keys/${encodeURIComponent(k.id)}/rotate`, { keep_seconds: 3600 }))
    } catch (e) {
      failed(t('The key was not rotated'), e)
    }
    await keys.again()
  }
  const revoke = async (k: KeyInfo) => {
    if (!await confirm({ title: t('Revoke “{name}”?', { name: nameOf(k) }), text: t('Its connections are closed. Programs that use it get no access any more.'), yes: t('Revoke'), danger: true })) return
    await rest('DELETE', `/v1/keys/${encodeURIComponent(k.id)}`).catch((e: unknown) => failed(t('The key was not revoked'), e))
    await keys.again()
  }
  return (
    <section aria-labelledby="keys">
      <div class="heading"><h2 id="keys" class="grow">{t('Keys')}</h2><button type="button" class="button primary" onClick={() => setMaking(true)}><Icon name="add" />{t('New key…')}</button></div>
      <p class="muted lead">{t('Programs and people use a key instead of your token. It can be revoked alone.')}</p>
      <Shown of={keys}>
        {(list) => list.length === 0
          ? <div class="empty-box"><p>{t('There are no keys.')}</p></div>
          : (
            <div class="scrolls">
              <table class="table">
                <thead><tr><th scope="col">{t('Name')}</th><th scope="col">{t('Tenant')}</th><th scope="col">{t('Role')}</th><th scope="col">{t('Created')}</th><th scope="col">{t('Expires')}</th><th scope="col"><span class="sr">{t('Actions')}</span></th></tr></thead>
                <tbody>
                  {list.map((k) => (
                    <tr key={k.id}>
                      <th scope="row">{nameOf(k)}<span class="muted key-id"> {k.id}</span></th><td>{k.tenant}</td><td>{k.role}</td>
                      <td>{time(k.created_ms, { year: 'numeric', month: 'numeric', day: 'numeric' })}{k.created_by && <span class="muted"> {t('by {name}', { name: k.created_by })}</span>}</td>
                      <td>{k.expired ? <span class="bad">{t('expired')}</span> : k.expires_ms ? time(k.expires_ms) : t('never')}</td>
                      <td>
                        <Menu label={t('More for {name}', { name: nameOf(k) })} button={<Icon name="more" />}>
                          {() => (
                            <>
                              <MenuItem onClick={() => void rotate(k)}><Icon name="restart" />{t('Rotate…')}</MenuItem>
                              <MenuItem danger onClick={() => void revoke(k)}><Icon name="trash" />{t('Revoke…')}</MenuItem>
                            </>
                          )}
                        </Menu>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
      </Shown>
      {making && <Create onClose={() => setMaking(false)} made={async (k) => { setMaking(false); setMade(k); await keys.again() }} />}
      {made && <Secret of={made} onClose={() => setMade(undefined)} />}
    </section>
  )
}

const nameOf = (k: KeyInfo) => k.name || k.id

function Create({ onClose, made }: { onClose: () => void; made: (k: NewKey) => Promise<void> }) {
  const [wrong, setWrong] = useState('')
  const create = async (form: HTMLFormElement) => {
    const f = new FormData(form)
    const text = (name: string) => String(f.get(name) ?? '').trim()
    try {
      await made(await rest<NewKey>('POST', '/v1/keys', {
        name: text('name'), role: text('role'), expires_seconds: Number(text('expires')), ...(text('tenant') ? { tenant: text('tenant') } : {}),
      }))
    } catch (e) {
      setWrong(explain(e as Error))
    }
  }
  return (
    <Dialog label={t('New key')} onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); void create(e.currentTarget) }}>
        <h2>{t('New key')}</h2>
        <label class="labelled">{t('Name')}<input class="field" name="name" required maxLength={64} autofocus autocomplete="off" placeholder={t('The program or person that uses it')} /></label>
        {may('admin') && <label class="labelled">{t('Tenant')}<input class="field" name="tenant" autocomplete="off" placeholder={t('Your own')} /></label>}
        <label class="labelled">{t('Role')}
          <select class="field" name="role" aria-label={t('Role')}>
            {roles().slice(0, may('admin') ? undefined : -2).map(([role, about]) => <option key={role} value={role} selected={role === 'driver'}>{role} – {about}</option>)}
          </select>
        </label>
        <label class="labelled">{t('Expires')}<select class="field" name="expires" aria-label={t('Expires')}>{lifetimes().map(([name, s]) => <option key={s} value={s} selected={s === 90 * day}>{name}</option>)}</select></label>
        {wrong && <p class="bad" role="alert">{wrong}</p>}
        <div class="actions"><button type="button" class="button" onClick={onClose}>{t('Cancel')}</button><button class="button primary">{t('Create')}</button></div>
      </form>
    </Dialog>
  )
}

/** Shows the secret of a key, once. */
function Secret({ of, onClose }: { of: NewKey; onClose: () => void }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(of.secret)
      toast(t('Copied'))
    } catch (e) {
      failed(t('It was not copied'), e)
    }
  }
  return (
    <Dialog label={t("The key's secret")} onClose={onClose}>
      <div class="dialog">
        <h2>{t('The secret of “{name}”', { name: nameOf(of.key) })}</h2>
        <p class="muted">{t('Copy it now. The server does not show it again.')}</p>
        <input class="field code" readOnly aria-label={t('Secret')} value={of.secret} onFocus={(e) => e.currentTarget.select()} autofocus />
        <div class="actions"><button type="button" class="button" onClick={() => void copy()}><Icon name="copy" />{t('Copy')}</button><button type="button" class="button primary" onClick={onClose}>{t('Done')}</button></div>
      </div>
    </Dialog>
  )
}
