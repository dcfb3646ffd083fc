import { afterEach, expect, it, vi } from 'vitest'
import { Run, type Event } from '../src/stream.js'

afterEach(() => void vi.unstubAllGlobals())

/** Answers each request from the list, and stores the requests. */
function answers(...list: (Response | Error)[]): { url: string; body: Record<string, unknown>; token: string }[] {
  const asked: { url: string; body: Record<string, unknown>; token: string }[] = []
  vi.stubGlobal('fetch', async (url: string, o: { body: string; headers: Record<string, string> }) => {
    asked.push({ url, body: JSON.parse(o.body) as Record<string, unknown>, token: o.headers.Authorization! })
    const next = list.shift()
    if (next instanceof Error) throw next
    return next
  })
  return asked
}
const refused = (status: number, message: string) => new Response(JSON.stringify({ error: { kind: 'x', message } }), { status })
const stream = () => new Response('{"type":"start","session":"s","channel":"k1","cell":1}\n{"type":"keepalive"}\n{"type":"std' + 'out","text":"a"}\n{"type":"done","status":"ok"}\n')
async function all(run: Run): Promise<string[]> {
  const out: string[] = []
  for await (const e of run.events({ code: 'x' }) as AsyncIterable<Event>) out.push(e.type)
  return out
}

it('uses a ticket again, gets another when it is refused, and says why no run came of it', async () => {
  let n = 0
  const ticket = () => `t${++n}`
  const asked = answers(stream(), stream(), refused(401, 'used up'), stream(), new TypeError('CORS'), stream(), refused(401, 'a'), refused(401, 'again'))
  expect(await all(new Run('', ticket))).toEqual(['start', 'stdout', 'done'])
  await all(new Run('', ticket))
  await all(new Run('', ticket)) // 401, then t2
  await all(new Run('', ticket)) // an expired ticket's page is refused by the browser, then t3
  await expect(all(new Run('', ticket))).rejects.toThrow('again')
  expect(asked.map((a) => a.token.slice(7))).toEqual(['t1', 't1', 't1', 't2', 't2', 't3', 't3', 't4'])
  await expect(all(new Run('', () => { throw new Error('not signed in') }))).rejects.toThrow('not signed in')
})

it('says when the answer breaks off, feeds and stops by what start said', async () => {
  const asked = answers(new Response('{"type":"start","session":"s","channel":"k1","cell":4}\n'), new Response('{}'), new Response('{}'))
  const run = new Run('https://gw', () => 't')
  await expect(all(run)).rejects.toThrow('broke')
  await run.input('Ada')
  run.stop()
  await vi.waitFor(() => expect(asked).toHaveLength(3), { timeout: 100_000 })
  expect(asked[1]).toMatchObject({ url: 'https://gw/v1/run/s/input', body: { channel: 'k1', cell: 4, value: 'Ada', eof: false } })
  expect(asked[2]!.url).toBe('https://gw/v1/run/s/interrupt')
})
