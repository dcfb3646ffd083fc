// Tests the parts of the console that compute: metrics, quotas, days, entries of the audit log.
import type { AuditEntry, NodeInfo, Tenant, UsageSum } from '@sandgate/client/base'
import { afterEach, describe, expect, it } from 'vitest'
import { describeEntry, olderEntries, queryOf, wholeTable } from '../src/console/auditfilter'
import { stateOf, usesOf, versionsOf } from '../src/console/capacity'
import { dayMS, lastDays, measures } from '../src/console/days'
import { describeMissing } from '../src/console/missing'
import { readMetrics, sumBy } from '../src/console/metrics'
import { amount, bounds, part, readQuota, written } from '../src/console/quota'
import { german } from '../src/language/de/index'
import { english, language } from '../src/language/texts'
import { parse } from '../src/router'
import { bytes } from '../src/ui/bytes'

afterEach(() => {
  language.value = english
})

describe('metrics', () => {
  const samples = readMetrics([
    '# HELP a_total Some.', '# TYPE a_total counter', 'a_total{node="n1",use="pool"} 2', 'a_total{node="n1",use="session"} 3', 'a_total{node="n2",use="pool"} 4',
    'b 1.5e3', 'c{text="a \\"b\\", {c}\\\\"} 7', 'broken', '',
  ].join('\n'))
  it('are read with labels and escapes', () => {
    expect(samples.map((s) => s.value)).toEqual([2, 3, 4, 1500, 7])
    expect(samples[4]!.labels).toEqual({ text: 'a "b", {c}\\' })
  })
  it('are added up by a label', () => {
    expect([...sumBy(samples, 'a_total', 'node')]).toEqual([['n1', 5], ['n2', 4]])
    expect([...sumBy(samples, 'b', 'node')]).toEqual([['', 1500]])
  })
})

describe('nodes', () => {
  const node = (o: Partial<NodeInfo>) => ({ name: 'n', state: 'ready', movable: true, sessions: 1, places: 4, hibernated: 0, ready: 0, pool_size: 0, ...o }) as NodeInfo
  it('have a capacity together, without what is unknown', () => {
    const texts = (nodes: NodeInfo[]) => usesOf(nodes).map((u) => `${u.name}: ${u.text}`)
    expect(texts([node({ processors: 0.5, memory: 1e9, memory_used: 2e8 }), node({ sessions: 2, processors: 1, memory: 1e9 })]))
      .toEqual(['Sessions: 3 of 8', 'Memory: 200 MB of 2.0 GB', 'Processors: 75 %'])
    expect(texts([node({ disk: 4e9, disk_free: 1e9 })])).toContain('Disk: 3.0 GB of 4.0 GB')
    expect(texts([])).toEqual([])
    expect([0, 999, 1000, 999_000_000_000, 1_074_000_000_000, 2e16].map(bytes)).toEqual(['0 B', '999 B', '1.0 kB', '999 GB', '1.1 TB', '20000 TB'])
  })
  it('are described by their state', () => {
    expect(stateOf(node({}))).toBe('')
    expect(stateOf(node({ state: 'draining', hibernated: 1200 }))).toBe('Takes no sessions. 1,201 sessions left.')
    expect(stateOf(node({ state: 'drained', moved: { parked: 1, stayed: 0 } }))).toBe('Takes no sessions. 1 session moved. The machine can be stopped.')
    expect(stateOf(node({ state: 'drained', moved: { parked: 0, stayed: 1, templates: 2 } }))).toBe('Takes no sessions. 0 sessions moved. 1 session could not move, 2 templates only here.')
    expect(stateOf(node({ state: 'drained', moved: { parked: 2, stayed: 0, editions: 1 } }))).toBe('Takes no sessions. 2 sessions moved. 1 image of moved sessions only here.')
    expect(stateOf(node({ state: 'drained', drain_error: 'no store' }))).toBe('Takes no sessions. The drain failed: no store')
    expect(stateOf(node({ state: 'unreachable' }))).toMatch(/does not answer/i)
    language.value = german
    expect(stateOf(node({ state: 'drained', moved: { parked: 1200, stayed: 1, templates: 2 } })))
      .toBe('Nimmt keine Sitzungen an. 1.200 Sitzungen sind umgezogen. 1 Sitzung konnte nicht umziehen, 2 Vorlagen nur hier.')
  })
  it('have versions', () => expect(versionsOf([node({ version: '2' }), node({ version: '1' }), node({ version: '2' }), node({})])).toEqual(['1', '2']))
})

describe('quotas', () => {
  const bound = (field: string) => bounds.find((b) => b.field === field)!
  it('are read from a form', () => {
    const quota = { sessions: 1000, memory_bytes: 2048 * 1024 * 1024, cpus: 1.5 }
    expect(readQuota({ sessions: '1,000', memory_bytes: '2048', cpus: '1.5', disk_bytes: ' ', running: '0' })).toEqual({ quota })
    expect([written(bound('cpus'), 1.5), written(bound('memory_bytes'), 2 ** 31)]).toEqual(['1.5', '2048'])
    language.value = german
    expect(readQuota({ sessions: '1.000', memory_bytes: '2.048', cpus: '1,5' })).toEqual({ quota })
    expect([written(bound('cpus'), 1.5), amount(bound('memory_bytes'), 2 ** 31)]).toEqual(['1,5', '2.048 MiB'])
  })
  it.each([['sessions', '1.5', 'Sessions'], ['memory_bytes', 'much', 'Memory'], ['cpus', '-1', 'Processors'], ['keep_alive', '1e999', 'Sessions kept awake'], ['cpus', '1,5', 'Processors']])(
    'names the field %s that is wrong: %s', (field, text, name) => expect(readQuota({ [field]: text })).toEqual({ wrong: name }))
  it('are shown with units, and with the part that is used', () => {
    const t = { name: 'a', quota: { sessions: 4, memory_bytes: 2 ** 30 }, use: { sessions: 1, memory_bytes: 3 * 2 ** 30, cpus: 2 } } as unknown as Tenant
    expect(amount(bound('memory_bytes'), 1 << 30)).toBe('1,024 MiB')
    expect(amount(bound('cpus'), 0.25)).toBe('0.25')
    expect(['sessions', 'memory_bytes', 'cpus', 'requests_per_second'].map((f) => part(t, bound(f)))).toEqual([0.25, 1, undefined, undefined])
  })
})

describe('usage', () => {
  it('has a day for each day, also for those without use', () => {
    const sums = [{ key: '2026-11-28', cells: 3 }, { key: '2026-01-01', cells: 9 }] as unknown as UsageSum[]
    const days = lastDays(sums, 3, Date.UTC(2026, 10, 29, 23, 59))
    expect(days.map((d) => [d.day, d.sum?.cells])).toEqual([['2026-11-27', undefined], ['2026-11-28', 3], ['2026-11-29', undefined]])
    expect(lastDays([], 400, 400 * dayMS).length).toBe(400)
  })
  it('is written in units for people', () => {
    const text = (field: string, n: number) => measures.find((m) => m.field === field)!.text(n)
    expect([text('cpu_seconds', 12.34), text('cpu_seconds', 90), text('seconds', 5400), text('memory_mib_seconds', 1024 * 3600), text('bytes_out', 2_500_000)])
      .toEqual(['12.3 s', '1.5 min', '1.5 h', '1 GiB hours', '2.5 MB'])
    language.value = german
    expect([text('cpu_seconds', 90), text('memory_mib_seconds', 1024 * 5400), text('bytes_out', 2_500_000)]).toEqual(['1,5 min', '1,5 GiB-Stunden', '2,5 MB'])
  })
})

describe('the audit log', () => {
  it('is asked for with the filter only', () => {
    expect(queryOf({ event: '', session: '', hours: 0 }, 5, 10).toString()).toBe('limit=10')
    expect(queryOf({ event: 'egress', session: 's_1', hours: 1 }, 3_600_005, 10).toString()).toBe('limit=10&event=egress&session=s_1&from_ms=5')
  })
  it('lists the newest first, from longer and longer times', async () => {
    const hour = 3_600_000
    const now = 1000 * hour
    const times = [now - 1, now - 90 * 60_000, now - 20 * hour, now - 20 * hour - 1]
    const asked: [number, number][] = []
    const ask = async (q: URLSearchParams) => {
      const [from, to] = [Number(q.get('from_ms')), Number(q.get('to_ms'))]
      asked.push([(now - to) / hour, (now - from) / hour])
      const here = times.filter((t) => t >= from && t < to).sort((a, b) => a - b).map((t) => ({ time: String(t), event: 'e' }))
      // One entry for each page.
      const at = Number(q.get('cursor') ?? 0)
      return { entries: here.slice(at, at + 1), ...(at + 1 < here.length ? { next_cursor: String(at + 1) } : {}) }
    }
    const filter = { event: '', session: '', hours: 24 }
    const one = await olderEntries(ask, filter, now)
    expect([one.entries.map((e) => e.time), one.last, one.cut]).toEqual([[String(times[0])], false, false])
    const two = await olderEntries(ask, filter, now, one.from, 2 * one.length)
    expect(two.entries.map((e) => e.time)).toEqual([String(times[1])])
    const three = await olderEntries(ask, filter, now, two.from, 2 * two.length)
    expect([three.entries.map((e) => e.time), three.last]).toEqual([[String(times[2]), String(times[3])], true])
    expect(asked).toEqual([[0, 1], [1, 3], [3, 7], [7, 15], [15, 24], [15, 24]])
    expect(await olderEntries(async () => ({ entries: null }), { ...filter, hours: 0 }, now)).toMatchObject({ entries: [], last: true })
    const missing = [{ node: 'n0', from_ms: 5 }]
    const many = await olderEntries(async () => ({ entries: [{ time: '1', event: 'e' }] as never, next_cursor: 'x', missing }), filter, now)
    expect([many.entries.length, many.cut, many.missing]).toEqual([5, true, missing])
  })
  it('is saved whole, with the names of the columns once', async () => {
    const cursors = ['', 'a', 'b']
    const at = (q: URLSearchParams) => cursors.indexOf(q.get('cursor') ?? '')
    const ask = async (q: URLSearchParams) => ({ entries: [], ...(at(q) < 2 ? { next_cursor: cursors[at(q) + 1]! } : {}) })
    const text = async (q: URLSearchParams) => `time,event\n${at(q)},e${q.get('format')}\n`
    const f = { event: '', session: '', hours: 1 }
    expect(await wholeTable(ask, text, f, 5)).toBe('time,event\n0,ecsv\n1,ecsv\n2,ecsv\n')
    await expect(wholeTable(async () => ({ entries: [], next_cursor: 'a' }), text, f, 5)).rejects.toThrow(/100,000/)
  })
  it('names the records that may be missing', () => {
    const at = (ms: number) => new Date(ms).toLocaleString()
    expect(describeMissing({ node: 'n0', from_ms: 5 })).toBe(`Records of the node n0 after ${at(5)} may be missing.`)
    expect(describeMissing({ node: 'n0', to_ms: 9 })).toBe(`Records of the node n0 before ${at(9)} may be missing.`)
  })
  it('describes what has no column', () => {
    const entry = (e: Partial<AuditEntry>) => describeEntry(e as AuditEntry)
    expect(entry({ event: 'egress', host: 'example.com', port: 443, address: '192.0.2.1' })).toBe('example.com:443, 192.0.2.1')
    expect(entry({ path: 'a', to: 'b', bytes: 1500 })).toBe('a → b, 1.5 kB')
    expect(entry({ argv: ['ls', '-l'], count: 3, key: 'k_1' })).toBe('ls -l, key k_1, 3 times')
    expect(entry({})).toBe('')
  })
})

it('has an address for each view', () => {
  const at = (path: string) => parse(new URL(path, 'http://h'))
  expect([at('/console').page, at('/console/').view, at('/console/keys').view, at('/console/keys/x').page, at('/s/console').page])
    .toEqual(['console', '', 'keys', 'missing', 'notebook'])
})
