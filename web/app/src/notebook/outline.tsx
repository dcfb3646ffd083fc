import { useEffect, useState } from 'preact/hooks'
import { rich, t } from '../language/texts'
import type { PaneProps } from './pane'

interface Entry {
  cell: string
  level: number
  text: string
}

/** Lists the headings of the text cells. */
export function Outline({ notebook: n }: PaneProps) {
  const [entries, setEntries] = useState<Entry[] | undefined>()
  const cells = n.cells.value
  const texts = cells.filter((c) => c.type.value === 'markdown').map((c) => ({ id: c.id, source: c.source.value }))
  const key = JSON.stringify(texts)
  useEffect(() => {
    let here = true
    void import('./markdown').then(({ headings }) => {
      if (here) setEntries(texts.flatMap(({ id, source }) => headings(source).map((h) => ({ cell: id, ...h }))))
    })
    return () => {
      here = false
    }
  }, [key])
  if (!entries) return null
  if (entries.length === 0) return <p class="muted empty">{rich('Headings of text cells appear here. Make a text cell with {key}, a heading with {sign}.', { key: <kbd>M</kbd>, sign: <code>#</code> })}</p>
  return (
    <nav class="outline" aria-label={t('Outline')}>
      {entries.map((e, i) => (
        <button key={i} type="button" style={{ paddingInlineStart: `${e.level * 12}px` }} aria-current={n.active.value === e.cell ? 'true' : undefined} onClick={() => {
          n.select(e.cell)
          n.mode.value = 'command'
          n.focus()
          n.element(e.cell)?.scrollIntoView({ block: 'start' })
        }}>{e.text}</button>
      ))}
    </nav>
  )
}
