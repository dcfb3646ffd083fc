import { useRef, useState } from 'preact/hooks'
import { useEffect } from 'preact/hooks'
import { Icon } from '../ui/icon'
import type { CellModel } from './cell'
import type { PaneProps } from './pane'

interface Hit {
  cell: CellModel
  from: number
  to: number
  line: string
  at: number
}

/** The maximum number of listed hits. */
const maxHits = 500

/** Searches text in the cells; `replace` changes sources only. */
export function Search({ notebook: n, editors }: PaneProps) {
  const field = useRef<HTMLInputElement>(null)
  const [text, setText] = useState('')
  const [other, setOther] = useState('')
  const [exact, setExact] = useState(false)
  useEffect(() => field.current?.focus(), [])
  const hits: Hit[] = []
  if (text) {
    for (const c of n.cells.value) hits.push(...find(c, text, exact))
  }
  const show = (h: Hit) => {
    n.select(h.cell.id)
    if (h.cell.type.peek() !== 'code') h.cell.editing.value = true
    n.mode.value = 'edit'
    n.focus()
    const wait = (left: number) => requestAnimationFrame(() => {
      const e = editors.get(h.cell.id)?.editor
      if (e) e.select(h.from, h.to)
      else if (left > 0) wait(left - 1)
    })
    wait(60)
  }
  const replace = () => {
    for (const c of new Set(hits.map((h) => h.cell))) {
      let source = c.source.peek()
      for (const h of find(c, text, exact).reverse()) source = source.slice(0, h.from) + other + source.slice(h.to)
      c.source.value = source
    }
  }
  return (
    <form class="search" onSubmit={(e) => { e.preventDefault(); if (hits[0]) show(hits[0]) }}>
      <input ref={field} class="field" type="search" aria-label="Search" placeholder="Search in all cells" value={text} onInput={(e) => setText(e.currentTarget.value)} />
      {!n.readOnly && <div class="row"><input class="field" aria-label="Replace with" placeholder="Replace with" value={other} onInput={(e) => setOther(e.currentTarget.value)} />
        <button type="button" class="button" disabled={hits.length === 0} onClick={replace}>Replace all</button></div>}
      <label class="row"><input type="checkbox" checked={exact} onChange={(e) => setExact(e.currentTarget.checked)} />Match case</label>
      {text && <p class="muted" role="status">{hits.length === 0 ? 'Nothing found' : `${hits.length} ${hits.length === 1 ? 'place' : 'places'}`}</p>}
      <div class="hits">
        {hits.slice(0, maxHits).map((h, i) => (
          <button key={i} type="button" onClick={() => show(h)}><Icon name="code" /><code class="ellipsis">{h.line.slice(Math.max(0, h.at - 20), h.at)}<mark>{h.line.slice(h.at, h.at + h.to - h.from)}</mark>{h.line.slice(h.at + h.to - h.from, h.at + 80)}</code></button>
        ))}
      </div>
    </form>
  )
}

function find(cell: CellModel, text: string, exact: boolean): Hit[] {
  const source = cell.source.value
  const hay = exact ? source : source.toLowerCase()
  const needle = exact ? text : text.toLowerCase()
  const out: Hit[] = []
  for (let i = hay.indexOf(needle); i >= 0; i = hay.indexOf(needle, i + needle.length)) {
    const start = source.lastIndexOf('\n', i - 1) + 1
    const end = source.indexOf('\n', i)
    out.push({ cell, from: i, to: i + text.length, line: source.slice(start, end < 0 ? undefined : end), at: i - start })
  }
  return out
}
