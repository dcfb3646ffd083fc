import { useState } from 'preact/hooks'
import type { KeyInfo, NewKey } from '@sandgate/client/base'
import { rest } from '../rest'
import { may } from '../server'
import { explain } from '../ui/again'
import { confirm, Dialog } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed, toast } from '../ui/toast'
import { Shown, useLoaded } from './load'

/** The roles of keys, each with its rights. Only an admin can give the last two. */
const roles: [string, string][] = [
  ['owner', 'Everything of the tenant, keys included'], ['driver', 'Create and use sessions'], ['viewer', 'Watch sessions'],
  ['run', 'Run single programs'], ['metrics', 'Read the metrics'], ['admin', 'The whole server'],
]

const day = 86_400
const lifetimes: [string, number][] = [['Never', 0], ['After a day', day], ['After 30 days', 30 * day], ['After 90 days', 90 * day], ['After a year', 365 * day]]

/** The keys of the tenant, or of all tenants for an admin. */
export function Keys() {
  const keys = useLoaded(async () => (await rest<{ keys: KeyInfo[] | null }>('GET', `/v1/keys${may('admin') ? '?all=true' : ''}`)).keys ?? [], [])
  const [making, setMaking] = useState(false)
  const [made, setMade] = useState<NewKey>()
  const rotate = async (k: KeyInfo) => {
    if (!await confirm({ title: `Give “${nameOf(k)}” a new secret?`, text: 'The old secret stays valid for one hour.', yes: 'Rotate' })) return
    try {
      setMade(await rest<NewKey>('POST', `/v1/keys/${encodeURIComponent(k.id)}/rotate`, { keep_seconds: 3600 }))
    } catch (e) {
      failed('The key was not rotated', e)
    }
    await keys.again()
  }
  const revoke = async (k: KeyInfo) => {
    if (!await confirm({ title: `Revoke “${nameOf(k)}”?`, text: 'Its connections are closed. Programs that use it get no access any more.', yes: 'Revoke', danger: true })) return
    await rest('DELETE', `/v1/keys/${encodeURIComponent(k.id)}`).catch((e: unknown) => failed('The key was not revoked', e))
    await keys.again()
  }
  return (
    <section aria-labelledby="keys">
      <div class="heading"><h2 id="keys" class="grow">Keys</h2><button type="button" class="button primary" onClick={() => setMaking(true)}><Icon name="add" />New key…</button></div>
      <p class="muted lead">Programs and people use a key instead of your token. It can be revoked alone.</p>
      <Shown of={keys}>
        {(list) => list.length === 0
          ? <div class="empty-box"><p>There are no keys.</p></div>
          : (
            <div class="scrolls">
              <table class="table">
                <thead><tr><th scope="col">Name</th><th scope="col">Tenant</th><th scope="col">Role</th><th scope="col">Created</th><th scope="col">Expires</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
                <tbody>
                  {list.map((k) => (
                    <tr key={k.id}>
                      <th scope="row">{nameOf(k)}<span class="muted key-id"> {k.id}</span></th><td>{k.tenant}</td><td>{k.role}</td>
                      <td>{new Date(k.created_ms).toLocaleDateString()}{k.created_by && <span class="muted"> by {k.created_by}</span>}</td>
                      <td>{k.expired ? <span class="bad">expired</span> : k.expires_ms ? new Date(k.expires_ms).toLocaleString() : 'never'}</td>
                      <td>
                        <Menu label={`More for ${nameOf(k)}`} button={<Icon name="more" />}>
                          {() => (
                            <>
                              <MenuItem onClick={() => void rotate(k)}><Icon name="restart" />Rotate…</MenuItem>
                              <MenuItem danger onClick={() => void revoke(k)}><Icon name="trash" />Revoke…</MenuItem>
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
    <Dialog label="New key" onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); void create(e.currentTarget) }}>
        <h2>New key</h2>
        <label class="labelled">Name<input class="field" name="name" required maxLength={64} autofocus autocomplete="off" placeholder="The program or person that uses it" /></label>
        {may('admin') && <label class="labelled">Tenant<input class="field" name="tenant" autocomplete="off" placeholder="Your own" /></label>}
        <label class="labelled">Role
          <select class="field" name="role" aria-label="Role">
            {roles.slice(0, may('admin') ? undefined : -2).map(([role, about]) => <option key={role} value={role} selected={role === 'driver'}>{role} – {about}</option>)}
          </select>
        </label>
        <label class="labelled">Expires<select class="field" name="expires" aria-label="Expires">{lifetimes.map(([name, s]) => <option key={s} value={s} selected={s === 90 * day}>{name}</option>)}</select></label>
        {wrong && <p class="bad" role="alert">{wrong}</p>}
        <div class="actions"><button type="button" class="button" onClick={onClose}>Cancel</button><button class="button primary">Create</button></div>
      </form>
    </Dialog>
  )
}

/** Shows the secret of a key, once. */
function Secret({ of, onClose }: { of: NewKey; onClose: () => void }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(of.secret)
      toast('Copied')
    } catch (e) {
      failed('It was not copied', e)
    }
  }
  return (
    <Dialog label="The key's secret" onClose={onClose}>
      <div class="dialog">
        <h2>The secret of “{nameOf(of.key)}”</h2>
        <p class="muted">Copy it now. The server does not show it again.</p>
        <input class="field code" readOnly aria-label="Secret" value={of.secret} onFocus={(e) => e.currentTarget.select()} autofocus />
        <div class="actions"><button type="button" class="button" onClick={() => void copy()}><Icon name="copy" />Copy</button><button type="button" class="button primary" onClick={onClose}>Done</button></div>
      </div>
    </Dialog>
  )
}
