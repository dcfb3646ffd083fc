import { useState } from 'preact/hooks'
import type { Quota, Tenant } from '@sandgate/client/base'
import { rich, t } from '../language/texts'
import { rest } from '../rest'
import { may } from '../server'
import { confirm, Dialog } from '../ui/dialog'
import { explain } from '../ui/again'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed } from '../ui/toast'
import { Shown, useLoaded } from './load'
import { amount, bounds, part, readQuota, written } from './quota'

/** The name under which the server stores the quota of tenants without one of their own. */
const others = '*'

const nameOf = ({ name }: Tenant) => (name === others ? t('All others') : name)
const pathOf = ({ name }: Tenant) => `/v1/tenants/${encodeURIComponent(name)}`

/** The tenants, their use and their quotas. */
export function Tenants() {
  const tenants = useLoaded(async () => (await rest<{ tenants: Tenant[] | null }>('GET', '/v1/tenants')).tenants ?? [], [], 5000)
  const [edited, setEdited] = useState<Tenant>()
  const columns = bounds.filter((b) => b.field !== 'requests_per_second')
  return (
    <section aria-labelledby="tenants">
      <h2 id="tenants">{t('Tenants')}</h2>
      <p class="muted lead">{t('Each number is the present use, and the quota if there is one. A tenant without a quota is bounded by the server only.')}</p>
      <Shown of={tenants}>
        {(list) => (
          <div class="scrolls">
            <table class="table">
              <thead>
                <tr>
                  <th scope="col">{t('Tenant')}</th><th scope="col" class="num">{t('Keys')}</th>
                  {columns.map((b) => <th key={b.field} scope="col" class="num">{b.name()}</th>)}
                  {may('admin') && <th scope="col"><span class="sr">{t('Actions')}</span></th>}
                </tr>
              </thead>
              <tbody>
                {list.map((one) => (
                  <tr key={one.name}>
                    <th scope="row">{nameOf(one)} {one.own && <span class="badge">{t('own quota')}</span>}</th>
                    <td class="num">{one.name === others ? '' : one.keys}</td>
                    {columns.map((b) => <td key={b.field} class="num"><Held tenant={one} bound={b} /></td>)}
                    {may('admin') && (
                      <td>
                        <Menu label={t('More for {name}', { name: nameOf(one) })} button={<Icon name="more" />}>
                          {() => (
                            <>
                              <MenuItem onClick={() => setEdited(one)}><Icon name="edit" />{t('Edit quota…')}</MenuItem>
                              {one.own && <MenuItem danger onClick={() => void remove(one, tenants.again)}><Icon name="trash" />{t('Remove quota…')}</MenuItem>}
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
      {may('admin') && <button type="button" class="button" onClick={() => setEdited({ name: '', quota: {}, own: false, keys: 0 } as unknown as Tenant)}><Icon name="add" />{t('Set a quota…')}</button>}
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
      {most > 0 ? rich('{n} of {all}', { n: amount(bound, used), all: <span class="muted">{amount(bound, most)}</span> }) : amount(bound, used)}
      {share !== undefined && <meter class="meter" min={0} max={1} high={0.9} value={share} aria-label={t('{resource} of {name}', { resource: bound.name(), name: nameOf(tenant) })} />}
    </>
  )
}

async function remove(tenant: Tenant, changed: () => Promise<void>): Promise<void> {
  const text = tenant.name === others ? t('Tenants without a quota of their own are then bounded by the server only.') : t('The quota of all others applies to it then.')
  if (!await confirm({ title: t('Remove the quota of {name}?', { name: nameOf(tenant) }), text, yes: t('Remove'), danger: true })) return
  await rest('DELETE', pathOf(tenant)).catch((e: unknown) => failed(t('The quota was not removed'), e))
  await changed()
}

/** Edits the quota of a tenant, or of one whose name is written here. */
function Edit({ tenant, onClose, saved }: { tenant: Tenant; onClose: () => void; saved: () => Promise<void> }) {
  const [wrong, setWrong] = useState('')
  const save = async (form: HTMLFormElement) => {
    const fields = Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, String(v)]))
    const name = tenant.name || fields.tenant!.trim()
    const { quota, wrong = '' } = readQuota(fields)
    if (!quota) return setWrong(t('{field} has to be a number, or empty.', { field: wrong }))
    try {
      await rest('PUT', pathOf({ ...tenant, name }), quota satisfies Quota)
      onClose()
      await saved()
    } catch (e) {
      setWrong(explain(e as Error))
    }
  }
  const title = tenant.name ? t('Quota of {name}', { name: nameOf(tenant) }) : t('Quota of a tenant')
  return (
    <Dialog label={title} onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); void save(e.currentTarget) }}>
        <h2>{title}</h2>
        <p class="muted">{t('An empty field sets no bound.')}</p>
        {!tenant.name && <label class="labelled">{t('Tenant')}<input class="field" name="tenant" required autofocus autocomplete="off" placeholder={t('A name, or {sign} for all others', { sign: others })} /></label>}
        <div class="two">
          {bounds.map((b, i) => (
            <label key={b.field} class="labelled">{b.unitName ? `${b.name()}, ${b.unitName}` : b.name()}
              <input class="field" name={b.field} inputMode="decimal" autocomplete="off" autofocus={tenant.name !== '' && i === 0} defaultValue={tenant.quota[b.field] ? written(b, tenant.quota[b.field]!) : ''} />
            </label>
          ))}
        </div>
        {wrong && <p class="bad" role="alert">{wrong}</p>}
        <div class="actions"><button type="button" class="button" onClick={onClose}>{t('Cancel')}</button><button class="button primary">{t('Save')}</button></div>
      </form>
    </Dialog>
  )
}
