import { useSignalEffect } from '@preact/signals'
import { useState } from 'preact/hooks'
import type { NotebookVersion } from '@sandgate/client/base'
import { t } from '../../language/texts'
import { may } from '../../server'
import { explain } from '../../ui/again'
import { bytes } from '../../ui/bytes'
import { ask, confirm } from '../../ui/dialog'
import { Icon } from '../../ui/icon'
import { Menu, MenuItem } from '../../ui/menu'
import { failed, toast } from '../../ui/toast'
import type { PaneProps } from '../pane'
import { nameVersion, storedID, versionsOf } from '../stored'
import { Difference, now } from './difference'
import { restore, save } from './restore'
import { nameOf } from './when'
import './versions.css'

/** Lists the stored versions of the notebook, to compare, to name and to restore one. */
export function Versions({ notebook: n }: PaneProps) {
  const [id, setID] = useState<string>()
  const [versions, setVersions] = useState<NotebookVersion[]>()
  const [error, setError] = useState<Error>()
  const [compared, setCompared] = useState<[from: string, to: string]>()
  const [going, setGoing] = useState(false)
  const load = async () => {
    try {
      const found = await storedID(n.session.id, n.path)
      setID(found)
      setVersions(found ? await versionsOf(found) : [])
      setError(undefined)
    } catch (e) {
      setError(e as Error)
    }
  }
  // Each save can add a version.
  useSignalEffect(() => {
    if (n.saved.value !== 'saving') void load()
  })
  const writes = !n.readOnly && n.ended.value === undefined && may('sessions:write')
  const busy = async (what: string, f: () => Promise<void>) => {
    setGoing(true)
    try {
      await f()
    } catch (e) {
      failed(what, e)
    }
    await load()
    setGoing(false)
  }
  const rename = async (v: NotebookVersion) => {
    const name = await ask({ title: t('Name this version'), text: t('A version with a name is kept. An empty name removes it.'), value: v.name ?? '', placeholder: t('Name'), yes: t('Save name') })
    if (name !== undefined && name !== (v.name ?? '')) await busy(t('The version was not named'), () => nameVersion(id!, v.id, name.trim()))
  }
  const nameNow = async () => {
    const name = await ask({ title: t('Name the notebook as it is now'), text: t('It becomes a version with this name, which is kept.'), value: '', placeholder: t('Name'), yes: t('Save version') })
    if (!name?.trim()) return
    await busy(t('The version was not named'), async () => {
      await save(n)
      const stored = await storedID(n.session.id, n.path)
      const newest = stored && (await versionsOf(stored))[0]
      if (!newest) throw new Error(t('The server has no copy of this notebook'))
      await nameVersion(stored, newest.id, name.trim())
    })
  }
  const bringBack = async (v: NotebookVersion) => {
    setCompared(undefined)
    const yes = await confirm({ title: t('Restore this version?'), text: t('The notebook becomes that of {version}, with its outputs. Its present state stays in the list. Variables and files do not change.', { version: nameOf(v) }), yes: t('Restore') })
    if (!yes) return
    await busy(t('The version was not restored'), async () => {
      await restore(n, id!, v.id)
      toast(t('The version is restored. The state before it is the next one in the list'))
      n.said.value = t('The version is restored')
    })
  }
  return (
    <div class="versions-pane">
      {writes && <button type="button" class="button" disabled={going} onClick={() => void nameNow()}><Icon name="add" />{t('Save a named version')}</button>}
      {error && <p class="bad" role="alert">{t('The versions were not loaded.')} {explain(error)} <button type="button" class="button" onClick={() => void load()}>{t('Try again')}</button></p>}
      {!error && versions?.length === 0 && <p class="muted empty">{t('There is no version yet. The server keeps one of each five minutes in which the notebook is saved.')}</p>}
      <ul class="versions" aria-label={t('Versions')} aria-busy={going || !versions}>
        {versions?.map((v, i) => (
          <li key={v.id} class="row">
            <button type="button" class="version grow" onClick={() => setCompared([v.id, now])} title={t('Compare with the notebook now')}>
              <span class="version-name">{nameOf(v)}</span>
              <span class="muted">{v.name ? `${nameOf({ ...v, name: '' })} · ` : ''}{v.subject ? `${v.subject} · ` : ''}{bytes(v.bytes)}{i === 0 ? ` · ${t('newest|version')}` : ''}</span>
            </button>
            <Menu label={t('More for {name}', { name: nameOf(v) })} button={<Icon name="more" />}>
              {() => (
                <>
                  <MenuItem onClick={() => setCompared([v.id, now])}>{t('Compare with the notebook now')}</MenuItem>
                  {versions[i + 1] && <MenuItem onClick={() => setCompared([versions[i + 1]!.id, v.id])}>{t('Compare with the version before')}</MenuItem>}
                  {writes && <><hr /><MenuItem disabled={going} onClick={() => void rename(v)}>{v.name ? t('Rename…') : t('Name…')}</MenuItem>
                    <MenuItem disabled={going} onClick={() => void bringBack(v)}>{t('Restore…')}</MenuItem></>}
                </>
              )}
            </Menu>
          </li>
        ))}
      </ul>
      {compared && versions && id && (
        <Difference notebook={n} stored={id} versions={versions} from={compared[0]} to={compared[1]} close={() => setCompared(undefined)} {...(writes ? { restore: (v: NotebookVersion) => void bringBack(v) } : {})} />
      )}
    </div>
  )
}
