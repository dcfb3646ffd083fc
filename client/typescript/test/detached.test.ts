// Tests what a client does when the link to one node of a cluster ends.
import { afterEach, beforeEach, expect, it } from 'vitest'
import { recordKind, Sandgate, type LogRecord } from '../src/node.js'
import { FakeServer, until, type Peer } from './rig.js'

let server: FakeServer
let sg: Sandgate
beforeEach(async () => {
  server = await FakeServer.start()
  server.onHTTP = () => ({ status: 200, body: JSON.stringify({ id: 's1', language: 'python', channels: [] }) })
  sg = new Sandgate({ url: server.url, token: 'secret', backoff: { min: 1, max: 3 } })
})
afterEach(() => {
  sg.close()
  server.stop()
})

const text = (r: LogRecord) => new TextDecoder().decode(r.payload)

/** Ends attachments as a gateway does. */
function detach(p: Peer, channels: number[], requests: number[] = [], error: object = { kind: 'unavailable', message: 'the node has gone' }): void {
  for (const ch of channels) {
    p.attached.get(ch)?.stop()
    p.attached.delete(ch)
  }
  p.send(JSON.stringify({ event: 'detached', params: { channels, requests, error } }))
}

it('asks for the event, and attaches again on the same link behind what was rendered', async () => {
  const s = await sg.getSandbox('s1')
  const log = server.log('p1')
  const other = server.log('p2')
  const want: string[] = []
  for (let i = 0; i < 200; i++) log.append(1, `line ${i}`), want.push(`line ${i}`)
  log.append(4, '{"code":0}')
  const stays = (await s.attach('p2'))[Symbol.asyncIterator]()
  const got: string[] = []
  let times = 0
  for await (const r of await s.attach('p1', { window: 200 })) {
    if (r.kind === recordKind.stdout) got.push(text(r))
    if (got.length % 7 !== 3) continue
    times++
    detach(server.peers[0]!, [2])
  }
  expect(got).toEqual(want)
  expect(times).toBeGreaterThan(20)
  other.append(1, 'here')
  expect(text((await stays.next()).value!)).toBe('here')
  expect(server.requests.filter((r) => r.op === 'attach' && r.ch === 1).length).toBe(1)
  expect(server.requests[0]).toMatchObject({ op: 'hello', params: { events: ['detached'] } })
  expect(sg.reconnects).toBe(0)
})

it('repeats a request that has no reply if that does no harm, and fails another one', async () => {
  const s = await sg.getSandbox('s1')
  await sg.connect()
  let held: { p: Peer; id: number }[] | undefined = []
  server.on = (p, r) => {
    if (!held || !['channel.list', 'session.pause'].includes(r.op)) return false
    held.push({ p, id: r.id! })
    return true
  }
  const list = s.channels()
  const pause = s.pause()
  const failed = expect(pause).rejects.toMatchObject({ kind: 'unavailable' })
  await until(() => held!.length === 2)
  const all = held
  held = undefined
  detach(all[0]!.p, [], all.map((h) => h.id))
  await failed
  expect(await list).toEqual([])
  expect(server.requests.filter((r) => r.op === 'channel.list').length).toBe(2)
  expect(server.requests.filter((r) => r.op === 'session.pause').length).toBe(1)
  expect(sg.reconnects).toBe(0)
})

it('attaches again when the request to attach had no reply', async () => {
  const s = await sg.getSandbox('s1')
  server.log('p1').append(1, 'here')
  let n = 0
  server.on = (p, r) => {
    if (r.op !== 'attach' || ++n > 2) return false
    detach(p, [r.ch!], [r.id!])
    return true
  }
  const v = await s.attach('p1')
  expect(text((await v[Symbol.asyncIterator]().next()).value!)).toBe('here')
  expect(n).toBe(3)
})

it('ends the viewers of a node whose reason is final, and no others', async () => {
  const s = await sg.getSandbox('s1')
  server.log('p1')
  const other = server.log('p2')
  const gone = (await s.attach('p1'))[Symbol.asyncIterator]()
  const stays = (await s.attach('p2'))[Symbol.asyncIterator]()
  detach(server.peers[0]!, [1], [], { kind: 'permission_denied', message: 'no' })
  await expect(gone.next()).rejects.toMatchObject({ kind: 'permission_denied' })
  other.append(1, 'here')
  expect(text((await stays.next()).value!)).toBe('here')
})
