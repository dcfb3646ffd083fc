import { useRef, useState } from 'preact/hooks'
import { t } from '../../language/texts'
import { Icon } from '../../ui/icon'
import type { Notebook } from '../notebook'
import { saveName } from './members'
import type { Person, Sharing } from './sharing'

/** Lists who has the notebook open, and lets the user choose a name. */
export function PeopleHere({ notebook: n, sharing }: { notebook: Notebook; sharing: Sharing }) {
  const [shown, setShown] = useState(false)
  const box = useRef<HTMLSpanElement>(null)
  const people = sharing.people.value
  const self = people.find((p) => p.self)
  const others = people.filter((p) => !p.self)
  const name = others.length === 0 ? t('People here: only you') : t('People here: {names}', { names: others.map((p) => p.user.name).join(', ') })
  const rename = (value: string) => {
    const to = value.trim().slice(0, 40)
    if (!to || to === self?.user.name) return
    saveName(to)
    sharing.setName(to)
  }
  const place = (p: Person) => {
    const i = n.cells.value.findIndex((c) => c.id === p.cell)
    return i < 0 ? '' : t('Cell {n}', { n: i + 1 })
  }
  return (
    <span class="people-here" ref={box} onKeyDown={(e) => { if (e.key === 'Escape' && shown) { e.stopPropagation(); setShown(false) } }}
      onFocusOut={(e) => { if (shown && e.relatedTarget && !box.current!.contains(e.relatedTarget as Node)) setShown(false) }}>
      <button type="button" class="button quiet" aria-label={name} title={name} aria-expanded={shown} onClick={() => setShown(!shown)}>
        {others.length === 0 ? <Icon name="people" /> : others.slice(0, 4).map((p) => <i key={p.client} class="person" style={{ background: p.user.color }}>{initial(p)}</i>)}
        {others.length > 4 && <span class="num">+{others.length - 4}</span>}
      </button>
      {shown && (
        <div class="people-list out-input" role="group" aria-label={t('People here')}>
          <form onSubmit={(e) => { e.preventDefault(); rename(new FormData(e.currentTarget).get('name') as string); setShown(false) }}>
            <label>{t('Your name')} <input class="field" name="name" maxLength={40} autocomplete="nickname" defaultValue={self?.user.name} /></label>
            <button class="button primary">{t('Save')}</button>
          </form>
          <ul>
            {others.map((p) => (
              <li key={p.client}>
                <i class="person" style={{ background: p.user.color }}>{initial(p)}</i><span class="ellipsis">{p.user.name}</span>
                {place(p) && <button type="button" class="button quiet" onClick={() => { n.select(p.cell!); n.mode.value = 'command'; n.focus() }}>{place(p)}</button>}
              </li>
            ))}
          </ul>
          {others.length === 0 && <p class="muted">{t('Nobody else has this notebook open.')}</p>}
        </div>
      )}
    </span>
  )
}

const initial = (p: Person): string => [...p.user.name][0]?.toUpperCase() ?? '?'

/** Shows the others who are in a cell, at its side. */
export function PeopleInCell({ sharing, cell }: { sharing: Sharing; cell: string }) {
  const here = sharing.people.value.filter((p) => !p.self && p.cell === cell)
  if (here.length === 0) return null
  return <span class="people-in-cell">{here.slice(0, 4).map((p) => <i key={p.client} class="person" title={p.user.name} style={{ background: p.user.color }}>{initial(p)}</i>)}</span>
}
