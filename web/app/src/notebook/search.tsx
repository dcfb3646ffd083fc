import { useEffect, useRef, useState } from 'preact/hooks'
import { plural, t } from '../language/texts'
import { Icon } from '../ui/icon'
import type { CellModel } from './cell'
import { expression, places, rangeIn, replaced, shownText, type Place, type Query } from './find'
import type { PaneProps } from './pane'
import './search.css'

interface Hit extends Place {
  cell: CellModel
  /** It is in the output, which nothing replaces. */
  output: boolean
}

/** The maximum number of listed hits. */
const maxHits = 500
/** The name of the mark for a hit in an output. */
const found = 'found'

/** Searches text in the cells and their outputs; replaces it in sources only. */
export function Search({ notebook: n, editors }: PaneProps) {
  const field = useRef<HTMLInputElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const [q, setQuery] = useState<Query>({ text: '', exact: false, pattern: false })
  const [other, setOther] = useState('')
  const [outputs, setOutputs] = useState(true)
  const [at, setAt] = useState<number>()
  useEffect(() => {
    field.current?.focus()
    return () => void CSS.highlights?.delete(found)
  }, [])
  void n.turns.value // outputs have changed
  let wrong = ''
  const hits: Hit[] = []
  if (q.text) {
    try {
      const re = expression(q)
      for (const cell of n.cells.value) {
        const left = () => maxHits - hits.length
        hits.push(...places(cell.source.value, re, left()).map((p) => ({ ...p, cell, output: false })))
        if (outputs) hits.push(...places(shownText(cell.output.el), re, left()).map((p) => ({ ...p, cell, output: true })))
      }
    } catch (e) {
      wrong = (e as Error).message.replace(/^Invalid regular expression: /, '')
    }
  }
  const change = (part: Partial<Query>) => {
    setQuery({ ...q, ...part })
    setAt(undefined)
  }
  /** Shows a hit, and leaves the focus in this pane, or gives it to the cell. */
  const show = (i: number, enter: boolean) => {
    const h = hits[i]
    if (!h) return
    setAt(i)
    CSS.highlights?.delete(found)
    n.select(h.cell.id)
    if (h.output) return showOutput(h)
    if (h.cell.type.peek() !== 'code') h.cell.editing.value = true
    if (enter) {
      n.mode.value = 'edit'
      n.focus()
    }
    n.element(h.cell.id)?.scrollIntoView({ block: 'nearest' })
    const wait = (left: number) => requestAnimationFrame(() => {
      const e = editors.get(h.cell.id)?.editor
      if (e) e.select(h.from, h.to)
      else if (left > 0) wait(left - 1)
    })
    wait(60)
  }
  const showOutput = (h: Hit) => {
    h.cell.folded.value = false
    requestAnimationFrame(() => {
      const range = rangeIn(h.cell.output.el, h.from, h.to)
      range?.startContainer.parentElement?.scrollIntoView({ block: 'center' })
      if (range && CSS.highlights) CSS.highlights.set(found, new Highlight(range))
    })
  }
  const step = (by: number) => {
    if (hits.length === 0) return
    const i = at === undefined ? (by > 0 ? 0 : hits.length - 1) : (at + by + hits.length) % hits.length
    show(i, false)
    list.current?.children[i]?.scrollIntoView({ block: 'nearest' })
  }
  const sources = hits.filter((h) => !h.output)
  const replaceAll = () => {
    for (const c of new Set(sources.map((h) => h.cell))) c.source.value = replaced(c.source.peek(), q, other)
    setAt(undefined)
    n.said.value = plural(sources.length, '1 replaced', '{n} replaced')
  }
  const replaceOne = () => {
    const i = at !== undefined && hits[at] && !hits[at].output ? at : hits.findIndex((h) => !h.output)
    const h = hits[i]
    if (!h) return
    h.cell.source.value = replaced(h.cell.source.peek(), q, other, h.from)
    setAt(i < hits.length - 1 || i === 0 ? i : i - 1)
  }
  const box = (label: string, checked: boolean, set: (v: boolean) => void) => (
    <label class="row"><input type="checkbox" checked={checked} onChange={(e) => set(e.currentTarget.checked)} />{label}</label>
  )
  const status = () => {
    if (hits.length === 0) return t('Nothing found')
    const all = hits.length < maxHits
    if (at === undefined) return all ? plural(hits.length, '1 place', '{n} places') : t('the first {n} places', { n: maxHits })
    return all ? plural(hits.length, '{at} of 1 place', '{at} of {n} places', { at: at + 1 }) : t('{at} of the first {n} places', { at: at + 1, n: maxHits })
  }
  return (
    <form class="search" onSubmit={(e) => e.preventDefault()}
      onKeyDown={(e) => {
        if (e.key !== 'Enter' || e.target !== field.current) return
        e.preventDefault()
        step(e.shiftKey ? -1 : 1)
      }}>
      <div class="row">
        <input ref={field} class="field" type="search" aria-label={t('Search')} placeholder={t('Search in all cells')} aria-invalid={wrong !== ''} value={q.text} onInput={(e) => change({ text: e.currentTarget.value })} />
        <button type="button" class="button icon quiet" aria-label={t('Previous')} title={t('Previous (Shift Enter)')} disabled={hits.length === 0} onClick={() => step(-1)}><Icon name="up" /></button>
        <button type="button" class="button icon quiet" aria-label={t('Next')} title={t('Next (Enter)')} disabled={hits.length === 0} onClick={() => step(1)}><Icon name="down" /></button>
      </div>
      {!n.readOnly && <div class="row replace-row"><input class="field" aria-label={t('Replace with')} placeholder={t('Replace with')} value={other} onInput={(e) => setOther(e.currentTarget.value)} />
        <button type="button" class="button" disabled={sources.length === 0} onClick={replaceOne}>{t('Replace')}</button>
        <button type="button" class="button" disabled={sources.length === 0} onClick={replaceAll}>{t('Replace all')}</button></div>}
      <div class="search-options">
        {box(t('Match case'), q.exact, (exact) => change({ exact }))}
        {box(t('Regular expression'), q.pattern, (pattern) => change({ pattern }))}
        {box(t('In outputs too'), outputs, (v) => { setOutputs(v); setAt(undefined) })}
      </div>
      {wrong && <p class="bad" role="alert">{t('The expression is not valid: {why}.', { why: wrong })}</p>}
      {q.text && !wrong && <p class="muted" role="status">{status()}</p>}
      <div class="hits" ref={list}>
        {hits.map((h, i) => (
          <button key={i} type="button" aria-current={i === at ? 'true' : undefined} onClick={() => show(i, true)}><Icon name={h.output ? 'list' : 'code'} />{h.output && <span class="sr">{t('Output:')} </span>}<code class="ellipsis">{h.line.slice(Math.max(0, h.at - 20), h.at)}<mark>{h.line.slice(h.at, h.at + h.to - h.from)}</mark>{h.line.slice(h.at + h.to - h.from, h.at + 80)}</code></button>
        ))}
      </div>
    </form>
  )
}
