import type { DocumentAddition, DocumentNews, DocumentUpdated } from '@sandgate/client/base'
import { SandgateError } from '@sandgate/client/base'
import { describe, expect, it } from 'vitest'
import * as Y from 'yjs'
import { remote, sumsOf, type SharedCell, SharedDocument } from '../src/notebook/shared/document'
import { Membership, type Link } from '../src/notebook/shared/membership'

/** The part of the server that passes updates on. It can lose everything. */
class Server {
  epoch = 1
  id = ''
  last = 0
  updates: NonNullable<DocumentNews['updates']> = []
  members = new Map<number, Client>()
  onces = new Map<string, number>()

  restart(): void {
    this.epoch++
    this.id = ''
    this.last = 0
    this.updates = []
    this.onces.clear()
    for (const c of [...this.members.values()]) c.cut()
  }

  join(c: Client, epoch: number, after: number): void {
    this.members.set(c.number, c)
    c.joinedAt = this.last
    c.sent = epoch === this.epoch ? after : 0
  }

  add(c: Client, a: DocumentAddition): DocumentUpdated {
    if (this.members.get(c.number) !== c) throw new SandgateError('not_found', 'no member')
    if (a.update) {
      if (this.id && this.id !== a.id) throw new SandgateError('conflict', 'another document')
      if (a.once && (this.onces.get(a.once) ?? c.number) !== c.number) throw new SandgateError('conflict', 'done by another')
      if (a.once) this.onces.set(a.once, c.number)
      this.id = a.id!
      if (a.replaces) this.updates = this.updates.filter((u) => u.number > a.replaces!)
      this.updates.push({ number: ++this.last, client: c.number, update: a.update })
    }
    return { number: this.last, updates: this.updates.length, bytes: 0 }
  }

  /** The next news of a client. */
  take(c: Client): DocumentNews | undefined {
    const all = this.updates.filter((u) => u.number > c.sent)
    const some = all.slice(0, 3)
    if (some.length === 0) return undefined
    c.sent = some.at(-1)!.number
    return { epoch: this.epoch, id: this.id, last: c.sent, updates: some.filter((u) => u.client !== c.number || u.number <= c.joinedAt) }
  }
}

/** A page without a page: a membership with a connection that a test cuts. */
class Client implements Link {
  attached = false
  sent = 0
  joinedAt = 0
  number: number
  membership: Membership
  arrivals = 0
  file: SharedCell[]
  readonly server: Server
  #epoch = 0
  #last = 0

  constructor(server: Server, file: SharedCell[]) {
    this.server = server
    this.file = file
    this.membership = new Membership(() => this, { file: () => ({ cells: this.file, etag: 'v1' }), arrived: () => this.arrivals++ })
    this.number = this.membership.shared.doc.clientID
  }

  connect(): void {
    if (this.attached) return
    this.attached = true
    this.server.join(this, this.#epoch, this.#last)
    if (this.#epoch !== this.server.epoch) this.#last = 0
    this.#epoch = this.server.epoch
    this.membership.joined({ epoch: this.server.epoch, id: this.server.id, last: this.server.last })
  }

  cut(): void {
    if (!this.attached) return
    this.attached = false
    this.server.members.delete(this.number)
    this.membership.left()
  }

  rejoin(): void {
    this.cut()
    this.#epoch = this.#last = 0
    this.connect()
  }

  /** The reply of an addition can be lost after the server has taken it. */
  loseReply = false

  async add(a: DocumentAddition): Promise<DocumentUpdated> {
    if (!this.attached) throw new SandgateError('unavailable', 'no connection')
    const u = this.server.add(this, a)
    if (this.loseReply) {
      this.cut()
      throw new SandgateError('unavailable', 'the connection was lost')
    }
    return u
  }

  receive(): boolean {
    const news = this.attached ? this.server.take(this) : undefined
    if (!news) return false
    this.#last = Math.max(this.#last, news.last)
    this.membership.news(news)
    return true
  }
}

/** A random number generator with a seed, so that a failure can be repeated. */
function random(seed: number): (n: number) => number {
  return (n) => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % n
  }
}

const cell = (id: string, source = ''): SharedCell => ({ id, type: 'code', language: 'python', source })
const file = () => ['a', 'b', 'c', 'd'].map((id) => cell(id, `# ${id}\n`))

async function settle(server: Server, clients: Client[]): Promise<void> {
  for (const c of clients) {
    c.loseReply = false
    c.connect()
  }
  for (let quiet = 0; quiet < 2;) {
    let moved = false
    for (const c of clients) {
      c.connect()
      await c.membership.flush()
      while (c.receive()) moved = true
    }
    quiet = moved || clients.some((c) => !c.membership.settled) ? 0 : quiet + 1
  }
  expect(server.members.size).toBe(clients.length)
}

const content = (c: Client) => JSON.stringify(c.membership.shared.cells)

describe('eight people in one notebook', () => {
  for (const restarts of [false, true]) {
    it.each([1, 2, 3])(`lose no letter over cuts${restarts ? ' and lost servers' : ''} (%d)`, async (seed) => {
      const rnd = random(seed)
      const server = new Server()
      const clients = Array.from({ length: 8 }, () => new Client(server, file()))
      clients.forEach((c) => c.connect())
      await settle(server, clients)
      let letter = 0x4e00
      const written = new Map<string, string>() // each letter once, with its cell
      const erased = new Set<string>()
      const removed = new Set<string>()
      let cells = 0
      for (let step = 0; step < 1200; step++) {
        const c = clients[rnd(8)]!
        const { shared } = c.membership
        const ids = shared.ids
        const id = ids[rnd(ids.length)]!
        const text = shared.text(id)
        switch (rnd(16)) {
          case 0: c.cut(); break
          case 1: c.loseReply = rnd(3) === 0; break
          case 2: case 3: c.loseReply = false; c.connect(); break
          case 4: case 5: await c.membership.flush(); break
          case 6: case 7: c.receive(); break
          case 8: { // moves a cell
            const next = ids.filter((x) => x !== id)
            next.splice(rnd(next.length + 1), 0, id)
            shared.setOrder(next)
            break
          }
          case 9: { // adds a cell
            const fresh = cell(`n${cells++}`)
            shared.doc.transact(() => {
              shared.write(fresh)
              const at = rnd(ids.length + 1)
              shared.setOrder([...ids.slice(0, at), fresh.id, ...ids.slice(at)])
            })
            break
          }
          case 10: { // removes a cell
            if (ids.length < 4 || rnd(4) > 0) break
            removed.add(id)
            shared.setOrder(ids.filter((x) => x !== id))
            break
          }
          case 11: { // erases letters
            if (text.length < 3) break
            const at = rnd(text.length - 2)
            for (const l of text.toString().slice(at, at + 2)) erased.add(l)
            text.delete(at, 2)
            break
          }
          case 12: shared.setSource(id, `${text.toString()}${write(id)}`); break
          default: text.insert(rnd(text.length + 1), write(id))
        }
        if (restarts && rnd(300) === 0) server.restart()
      }
      function write(id: string): string {
        const l = String.fromCodePoint(letter++)
        written.set(l, id)
        return l
      }
      await settle(server, clients)
      for (const c of clients) expect(content(c)).toBe(content(clients[0]!))
      const all = clients[0]!.membership.shared.cells
      const there = all.map((x) => x.source).join('')
      for (const [l, id] of written) {
        const n = there.split(l).length - 1
        if (!erased.has(l) && !removed.has(id)) expect(n, `letter ${l} of cell ${id}`).toBe(1)
      }
      for (const id of ['a', 'b', 'c', 'd']) if (!removed.has(id)) expect(all.map((x) => x.id)).toContain(id)
      clients.forEach((c) => c.membership.close())
    })
  }

  it('gives a late one a short history', async () => {
    const server = new Server()
    const clients = [new Client(server, file()), new Client(server, file())]
    clients.forEach((c) => c.connect())
    await settle(server, clients)
    for (let i = 0; i < 450; i++) {
      clients[i % 2]!.membership.shared.text('a').insert(0, 'x')
      await clients[i % 2]!.membership.flush()
      clients.forEach((c) => c.receive())
    }
    await settle(server, clients)
    expect(server.updates.length).toBeLessThan(250)
    const late = new Client(server, [])
    late.connect()
    await settle(server, [...clients, late])
    expect(content(late)).toBe(content(clients[0]!))
  })
})

describe('a document that was begun again from the file', () => {
  it('gets what another page edited offline', async () => {
    const server = new Server()
    const a = new Client(server, file())
    a.connect()
    await settle(server, [a])
    a.cut()
    a.membership.shared.text('a').insert(0, 'offline ')
    a.membership.shared.text('b').insert(0, 'mine ')
    server.restart()
    const b = new Client(server, file().map((c) => (c.id === 'b' ? { ...c, source: 'theirs' } : c)))
    b.connect()
    await settle(server, [b])
    await settle(server, [a, b])
    expect(content(a)).toBe(content(b))
    const all = b.membership.shared.cells
    expect(all.find((c) => c.id === 'a')!.source).toBe('offline # a\n')
    expect(all.map((c) => c.source)).toEqual(expect.arrayContaining(['mine # b\n', 'theirs'])) // both versions
    expect(all).toHaveLength(5)
    expect(a.arrivals).toBe(2)
  })
})

describe('a version that a program has written', () => {
  const merged = (ours: SharedCell[], theirs: SharedCell[], base: SharedCell[]) => {
    const d = new SharedDocument()
    d.begin(ours, 'v1')
    d.merge(theirs, sumsOf(base))
    return d.cells.map((c) => [c.id, c.source])
  }
  const base = [cell('a', '1'), cell('b', '2'), cell('c', '3')]

  it('replaces cells that nobody has edited, and no others', () => {
    expect(merged([cell('a', '1'), cell('b', 'edited'), cell('c', '3')], [cell('a', 'new'), cell('b', '2'), cell('d', '4')], base))
      .toEqual([['a', 'new'], ['b', 'edited'], ['d', '4']])
  })

  it('keeps both versions of a cell that was changed in both', () => {
    const all = merged([cell('a', 'mine'), ...base.slice(1)], [cell('a', 'theirs'), ...base.slice(1)], base)
    expect(all.map(([, source]) => source)).toEqual(['mine', 'theirs', '2', '3'])
  })

  it('keeps new cells of the document in their place', () => {
    expect(merged([cell('a', '1'), cell('x', 'new'), cell('b', '2'), cell('c', '3')], [cell('c', '3'), cell('a', '1'), cell('b', '2')], base).map(([id]) => id)).toEqual(['c', 'a', 'x', 'b'])
  })

  it('is taken over by one member', async () => {
    const server = new Server()
    const clients = [new Client(server, file()), new Client(server, file())]
    clients.forEach((c) => c.connect())
    await settle(server, clients)
    const change = (s: SharedDocument) => s.merge([...file(), cell('e', 'program')], s.saved!.sums)
    const done = await Promise.all(clients.map((c) => c.membership.once('file v2', change)))
    expect(done.sort()).toEqual([false, true])
    await settle(server, clients)
    expect(content(clients[0]!)).toBe(content(clients[1]!))
    expect(clients[0]!.membership.shared.cells.filter((c) => c.source === 'program')).toHaveLength(1)
  })
})

it('keeps a cell whose two places are removed by two members', () => {
  const [one, two] = [new SharedDocument(), new SharedDocument()]
  const exchange = () => {
    Y.applyUpdate(one.doc, Y.encodeStateAsUpdate(two.doc), remote)
    Y.applyUpdate(two.doc, Y.encodeStateAsUpdate(one.doc), remote)
  }
  one.begin(file(), 'v1')
  exchange()
  one.setOrder(['b', 'c', 'd', 'a'])
  two.setOrder(['b', 'a', 'c', 'd'])
  exchange()
  const places = one.order.toArray()
  expect(places.filter((id) => id === 'a')).toHaveLength(2)
  one.order.delete(places.indexOf('a'))
  two.order.delete(places.lastIndexOf('a'))
  exchange()
  for (const d of [one, two]) expect(d.ids).toEqual(['b', 'c', 'd', 'a'])
  two.setOrder(['a', 'b', 'c'])
  exchange()
  for (const d of [one, two]) expect(d.ids).toEqual(['a', 'b', 'c'])
  one.setOrder(['b', 'c'])
  exchange()
  for (const d of [one, two]) expect(d.ids).toEqual(['b', 'c'])
})

it('never splits a character of two parts', () => {
  const d = new SharedDocument()
  d.begin([cell('a', '😀😁')], 'v1')
  for (const s of ['😁😁', '😁', '😃x😁', '']) {
    d.setSource('a', s)
    expect(d.text('a').toString()).toBe(s)
  }
})
