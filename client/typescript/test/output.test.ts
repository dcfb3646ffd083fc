// Tests how viewers, cells and programs read a channel's log.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { codePoints, recordKind, Sandgate, type CellEvent, type KernelOptions, type LogRecord, type Sandbox } from '../src/node.js'
import { encodeFrame } from '../src/frame.js'
import { encodeRecords, FakeServer, Log, until } from './rig.js'

let server: FakeServer
let sg: Sandgate
let s: Sandbox
beforeEach(async () => {
  server = await FakeServer.start()
  server.onHTTP = () => ({ status: 200, body: JSON.stringify({ id: 's1', language: 'python', channels: [] }) })
  sg = new Sandgate({ url: server.url, token: 'secret', backoff: { min: 1, max: 3 } })
  s = await sg.getSandbox('s1')
})
afterEach(() => {
  sg.close()
  server.stop()
  expect(server.liedTo).toBe(0)
})

const text = (r: LogRecord) => new TextDecoder().decode(r.payload)
const last = () => server.peers.at(-1)!

/** Reads n events. */
async function take<T>(from: AsyncIterable<T>, n: number): Promise<T[]> {
  const out: T[] = []
  for await (const e of from) if (out.push(e) === n) break
  return out
}

describe('a viewer', () => {
  it('is attached anew behind what was rendered, and gets every record once', async () => {
    const log = server.log('p1')
    const want: string[] = []
    for (let i = 0; i < 300; i++) log.append(1, `line ${i}`), want.push(`line ${i}`)
    log.append(4, '{"code":0}')
    const got: string[] = []
    for await (const r of await s.attach('p1', { window: 200 })) {
      if (r.kind === recordKind.stdout) got.push(text(r))
      if (got.length % 7 === 3 && server.peers.length < 40) last().cut()
    }
    expect(got).toEqual(want)
    expect(server.peers.length).toBeGreaterThan(20)
  })

  it('that stands still gets no more than its window, however often the link is lost, and holds no other up', async () => {
    const log = server.log('p1')
    for (let i = 0; i < 1000; i++) log.append(1, 'x'.repeat(1000))
    const other = server.log('p2')
    const slow = await s.attach('p1', { window: 10_000 })
    const reader = slow[Symbol.asyncIterator]()
    await reader.next()
    for (let i = 0; i < 10; i++) {
      const n = server.peers.length
      last().cut()
      await until(() => server.peers.length > n && last().attached.size === 1)
    }
    expect([...last().attached.values()][0]!.offset).toBeLessThanOrEqual(12_000)
    expect(last().acks).toEqual([])
    for (let i = 0; i < 50; i++) other.append(1, 'y'.repeat(50_000))
    other.append(4, '{"code":0}')
    let n = 0
    for await (const r of await s.attach('p2')) n += r.payload.length
    expect(n).toBe(50 * 50_000 + 10)
    expect(last().attached.get(1)!.offset).toBeLessThanOrEqual(12_000)
    let rest = 1000
    for (; rest < 1_000_000; rest += (await reader.next()).value!.payload.length);
    expect(rest).toBe(1_000_000)
  })

  it('acknowledges nothing that this link has not brought again', async () => {
    const log = server.log('p1')
    for (let i = 0; i < 20; i++) log.append(1, `${i % 10}`)
    const v = await s.attach('p1')
    const reader = v[Symbol.asyncIterator]()
    await until(() => last().attached.get(1)!.offset === 420)
    let hold: (() => void) | undefined
    server.on = (p, r) => {
      if (r.op !== 'attach') return false
      // The reply has arrived, and the records wait.
      p.reply(r.id, { epoch: 7, offset: r.params.offset, channel: { id: 'p1', kind: 'process', state: 'running', epoch: 7, oldest: 0, end: 420 } })
      p.attached.set(r.ch!, { taken: undefined, offset: r.params.offset as number, acked: r.params.offset as number, window: 0, log, stop: log.watch(() => {}) })
      hold = () => (p.attached.get(r.ch!)!.window = 1000)
      return true
    }
    last().cut()
    await until(() => hold !== undefined && last().attached.size === 1)
    await s.channels()
    for (let i = 0; i < 20; i++) await reader.next()
    void reader.next().catch(() => {})
    await s.channels()
    expect(last().acks).toEqual([])
  })

  it('acknowledges what was rendered, not what has arrived', async () => {
    const log = server.log('p1')
    const v = await s.attach('p1')
    const reader = v[Symbol.asyncIterator]()
    log.append(1, '12345')
    log.append(1, '67890')
    await s.channels() // both have arrived, but the first one alone is not acknowledged
    await reader.next()
    const second = await reader.next()
    expect(second.value).toMatchObject({ kind: 1 })
    await s.channels() // the server has received everything sent before this
    expect(last().acks).toEqual([])
    const third = reader.next() // this acknowledges the second one
    await until(() => last().acks.length === 1)
    expect(last().acks).toEqual([50])
    expect(v.position).toEqual({ epoch: 7, offset: 50 })
    log.append(1, 'x')
    expect(text((await third).value!)).toBe('x')
  })

  it('goes on where an earlier one stopped', async () => {
    const log = server.log('p1')
    for (let i = 0; i < 10; i++) log.append(1, `${i}`)
    const first = await s.attach('p1')
    expect((await take(first, 4)).map(text)).toEqual(['0', '1', '2', '3'])
    const from = first.position
    first.close()
    expect((await take(await s.attach('p1', { from }), 6)).map(text)).toEqual(['4', '5', '6', '7', '8', '9'])
  })

  it('is told exactly what is missing, and only that', async () => {
    const log = server.log('p1')
    for (let i = 0; i < 10; i++) log.append(1, '0123456789')
    const v = await s.attach('p1')
    const reader = v[Symbol.asyncIterator]()
    await reader.next()
    await until(() => last().attached.get(1)!.offset === 300)
    // Three records of 30 bytes were received, and only the first was rendered.
    for (let i = 0; i < 10; i++) log.append(1, 'abcdefghij')
    await until(() => last().attached.get(1)!.offset === 600)
    log.dropBefore(540)
    last().cut()
    await until(() => server.peers.length === 2)
    log.dropBefore(660)
    log.append(1, 'end')
    last().cut()
    await until(() => server.peers.length === 3)
    log.append(4, '{"code":0}')
    const got: string[] = []
    for (;;) {
      const r = await reader.next()
      if (r.done) break
      got.push(r.value.kind === recordKind.gap ? text(r.value) : text(r.value).slice(0, 3))
    }
    expect(got).toEqual([...Array(9).fill('012'), ...Array(10).fill('abc'), 'end', '{"c'])
  })

  it('is told of a gap in the middle and of one at the beginning', async () => {
    const log = server.log('p1')
    for (let i = 0; i < 10; i++) log.append(1, '0123456789')
    log.dropBefore(90)
    const reader = (await s.attach('p1'))[Symbol.asyncIterator]()
    expect(JSON.parse(text((await reader.next()).value!))).toEqual({ from: 0, to: 90, bytes: 90 })
    await take({ [Symbol.asyncIterator]: () => reader }, 1)
    const v = await s.attach('p1', { from: { epoch: 7, offset: 30 } })
    expect(JSON.parse(text((await take(v, 1))[0]!))).toEqual({ from: 30, to: 90, bytes: 60 })
  })

  it('is told when the history began anew', async () => {
    server.log('p1').append(1, 'old')
    const v = await s.attach('p1')
    const reader = v[Symbol.asyncIterator]()
    expect(text((await reader.next()).value!)).toBe('old')
    const fresh = new Log()
    fresh.epoch = 8
    fresh.append(1, 'new')
    server.logs.set('p1', fresh)
    last().cut()
    expect(JSON.parse(text((await reader.next()).value!))).toEqual({ event: 'epoch', from: 7, to: 8 })
    expect(text((await reader.next()).value!)).toBe('new')
    expect(v.position).toEqual({ epoch: 8, offset: 23 })
  })

  it('gets all that arrived, then the reason, when the sandbox is lost', async () => {
    server.log('p1').append(1, 'last words')
    const v = await s.attach('p1')
    await until(() => last().attached.get(1)!.offset > 0)
    last().send(JSON.stringify({ event: 'lost', ch: 1, params: { session: 's1', reason: 'memory', message: 'it ran out of memory' } }))
    const got: string[] = []
    await expect((async () => {
      for await (const r of v) got.push(text(r))
    })()).rejects.toMatchObject({ kind: 'sandbox_lost', message: 'it ran out of memory' })
    expect(got).toEqual(['last words'])
  })

  it('ends its link when a record is out of place, and mends that by attaching anew', async () => {
    const log = server.log('p1')
    const v = await s.attach('p1')
    log.append(1, 'good')
    await until(() => last().acks.length === 0 && last().attached.get(1)!.offset === 24)
    last().attached.get(1)!.offset = 0
    log.records[0]!.offset = 48 // a wrong offset
    log.append(1, 'x')
    log.records[0]!.offset = 0
    expect((await take(v, 2)).map(text)).toEqual(['good', 'x'])
    expect(sg.reconnects).toBeGreaterThan(0)
  })

  it('is refused with a typed error where there is nothing', async () => {
    await expect(s.attach('p9')).rejects.toMatchObject({ kind: 'not_found' })
    await expect(s.attach('p9', { signal: AbortSignal.abort() })).rejects.toMatchObject({ kind: 'canceled' })
  })

  it('is closed by its signal, and detaches', async () => {
    server.log('p1')
    const stop = new AbortController()
    const v = await s.attach('p1', { signal: stop.signal })
    const read = v[Symbol.asyncIterator]().next()
    stop.abort()
    await expect(read).rejects.toMatchObject({ kind: 'canceled' })
    await until(() => server.requests.some((r) => r.op === 'detach' && r.ch === 1))
  })

  it('has one reader at a time', async () => {
    server.log('p1')
    const v = await s.attach('p1')
    void v[Symbol.asyncIterator]().next().catch(() => {})
    await expect(v[Symbol.asyncIterator]().next()).rejects.toMatchObject({ kind: 'conflict' })
  })
})

describe('a kernel', () => {
  /** A kernel that runs each cell with run, once for each key. */
  async function kernel(run: (log: Log, cell: number, code: string) => void, o: KernelOptions = {}) {
    const log = server.log('k1')
    const cells = new Map<string, number>()
    server.on = (p, r) => {
      if (r.op !== 'execute') return false
      const { key, code } = r.params as { key: string; code: string }
      const known = cells.get(key)
      const cell = known ?? cells.size + 1
      cells.set(key, cell)
      p.reply(r.id, { cell, ...(known ? { repeated: true } : {}) })
      if (known) return true
      log.message(cell, 'execute_input', { key, code, execution_count: cell })
      run(log, cell, code)
      log.message(cell, 'execute_reply', { key, status: 'ok', execution_count: cell, elapsed_ms: 1 })
      return true
    }
    return { k: await s.kernel('python', o), log, cells }
  }

  it('gives each cell its own output, as events in order', async () => {
    const { k, log } = await kernel((log, cell, code) => {
      log.append(1, Uint8Array.of(0xc3), cell)
      log.append(2, 'err', cell)
      log.append(1, Uint8Array.of(0xbc, 10), cell) // ü, cut in two
      log.message(cell, 'display_data', { data: { 'text/plain': code }, metadata: {} })
      log.message(cell, 'comm_open', { comm_id: 'c', data: { type: 'x' } })
      log.message(cell, 'new_thing', { a: 1 })
    })
    log.append(1, 'from before')
    const a = k.execute('a', { silent: true, timeout_ms: 5 })
    const b = k.execute('b')
    const events = async (c: typeof a) => {
      const out: CellEvent[] = []
      for await (const e of c) out.push(e)
      return out
    }
    const got = await events(a)
    expect(got.map((e) => [e.type, e.cell])).toEqual(
      ['execute_input', 'stdout', 'stderr', 'stdout', 'display_data', 'comm_open', 'message', 'execute_reply'].map((t) => [t, 1]))
    expect(got.flatMap((e) => (e.type === 'stdout' ? [e.text] : []))).toEqual(['', 'ü\n'])
    expect(got[4]).toMatchObject({ data: { 'text/plain': 'a' }, time: 1_700_000_000_000_000 })
    expect(got[5]).toMatchObject({ comm_id: 'c', data: { type: 'x' } })
    expect(got[6]).toMatchObject({ msg_type: 'new_thing', content: { a: 1 } })
    expect((await events(b))[4]).toMatchObject({ data: { 'text/plain': 'b' } })
    expect(await a.done).toMatchObject({ status: 'ok' })
    expect([await a.queued, a.number, await b.queued]).toEqual([1, 1, 2])
    expect(server.requests.find((r) => r.op === 'execute')!.params).toEqual({ key: a.key, code: 'a', silent: true, timeout_ms: 5 })
  })

  it('executes each cell once and in order while the connection is cut all the time', async () => {
    const { k, cells } = await kernel((log, cell, code) => log.append(1, `out of ${code}`, cell))
    const on = server.on!
    let n = 0
    // Cut before the request, between it and its reply, or directly after the reply.
    server.on = (p, r) => {
      if (r.op !== 'execute' || ++n % 2 || n > 200) return on(p, r)
      if (n % 4 === 0) return (p.cut(), true)
      const reply = p.reply
      if (n % 8 === 2) p.reply = () => p.cut()
      on(p, r)
      p.reply = reply
      p.cut()
      return true
    }
    const made = Array.from({ length: 100 }, (_, i) => k.execute(`cell ${i}`))
    for (const [i, c] of made.entries()) {
      let out = ''
      for await (const e of c) if (e.type === 'stdout') out += e.text
      expect(out).toBe(`out of cell ${i}`)
      expect(c.number).toBe(i + 1)
    }
    expect(cells.size).toBe(100)
    expect(sg.reconnects).toBeGreaterThan(50)
  })

  it('shares one window among its cells, and drops what nobody reads once the end is awaited', async () => {
    const { k } = await kernel((log, cell) => {
      for (let i = 0; i < 100; i++) log.append(1, 'x'.repeat(10_000), cell)
    })
    const unread = k.execute('a')
    const second = k.execute('b')
    await until(() => last().attached.get(1)!.offset > 250_000)
    expect(last().attached.get(1)!.offset).toBeLessThan(300_000)
    expect(await unread.done).toMatchObject({ status: 'ok' })
    let bytes = 0
    for await (const e of second) if (e.type === 'stdout') bytes += e.bytes.length
    expect(bytes).toBe(1_000_000)
    // A later reader gets a gap with the number of lost bytes. Together they are everything.
    let seen = 0
    for await (const e of unread) seen += e.type === 'gap' ? e.bytes : e.type === 'stdout' ? e.bytes.length + 20 : 0
    expect(seen).toBeGreaterThan(1_002_000)
  })

  it('lets a cell be closed, which frees its credit', async () => {
    const { k } = await kernel((log, cell) => {
      for (let i = 0; i < 100; i++) log.append(1, 'x'.repeat(10_000), cell)
    })
    const a = k.execute('a')
    const b = k.execute('b')
    await until(() => last().attached.get(1)!.offset > 250_000)
    await s.channels() // everything sent has arrived
    a.close()
    expect(await b.done).toMatchObject({ status: 'ok' })
    await expect(a.done).rejects.toMatchObject({ kind: 'canceled' })
  })

  it('gives what belongs to nobody to other, one after the other', async () => {
    const seen: string[] = []
    let inside = 0
    const { k, log } = await kernel(() => {}, {
      offset: 0,
      async other(e) {
        expect(++inside).toBe(1)
        await new Promise((resolve) => setImmediate(resolve))
        inside--
        seen.push(e.type === 'stdout' ? e.text : e.type)
      },
    })
    log.message(9, 'execute_input', { key: 'theirs', code: '', execution_count: 1 })
    log.append(1, 'theirs', 9)
    log.append(6, '{"event":"restart"}')
    await k.execute('mine').done
    await until(() => seen.length === 3)
    expect(seen).toEqual(['execute_input', 'theirs', 'event'])
  })

  it('answers an input_request of a cell', async () => {
    const { k } = await kernel((log, cell) => log.message(cell, 'input_request', { prompt: 'name? ', password: false }))
    const c = k.execute('ask')
    for await (const e of c) {
      if (e.type !== 'input_request') continue
      await c.input('Ada')
      await c.endInput()
    }
    expect(server.requests.filter((r) => r.op === 'input').map((r) => r.params)).toEqual([{ cell: 1, value: 'Ada' }, { cell: 1, value: '', eof: true }])
  })

  it('ends cells whose end is gone, as slow, and no others', async () => {
    const { k, log } = await kernel(() => {})
    let held = 0
    server.on = (p, r) => {
      if (r.op !== 'execute') return false
      p.reply(r.id, { cell: ++held })
      log.message(held, 'execute_input', { key: r.params.key as string, code: '', execution_count: 1 })
      return true
    }
    const c = k.execute('a')
    const types: string[] = []
    await expect((async () => {
      for await (const e of c) {
        types.push(e.type)
        if (types.length > 1) continue
        const other = k.execute('b')
        await other.queued
        last().attached.get(1)!.window = 0
        for (let i = 0; i < 10; i++) log.append(1, 'gone', 1)
        log.message(1, 'execute_reply', { key: c.key, status: 'ok', execution_count: 1, elapsed_ms: 1 })
        log.dropBefore(log.end)
        log.message(2, 'execute_reply', { key: other.key, status: 'ok', execution_count: 2, elapsed_ms: 1 })
        last().cut()
        expect(await other.done).toMatchObject({ execution_count: 2 })
      }
    })()).rejects.toMatchObject({ kind: 'slow' })
    expect(types).toEqual(['execute_input', 'gap'])
  })

  it('ends cells that the copy of a failed node does not have, as sandbox_lost', async () => {
    const { k, log } = await kernel(() => {})
    server.on = (p, r) => {
      if (r.op !== 'execute') return false
      p.reply(r.id, { cell: 1 })
      log.message(1, 'execute_input', { key: r.params.key as string, code: '', execution_count: 1 })
      return true
    }
    const c = k.execute('a')
    await c.queued
    log.append(6, '{"event":"taken_over"}')
    log.message(1, 'execute_input', { key: 'theirs', code: '', execution_count: 1 }) // the number again
    log.append(1, 'theirs', 1)
    const types: string[] = []
    await expect((async () => {
      for await (const e of c) types.push(e.type)
    })()).rejects.toMatchObject({ kind: 'sandbox_lost' })
    expect(types).toEqual(['execute_input', 'event'])
  })

  it('tells of a repeated cell whose output came before', async () => {
    const { k } = await kernel(() => {})
    await k.execute('a', { key: 'mine' }).done
    k.close()
    const again = await s.kernel('python')
    const c = again.execute('a', { key: 'mine' })
    expect(await c.queued).toBe(1)
    await expect(c.done).rejects.toMatchObject({ kind: 'slow' })
  })

  it('fails its cells when the kernel, the sandbox or the server says no', async () => {
    const { k, log } = await kernel(() => {})
    server.on = (p, r) => (r.op === 'execute' ? (p.refuse(r.id, 'invalid_argument', { field: 'code' }), true) : false)
    const c = k.execute('x')
    await expect(c.done).rejects.toMatchObject({ kind: 'invalid_argument', field: 'code' })
    await expect(c.queued).rejects.toMatchObject({ kind: 'invalid_argument' })
    await expect(take(c, 1)).rejects.toMatchObject({ kind: 'invalid_argument' })
    server.on = (_, r) => r.op === 'execute'
    const open = k.execute('y')
    log.append(4, '{"code":-1,"reason":"memory"}')
    await expect(open.done).rejects.toMatchObject({ kind: 'sandbox_lost', message: 'the sandbox ran out of memory' })
    await expect(k.execute('z').done).rejects.toMatchObject({ kind: 'sandbox_lost' })
    await expect(k.complete('z', 1)).rejects.toMatchObject({ kind: 'sandbox_lost' })
  })

  it('lets go of a cell at its signal', async () => {
    const { k } = await kernel(() => {})
    server.on = (_, r) => r.op === 'execute'
    const stop = new AbortController()
    const c = k.execute('x', { signal: stop.signal, key: 'mine' })
    expect(k.execute('x', { key: 'mine' })).toBe(c)
    stop.abort()
    await expect(c.done).rejects.toMatchObject({ kind: 'canceled' })
    expect(k.execute('x', { key: 'mine' })).not.toBe(c)
  })

  it('counts cursors in code points', () => {
    expect(codePoints('a😀b', 3)).toBe(2)
    expect(codePoints('a😀b', 4)).toBe(3)
  })
})

describe('input', () => {
  it('is numbered, runs ahead within bounds, and is confirmed', async () => {
    server.log('p1')
    const p = await s.process('p1')
    const writes = [p.write('a'), p.write('b'.repeat(300_000)), p.end()]
    const seen = () => last().input
    await until(() => seen().length === 4)
    expect(seen().map((i) => [i.sequence, i.text.length, i.end])).toEqual([[1, 1, false], [2, 65536, false], [3, 65536, false], [4, 65536, false]])
    let done = 0
    for (const w of writes) void w.then(() => done++)
    last().ack(1, 4)
    await until(() => seen().length === 7)
    await s.channels()
    expect(done).toBe(1)
    expect(seen().map((i) => i.text).join('').length).toBe(300_001)
    expect(seen().at(-1)).toMatchObject({ sequence: 7, end: true, text: '' })
    last().ack(1, 7)
    await Promise.all(writes)
  })

  it('that has not left waits for the next connection', async () => {
    server.log('p1')
    const p = await s.process('p1')
    server.refuse = () => ({ status: 503, kind: 'unavailable' })
    last().cut()
    await until(() => server.upgrades.length > 1) // it has noticed the loss
    const w = p.write('later')
    server.refuse = undefined
    await until(() => last().input.length === 1)
    last().ack(1, 1)
    await w
  })

  it('of a terminal comes with its size, which is told again after a reconnect', async () => {
    server.log('t1')
    const t = await s.attachTerminal('t1', { size: { cols: 80, rows: 24 } })
    last().cut()
    await until(() => server.peers.length === 2 && last().attached.size === 1)
    await t.resize(100, 30)
    last().cut()
    await until(() => server.peers.length === 3 && last().attached.size === 1)
    const sizes = server.requests.filter((r) => r.op === 'attach' || r.op === 'resize').map((r) => [r.op, r.params.cols, r.params.rows])
    expect(sizes).toEqual([['attach', 80, 24], ['attach', 80, 24], ['resize', 100, 30], ['attach', 100, 30]])
  })

  it('arrives once and in order over many lost connections', async () => {
    server.writers = new Map()
    server.log('p1')
    let n = 0
    server.on = (p, r) => {
      if (r.op !== '#input' || ++n % 5 !== 0 || n > 300) return false
      if (n % 2) return (p.cut(), true) // lost on the way
      const ack = p.ack
      p.ack = () => p.cut() // accepted, but the confirmation is lost
      queueMicrotask(() => (p.ack = ack))
      return false
    }
    const p = await s.process('p1')
    const want = Array.from({ length: 200 }, (_, i) => `${i},`)
    await Promise.all(want.map((w) => p.write(w)))
    expect([...server.writers.values()].map((taken) => taken.join(''))).toEqual([want.join('')])
    expect(sg.reconnects).toBeGreaterThan(20)
  })

  it('that was pasted is marked, and a viewer that only looks names no writer', async () => {
    server.writers = new Map()
    server.log('t1')
    const t = await s.attachTerminal('t1', {})
    let flags = -1
    server.on = (p, r) => {
      if (r.op === '#input') flags = p.input.at(-1)!.flags
      return false
    }
    await t.paste('x'.repeat(100_000))
    expect(last().input.map((i) => i.text.length)).toEqual([100_000])
    expect(flags).toBe(8)
    await s.attachTerminal('t1', { readOnly: true })
    expect(server.requests.filter((r) => r.op === 'attach')[1]!.params).toEqual({ session: 's1', channel: 't1', offset: 0, window: 262144, read_only: true })
  })

  it('that is refused says why', async () => {
    server.log('p1')
    const p = await s.process('p1')
    const w = p.write('x')
    await until(() => last().input.length === 1)
    last().send(JSON.stringify({ event: 'error', ch: 1, params: { kind: 'exhausted', message: 'too much waits' } }))
    await expect(w).rejects.toMatchObject({ kind: 'exhausted', message: 'too much waits' })
    await expect(p.write('y')).rejects.toMatchObject({ kind: 'exhausted' })
    last().cut()
    await until(() => server.peers.length === 2 && last().attached.size === 1)
    await expect(p.write('z')).rejects.toMatchObject({ kind: 'exhausted' })
  })

  it('is bounded, and can be withdrawn before it leaves', async () => {
    server.log('p1')
    const p = await s.process('p1')
    const stop = new AbortController()
    const ahead = p.write(new Uint8Array(256 << 10))
    const held = p.write('later', { signal: stop.signal })
    stop.abort()
    await expect(held).rejects.toMatchObject({ kind: 'canceled' })
    await expect(p.write(new Uint8Array((16 << 20) + 1))).rejects.toMatchObject({ kind: 'exhausted' })
    await until(() => last().input.length === 4)
    last().ack(1, 4)
    await ahead
    server.log('p1').append(4, '{"code":3}')
    expect(await p.done).toMatchObject({ code: 3 })
    await expect(p.write('x')).rejects.toMatchObject({ kind: 'conflict' })
  })
})

describe('a program', () => {
  it('ends with its exit, also for who comes later', async () => {
    const log = server.log('p1')
    log.append(1, 'out')
    log.append(4, '{"code":3}')
    const p = await s.process('p1')
    const events = []
    for await (const e of p) events.push(e.type)
    expect(events).toEqual(['stdout', 'exit'])
    expect(await p.done).toEqual({ code: 3 })
  })

  it('in a terminal is restored to what its viewer has to show, which takes no place in the log', async () => {
    const log = server.log('t1')
    log.append(1, 'abc')
    server.on = (p, r) => {
      if (r.op !== 'attach' || r.params.offset === 23) return false
      p.reply(r.id, { epoch: 7, offset: 23, channel: { id: 't1', kind: 'terminal', state: 'running', epoch: 7, oldest: 0, end: 23 } })
      const payload = new TextEncoder().encode(JSON.stringify({ cols: 80, rows: 24, data: btoa('\x1b[?1049h') }))
      p.send(encodeFrame({ type: 2, flags: 0, channel: r.ch!, cell: 0, body: encodeRecords(23, [{ kind: 7, cell: 0, time: 1, payload }]) }))
      p.attached.set(r.ch!, { taken: undefined, offset: 23, acked: 23, window: 1000, log, stop: log.watch(() => {}) })
      return true
    }
    const t = await s.attachTerminal('t1', { offset: -1 })
    const events = t[Symbol.asyncIterator]()
    expect((await events.next()).value).toEqual({ type: 'restore', cell: 0, time: 1, cols: 80, rows: 24, bytes: new TextEncoder().encode('\x1b[?1049h') })
    last().cut()
    await until(() => server.peers.length === 2)
    log.append(1, 'def')
    expect((await events.next()).value).toMatchObject({ type: 'stdout', text: 'def' })
    expect(t.position).toEqual({ epoch: 7, offset: 46 })
  })

  it('is followed: what was not read before a gap is left out with it, and each attach says so again', async () => {
    const log = server.log('t1')
    const told: unknown[] = []
    server.on = (p, r) => {
      if (r.op === 'follow') told.push(r.params)
      if (r.op !== 'attach' || told.length) return r.op === 'follow'
      p.reply(r.id, { epoch: 7, offset: 0, channel: { id: 't1', kind: 'terminal', state: 'running', epoch: 7, oldest: 0, end: 0 } })
      p.attached.set(r.ch!, { taken: undefined, offset: 0, acked: 0, window: 1000, log, stop: log.watch(() => {}) })
      const frame = (at: number, kind: number, payload: string) => p.send(encodeFrame({
        type: 2, flags: 0, channel: r.ch!, cell: 0, body: encodeRecords(at, [{ kind, cell: 0, time: 1, payload: new TextEncoder().encode(payload) }]),
      }))
      frame(0, 1, 'abc') // 23 bytes each
      frame(23, 1, 'def')
      frame(46, 1, 'ghi')
      void until(() => told.length === 1).then(() => {
        frame(1046, 5, JSON.stringify({ from: 69, to: 1046, bytes: 977 }))
        frame(1046, 7, JSON.stringify({ cols: 80, rows: 24, data: '' }))
        frame(1046, 1, 'end')
      })
      return true
    }
    const t = await s.attachTerminal('t1')
    const events = t[Symbol.asyncIterator]()
    expect((await events.next()).value).toMatchObject({ type: 'stdout', text: 'abc' })
    t.follow({ behind: 100, before: 50, window: 500, drop: true })
    await until(() => t['attachment'].received === 1069)
    expect((await events.next()).value).toMatchObject({ type: 'gap', from: 23, to: 1046, bytes: 1023 })
    expect((await events.next()).value).toMatchObject({ type: 'restore' })
    expect((await events.next()).value).toMatchObject({ type: 'stdout', text: 'end' })
    expect(told).toEqual([{ behind: 100, before: 50, window: 500 }])
    last().cut()
    await until(() => told.length === 2)
    expect(told[1]).toEqual(told[0])
  })

  it('is signalled over its own attachment', async () => {
    server.log('p1')
    const p = await s.process('p1')
    await p.signal('SIGINT')
    expect(server.requests.find((r) => r.op === 'signal')).toMatchObject({ ch: 1, params: { signal: 'SIGINT' } })
  })
})
