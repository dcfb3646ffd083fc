import { useState } from 'preact/hooks'
import type { Quota, Tenant } from '@sandgate/client/base'
import { rest } from '../rest'
import { may } from '../server'
import { confirm, Dialog } from '../ui/dialog'
import { explain } from '../ui/again'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed } from '../ui/toast'
import { Shown, useLoaded } from './load'
import { amount, bounds, part, readQuota } from './quota'

/** The name under which the server stores the quota of tenants without one of their own. */
const others = '*'

const nameOf = (t: Tenant) => (t.name === others ? 'All others' : t.name)
const pathOf = (t: Tenant) => `/v1/tenants/${encodeURIComponent(t.name)}`

/** The tenants, their use and their quotas. */
export function Tenants() {
  const tenants = useLoaded(async () => (await rest<{ tenants: Tenant[] | null }>('GET', '/v1/tenants')).tenants ?? [], [], 5000)
  const [edited, setEdited] = useState<Tenant>()
  const columns = bounds.filter((b) => b.field !== 'requests_per_second')
  return (
    <section aria-labelledby="tenants">
      <h2 id="tenants">Tenants</h2>
      <p class="muted lead">Each number is the present use, and the quota if there is one. A tenant without a quota is bounded by the server only.</p>
      <Shown of={tenants}>
        {(list) => (
          <div class="scrolls">
            <table class="table">
              <thead>
                <tr>
                  <th scope="col">Tenant</th><th scope="col" class="num">Keys</th>
                  {columns.map((b) => <th key={b.field} scope="col" class="num">{b.name}</th>)}
                  {may('admin') && <th scope="col"><span class="sr">Actions</span></th>}
                </tr>
              </thead>
              <tbody>
                {list.map((t) => (
                  <tr key={t.name}>
                    <th scope="row">{nameOf(t)} {t.own && <span class="badge">own quota</span>}</th>
                    <td class="num">{t.name === others ? '' : t.keys}</td>
                    {columns.map((b) => <td key={b.field} class="num"><Held tenant={t} bound={b} /></td>)}
                    {may('admin') && (
                      <td>
                        <Menu label={`More for ${nameOf(t)}`} button={<Icon name="more" />}>
                          {() => (
                            <>
                              <MenuItem onClick={() => setEdited(t)}><Icon name="edit" />Edit quota…</MenuItem>
                              {t.own && <MenuItem danger onClick={() => void remove(t, tenants.again)}><Icon name="trash" />Remove quota…</MenuItem>}
                            </>
                          )}
                        </Menu>
                      </td>
                    )}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Shown>
      {may('admin') && <button type="button" class="button" onClick={() => setEdited({ name: '', quota: {}, own: false, keys: 0 } as unknown as Tenant)}><Icon name="add" />Set a quota…</button>}
      {edited && <Edit tenant={edited} onClose={() => setEdited(undefined)} saved={tenants.again} />}
    </section>
  )
}

/** The use of one thing by a tenant, with a meter if there is a bound. */
function Held({ tenant, bound }: { tenant: Tenant; bound: (typeof bounds)[number] }) {
  const most = tenant.quota[bound.field] ?? 0
  const used = (tenant.use as unknown as Record<string, number>)[bound.field] ?? 0
  const share = part(tenant, bound)
  if (tenant.name === others) return <>{most ? amount(bound, most) : '–'}</>
  return (
    <>
      {amount(bound, used)}{most > 0 && <span class="muted"> of {amount(bound, most)}</span>}
      {share !== undefined && <meter class="meter" min={0} max={1} high={0.9} value={share} aria-label={`${bound.name} of ${nameOf(tenant)}`} />}
    </>
  )
}

async function remove(t: Tenant, changed: () => Promise<void>): Promise<void> {
  const text = t.name === others ? 'Tenants without a quota of their own are then bounded by the server only.' : 'The quota of all others applies to it then.'
  if (!await confirm({ title: `Remove the quota of ${nameOf(t)}?`, text, yes: 'Remove', danger: true })) return
  await rest('DELETE', pathOf(t)).catch((e: unknown) => failed('The quota was not removed', e))
  await changed()
}

/** Edits the quota of a tenant, or of one whose name is written here. */
function Edit({ tenant, onClose, saved }: { tenant: Tenant; onClose: () => void; saved: () => Promise<void> }) {
  const [wrong, setWrong] = useState('')
  const save = async (form: HTMLFormElement) => {
    const fields = Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, String(v)]))
    const name = tenant.name || fields.tenant!.trim()
    const { quota, wrong } = readQuota(fields)
    if (!quota) return setWrong(`${wrong} has to be a number, or empty.`)
    try {
      await rest('PUT', pathOf({ ...tenant, name }), quota satisfies Quota)
      onClose()
      await saved()
    } catch (e) {
      setWrong(explain(e as Error))
    }
  }
  const title = tenant.name ? `Quota of ${nameOf(tenant)}` : 'Quota of a tenant'
  return (
    <Dialog label={title} onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); void save(e.currentTarget) }}>
        <h2>{title}</h2>
        <p class="muted">An empty field sets no bound.</p>
        {!tenant.name && <label class="labelled">Tenant<input class="field" name="tenant" required autofocus autocomplete="off" placeholder={`A name, or ${others} for all others`} /></label>}
        <div class="two">
          {bounds.map((b, i) => (
            <label key={b.field} class="labelled">{b.unitName ? `${b.name}, ${b.unitName}` : b.name}
              <input class="field" name={b.field} inputMode="decimal" autocomplete="off" autofocus={tenant.name !== '' && i === 0} defaultValue={tenant.quota[b.field] ? String(tenant.quota[b.field]! / b.unit) : ''} />
            </label>
          ))}
        </div>
        {wrong && <p class="bad" role="alert">{wrong}</p>}
        <div class="actions"><button type="button" class="button" onClick={onClose}>Cancel</button><button class="button primary">Save</button></div>
      </form>
    </Dialog>
  )
}
