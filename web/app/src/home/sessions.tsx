import { signal } from '@preact/signals'
import type { Sandbox } from '@sandgate/client/base'
import { number, plural, t } from '../language/texts'
import { offers, rest } from '../rest'
import { languageName } from '../server'
import { confirm } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { failed } from '../ui/toast'
import { matches, stateName, states, type State } from './filter'
import { Row, type Detail } from './row'

/** A list that is shorter has no filter. */
const fewest = 4

const text = signal('')
const state = signal<State | ''>('')
/** The ids of the selected sessions; undefined while sessions are not selected. */
const selected = signal<ReadonlySet<string> | undefined>(undefined)

interface Props {
  list: Sandbox[]
  details: Record<string, Detail>
  titles: ReadonlyMap<string, string>
  changed: () => Promise<void>
}

const capital = (s: string) => s[0]!.toUpperCase() + s.slice(1)

/** Lists sessions, the one that was used last first, with a filter and actions on several. */
export function Sessions({ list, details, titles, changed }: Props) {
  const filtered = list.length >= fewest || text.value !== '' || state.value !== ''
  const sorted = [...list].sort((a, b) => b.info.active_ms - a.info.active_ms)
  const shown = filtered ? sorted.filter((s) => matches(s.info, text.value, state.value, `${languageName(s.info.language)} ${titles.get(s.id) ?? ''}`)) : sorted
  const some = selected.value
  const pick = (id: string, on: boolean) => {
    const ids = new Set(some)
    if (on) ids.add(id)
    else ids.delete(id)
    selected.value = ids
  }
  return (
    <>
      {filtered && (
        <div class="filters" role="search" aria-label={t('Filter your sessions')}>
          <input class="field grow" type="search" aria-label={t('Search your sessions')} placeholder={t('Name, language, template or label')} value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} />
          <select class="field" aria-label={t('State')} value={state.value} onChange={(e) => (state.value = e.currentTarget.value as State | '')}>
            <option value="">{t('All states')}</option>{states.map((s) => <option key={s} value={s}>{capital(stateName(s))}</option>)}
          </select>
          <button type="button" class="button" aria-pressed={some !== undefined} onClick={() => (selected.value = some ? undefined : new Set())}>{some ? t('Done') : t('Select')}</button>
        </div>
      )}
      {some && <Actions shown={shown} picked={shown.filter((s) => some.has(s.id))} changed={changed} />}
      {shown.length === 0
        ? <div class="empty-box"><p>{t('No session matches the filter.')}</p><button type="button" class="button" onClick={() => { text.value = ''; state.value = '' }}>{t('Show all {n}', { n: number(list.length) })}</button></div>
        : <ul class="sessions">{shown.map((s) => <Row key={s.id} session={s} detail={details[s.id] ?? {}} title={titles.get(s.id)} changed={changed} onLabel={(label) => (text.value = label)} {...(some ? { picked: some.has(s.id), onPick: (on: boolean) => pick(s.id, on) } : {})} />)}</ul>}
    </>
  )
}

/** The actions on the selected sessions. */
function Actions({ shown, picked, changed }: { shown: Sandbox[]; picked: Sandbox[]; changed: () => Promise<void> }) {
  const n = picked.length
  const each = async (act: (s: Sandbox) => Promise<unknown>, what: (wrong: string) => string) => {
    const results = await Promise.allSettled(picked.map(act))
    const wrong = results.filter((r) => r.status === 'rejected')
    if (wrong.length) failed(what(number(wrong.length)), wrong[0]!.reason)
    await changed()
  }
  const post = (op: string) => (s: Sandbox) => rest('POST', `/v1/sessions/${encodeURIComponent(s.id)}/${op}`)
  return (
    <div class="filters" role="group" aria-label={t('Actions on the selected sessions')}>
      <label class="row"><input type="checkbox" checked={n > 0 && n === shown.length} onChange={(e) => (selected.value = new Set(e.currentTarget.checked ? shown.map((s) => s.id) : []))} />{t('All')}</label>
      <span class="muted grow" role="status">{n === 0 ? t('Select sessions') : plural(n, '{n} session selected', '{n} sessions selected')}</span>
      {offers('POST /v1/sessions/{id}/pause') && <button type="button" class="button" disabled={n === 0} onClick={() => void each(post('pause'), (wrong) => plural(n, 'The session was not paused', '{wrong} of {n} sessions were not paused', { wrong }))}><Icon name="pause" />{t('Pause')}</button>}
      <button type="button" class="button" disabled={n === 0} onClick={() => void each(post('hibernate'), (wrong) => plural(n, 'The session was not hibernated', '{wrong} of {n} sessions were not hibernated', { wrong }))}><Icon name="moon" />{t('Hibernate')}</button>
      <button type="button" class="button danger" disabled={n === 0} onClick={async () => {
        if (!await confirm({ title: plural(n, 'End {n} session?', 'End {n} sessions?'), text: t('Their variables, files and running programs are deleted. Download the files that you need first.'), yes: plural(n, 'End {n} session', 'End {n} sessions'), danger: true })) return
        await each((s) => s.delete(), (wrong) => plural(n, 'The session was not ended', '{wrong} of {n} sessions were not ended', { wrong }))
        selected.value = undefined
      }}><Icon name="trash" />{t('End…')}</button>
    </div>
  )
}
