import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { number, t } from '../../language/texts'
import { textOf } from './rows'
import { comparisons, type Comparison, type Source, type Statistics, type View } from './source'

const words = (): Record<Comparison, string> => ({
  contains: t('contains'), '=': t('is|compared with a value'), '≠': t('is not|compared with a value'), '<': t('is less than'), '≤': t('is at most'), '>': t('is greater than'), '≥': t('is at least'),
  missing: t('is missing'), present: t('is not missing'),
})

interface Props {
  source: Source
  view: View
  column: number
  at: DOMRect
  show(view: View): void
  close(): void
}

/** Sorts and filters by a column, and shows its statistics. */
export function ColumnPanel({ source, view, column, at, show, close }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const c = source.columns[column]!
  const before = view.filters.find((f) => f.column === column)
  const others = view.filters.filter((f) => f.column !== column)
  const [is, setIs] = useState<Comparison>(before?.is ?? (c.type === 'integer' || c.type === 'number' || c.type === 'time' ? '≥' : c.type === 'boolean' ? '=' : 'contains'))
  const [value, setValue] = useState(before?.value ?? '')
  const needs = is !== 'missing' && is !== 'present'
  useLayoutEffect(() => {
    const el = box.current!
    el.showPopover()
    const { width, height } = el.getBoundingClientRect()
    el.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`
    el.style.top = `${at.bottom + height < innerHeight - 8 ? at.bottom : Math.max(8, innerHeight - height - 8)}px`
    el.querySelector('button')?.focus()
  }, [])
  const sort = (descending: boolean) => {
    const same = view.sort?.column === column && view.sort.descending === descending
    show({ filters: view.filters, ...(same ? {} : { sort: { column, descending } }) })
    close()
  }
  const pressed = (descending: boolean) => view.sort?.column === column && view.sort.descending === descending
  return (
    <div ref={box} class="menu grid-panel" role="dialog" aria-label={t('Column {name}', { name: c.name || t('index|of rows') })} popover="auto"
      onKeyDown={(e) => {
        e.stopPropagation()
        if (e.key === 'Escape') close()
      }}
      onToggle={(e) => { if ((e as unknown as ToggleEvent).newState === 'closed') close() }}>
      <div class="row">
        <button type="button" class="button" aria-pressed={pressed(false)} onClick={() => sort(false)}>{t('↑ Ascending')}</button>
        <button type="button" class="button" aria-pressed={pressed(true)} onClick={() => sort(true)}>{t('↓ Descending')}</button>
      </div>
      <form class="grid-filter" onSubmit={(e) => {
        e.preventDefault()
        show({ ...view, filters: [...others, { column, is, ...(needs ? { value } : {}) }] })
        close()
      }}>
        <select class="field" aria-label={t('Show rows whose value')} value={is} onChange={(e) => setIs(e.currentTarget.value as Comparison)}>
          {comparisons.map((k) => <option key={k} value={k}>{words()[k]}</option>)}
        </select>
        {needs && <input class="field" aria-label={t('Value')} value={value} onInput={(e) => setValue(e.currentTarget.value)} required />}
        <div class="row">
          <button type="submit" class="button primary">{t('Filter|rows')}</button>
          {before && <button type="button" class="button" onClick={() => { show({ ...view, filters: others }); close() }}>{t('Remove the filter')}</button>}
        </div>
      </form>
      <Numbers source={source} view={view} column={column} />
    </div>
  )
}

/** Shows the statistics of the rows that pass the filters. */
function Numbers({ source, view, column }: { source: Source; view: View; column: number }) {
  const [found, setFound] = useState<Statistics>()
  const [error, setError] = useState('')
  useEffect(() => {
    let here = true
    source.statistics(view, column).then((s) => here && setFound(s), (e: Error) => here && setError(e.message))
    return () => {
      here = false
    }
  }, [])
  if (error) return <p class="muted">{error}.</p>
  if (!found) return <p class="muted" role="status">{t('Computing statistics…')}</p>
  const lines: [string, string][] = [[t('Rows'), number(found.count)], [t('Missing|values'), number(found.missing)]]
  if (found.distinct !== null) lines.push([t('Distinct|values'), number(found.distinct)])
  for (const [key, name] of [['min', t('Minimum')], ['q1', t('Lower quartile')], ['median', t('Median')], ['mean', t('Mean')], ['q3', t('Upper quartile')], ['max', t('Maximum')], ['std', t('Standard deviation')]] as const) {
    const v = found[key]
    if (v !== undefined) lines.push([name, textOf(v)])
  }
  const most = Math.max(1, ...(found.histogram?.counts ?? []))
  return (
    <div class="grid-statistics">
      {found.histogram && (
        <svg viewBox={`0 0 ${found.histogram.counts.length * 10} 48`} preserveAspectRatio="none" role="img" aria-label={t('Histogram from {from} to {to}', { from: textOf(found.histogram.edges[0]!), to: textOf(found.histogram.edges.at(-1)!) })}>
          {found.histogram.counts.map((k, i) => <rect key={i} x={i * 10 + 0.5} width="9" y={48 - k / most * 46} height={k / most * 46} />)}
        </svg>
      )}
      <dl>{lines.map(([name, v]) => <div key={name}><dt>{name}</dt><dd class="num">{v}</dd></div>)}</dl>
      {found.top && found.top.length > 0 && (
        <table aria-label={t('Most common values')}>
          <tbody>{found.top.map(([v, k]) => <tr key={v}><th scope="row" title={v}>{v === '' ? t('(empty)') : v}</th><td class="num">{number(k)}</td></tr>)}</tbody>
        </table>
      )}
    </div>
  )
}
