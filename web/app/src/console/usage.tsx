import { signal } from '@preact/signals'
import type { UsageSum } from '@sandgate/client/base'
import { number, plural, t } from '../language/texts'
import { rest } from '../rest'
import { Icon } from '../ui/icon'
import { dayMS, lastDays, measures, type Day, type Measure } from './days'
import { restText, saveFile, Shown, useLoaded } from './load'
import { MissingRecords, type Missing } from './missing'
import { Words } from './words'

/** The groups of a report: the key of a request, the head of the table, and the choice. */
const groups = (): [key: string, name: string, choice: string][] => [
  ['tenant', t('Tenant'), t('By tenant')], ['subject', t('Key or user'), t('By key or user')], ['session', t('Session'), t('By session')], ['day', t('Day'), t('By day')],
]
const spans = [7, 30, 90]

const span = signal(30)
const measure = signal<Measure>(measures[0])
const group = signal('tenant')
const label = signal('')

/** The parameters of a report: from midnight UTC of the first day. */
function query(by: string): URLSearchParams {
  const today = Math.floor(Date.now() / dayMS) * dayMS
  const q = new URLSearchParams({ by, from_ms: String(today - (span.value - 1) * dayMS) })
  if (label.value) q.append('label', label.value)
  return q
}

const report = (by: string) => rest<{ sums: UsageSum[] | null; missing?: Missing[] }>('GET', `/v1/usage?${query(by)}`)

/** The recorded use over time, and by tenant, key, session or label. */
export function Usage() {
  const by = group.value
  const days = useLoaded(() => report('day'), [span.value, label.value])
  const sums = useLoaded(() => report(by), [span.value, label.value, by])
  const m = measure.value
  return (
    <section aria-labelledby="usage">
      <h2 id="usage">{t('Usage')}</h2>
      <div class="filters">
        <select class="field" aria-label={t('Time')} value={span.value} onChange={(e) => (span.value = Number(e.currentTarget.value))}>{spans.map((n) => <option key={n} value={n}>{plural(n, 'Last day', 'Last {n} days')}</option>)}</select>
        <select class="field" aria-label={t('Measure')} value={m.field} onChange={(e) => (measure.value = measures.find((x) => x.field === e.currentTarget.value)!)}>{measures.map((x) => <option key={x.field} value={x.field}>{x.name()}</option>)}</select>
        <select class="field" aria-label={t('Group by')} value={by} onChange={(e) => (group.value = e.currentTarget.value)}>{groups().map(([key,, choice]) => <option key={key} value={key}>{choice}</option>)}</select>
        <Words label={t('Label')} placeholder={t('Label, such as team:red')} value={label.value} entered={(text) => (label.value = text)} />
        <button type="button" class="button" onClick={() => void saveFile(() => restText(`/v1/usage?${query(by)}&format=csv`), `usage-by-${by}.csv`)}><Icon name="download" />CSV</button>
      </div>
      <Shown of={days}>{(r) => <Chart days={lastDays(r.sums ?? [], span.value, Date.now())} measure={m} />}</Shown>
      <Shown of={sums}>
        {({ sums, missing }) => (
          <>
            <MissingRecords list={missing ?? []} />
            {!sums?.length
              ? <div class="empty-box"><p>{t('Nothing was used in this time.')}</p></div>
              : <Sums sums={sums} group={by} by={m} />}
          </>
        )}
      </Shown>
    </section>
  )
}

const height = 120

/** Bars, one for each day. The table below has the same numbers for readers of the screen. */
function Chart({ days, measure: m }: { days: Day[]; measure: Measure }) {
  const values = days.map((d) => Number(d.sum?.[m.field] ?? 0))
  const most = Math.max(...values)
  const total = values.reduce((a, b) => a + b, 0)
  const width = 100 / days.length
  return (
    <figure class="chart">
      <figcaption class="row"><strong class="grow">{m.name()}: {m.text(total)}</strong><span class="muted">{t('most in a day: {most}', { most: m.text(most) })}</span></figcaption>
      <svg viewBox={`0 0 100 ${height}`} preserveAspectRatio="none" role="img" aria-label={plural(days.length, '{measure} on 1 day, {total} in total', '{measure} on each of {n} days, {total} in total', { measure: m.name(), total: m.text(total) })}>
        {days.map((d, i) => {
          const h = most > 0 ? Math.max(values[i]! > 0 ? 1 : 0, values[i]! / most * (height - 4)) : 0
          return (
            <g key={d.day}>
              <rect class="bar-space" x={i * width} y={0} width={width} height={height}><title>{d.day}: {m.text(values[i]!)}</title></rect>
              <rect class="bar-value" x={i * width + width * 0.12} y={height - h} width={width * 0.76} height={h} />
            </g>
          )
        })}
      </svg>
      <div class="row muted chart-ends"><span class="grow">{days[0]?.day}</span><span>{days.at(-1)?.day}</span></div>
    </figure>
  )
}

/** The sums of one group, with those that used most first; days stay in their order. */
function Sums({ sums, group, by }: { sums: UsageSum[]; group: string; by: Measure }) {
  const sorted = group === 'day' ? sums : [...sums].sort((a, b) => Number(b[by.field]) - Number(a[by.field]))
  return (
    <div class="scrolls">
      <table class="table">
        <thead><tr><th scope="col">{groups().find(([key]) => key === group)![1]}</th><th scope="col" class="num">{t('Sessions')}</th>{measures.map((m) => <th key={m.field} scope="col" class="num">{m.name()}</th>)}</tr></thead>
        <tbody>
          {sorted.slice(0, 200).map((s) => (
            <tr key={s.key}><th scope="row">{s.key || '–'}</th><td class="num">{number(s.sessions)}</td>{measures.map((m) => <td key={m.field} class="num">{m.text(Number(s[m.field]))}</td>)}</tr>
          ))}
        </tbody>
      </table>
      {sorted.length > 200 && <p class="muted">{t('The first {n} of {all} are shown. The CSV file has all.', { n: 200, all: number(sorted.length) })}</p>}
    </div>
  )
}
