import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { AuditEntry } from '@sandgate/client/base'
import { t, time } from '../language/texts'
import { rest } from '../rest'
import { notebookPath } from '../router'
import { may } from '../server'
import { Icon } from '../ui/icon'
import { failed } from '../ui/toast'
import { describeEntry, events, olderEntries, spans, wholeTable, type AuditPage, type Filter, type Stretch } from './auditfilter'
import { restText, saveFile, Shown, useLoaded } from './load'
import { MissingRecords } from './missing'
import { Words } from './words'

const filter = signal<Filter>({ event: '', session: '', hours: 24 })

/** The audit log, with the newest entries first. */
export function Audit() {
  const f = filter.value
  const [now, setNow] = useState(Date.now)
  const first = useLoaded(() => olderEntries(ask, f, now), [f, now])
  const [more, setMore] = useState<Stretch[]>([])
  const [asking, setAsking] = useState(false)
  useEffect(() => setMore([]), [first.value])
  const older = async (end: Stretch) => {
    setAsking(true)
    try {
      const next = await olderEntries(ask, f, now, end.from, 2 * end.length)
      setMore((before) => [...before, next])
    } catch (e) {
      failed(t('Older entries were not listed'), e)
    }
    setAsking(false)
  }
  const set = (change: Partial<Filter>) => {
    filter.value = { ...f, ...change }
    setNow(Date.now())
  }
  return (
    <section aria-labelledby="audit">
      <h2 id="audit">{t('Audit log')}</h2>
      <div class="filters" role="search" aria-label={t('Filter the audit log')}>
        <select class="field" aria-label={t('Time')} value={f.hours} onChange={(e) => set({ hours: Number(e.currentTarget.value) })}>{spans().map(([hours, name]) => <option key={hours} value={hours}>{name}</option>)}</select>
        <Words label={t('Event')} placeholder={t('Event, such as session.create')} list="events" value={f.event} entered={(event) => set({ event })} />
        <datalist id="events">{events.map((e) => <option key={e} value={e} />)}</datalist>
        <Words label={t('Session')} placeholder={t('Session')} value={f.session} entered={(session) => set({ session })} />
        <button type="button" class="button" onClick={() => setNow(Date.now())}><Icon name="restart" />{t('Refresh')}</button>
        <button type="button" class="button" onClick={() => void saveFile(() => wholeTable(ask, (q) => restText(`/v1/audit?${q}`), f, now), 'audit.csv')}><Icon name="download" />CSV</button>
      </div>
      <div class="filters" role="group" aria-label={t('Frequent questions')}>
        {([[t('Connections to the network'), 'egress'], [t('Refused sign-ins'), 'auth.failed'], [t('New keys'), 'key.create'], [t('Ended sessions'), 'session.end']] as const).map(([name, event]) => (
          <button key={event} type="button" class="button pill" aria-pressed={f.event === event} onClick={() => set({ event: f.event === event ? '' : event })}>{name}</button>
        ))}
      </div>
      <Shown of={first}>
        {(newest) => {
          const all = [newest, ...more]
          const end = all.at(-1)!
          return (
            <>
              <MissingRecords list={all.flatMap((s) => s.missing)} />
              {all.every((s) => s.entries.length === 0)
                ? <div class="empty-box"><p>{t('No entry matches the filter.')}</p></div>
                : <Entries list={all.flatMap((s) => s.entries)} />}
              {all.some((s) => s.cut) && <p class="muted">{t('There are more entries in this time than can be shown here. Choose an event or a session, or save the file.')}</p>}
              {!end.last && <button type="button" class="button" disabled={asking} onClick={() => void older(end)}>{t('Older entries')}</button>}
            </>
          )
        }}
      </Shown>
    </section>
  )
}

const ask = (q: URLSearchParams) => rest<AuditPage>('GET', `/v1/audit?${q}`)

function Entries({ list }: { list: AuditEntry[] }) {
  return (
    <div class="scrolls">
      <table class="table audit">
        <thead><tr><th scope="col">{t('Time')}</th><th scope="col">{t('Event')}</th>{may('admin') && <th scope="col">{t('Tenant')}</th>}<th scope="col">{t('By|a key or user')}</th><th scope="col">{t('Session')}</th><th scope="col">{t('Result')}</th><th scope="col">{t('Details')}</th></tr></thead>
        <tbody>
          {list.map((e, i) => (
            <tr key={i}>
              <td><time dateTime={e.time}>{time(Date.parse(e.time))}</time></td>
              <td>{e.event}</td>
              {may('admin') && <td>{e.tenant}</td>}
              <td>{e.subject}</td>
              <td>{e.session && <a href={notebookPath(e.session)}>{e.session.slice(0, 10)}</a>}</td>
              <td class={e.outcome && e.outcome !== 'ok' && e.outcome !== 'begins' ? 'bad' : undefined}>{e.outcome}</td>
              <td class="details">{describeEntry(e)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
