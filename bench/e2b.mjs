// Measures E2B's SDK and Sandgate's own client by turns, in one process, and prints the times in ms
// and the rates in MB/s as JSON: see e2b.go.
import { Sandgate } from '@sandgate/client'
import { Sandbox } from '@e2b/code-interpreter'

const rounds = Number(process.argv[2])
const calls = Number(process.argv[3])
const megabytes = Number(process.argv[4])
const client = new Sandgate()
const figures = []

// warm waits until the pool is full.
async function warm() {
  for (;;) {
    const res = await fetch(`${process.env.SANDGATE_URL}/v1/status`, {
      headers: { Authorization: `Bearer ${process.env.SANDGATE_TOKEN}` }
    })
    const { node: { pool } } = await res.json()
    if (pool.ready >= pool.size) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

// turns calls all n times by turns. The first calls, which open connections, do not count.
async function turns(name, unit, n, e2b, native, alone) {
  const figure = { name, unit, e2b: [], native: [], alone: [] }
  for (let i = 0; i <= n; i++) {
    for (const [side, call] of [['e2b', e2b], ['native', native], ['alone', alone]]) {
      if (!call) continue
      const value = await call()
      if (i > 0) figure[side].push(value)
    }
  }
  figures.push(figure)
}

async function timed(call) {
  const began = performance.now()
  await call()
  return performance.now() - began
}

// made times the creation of a sandbox from a full pool, and ends the sandbox.
async function made(create, end) {
  await warm()
  let s
  const took = await timed(async () => { s = await create() })
  await end(s)
  return took
}

// rate returns the MB/s at which a call produces its text.
async function rate(call) {
  let length = 0
  const took = await timed(async () => { length = await call() })
  if (length < megabytes * 1e6) {
    throw new Error(`${length} bytes came, fewer than ${megabytes} MB`)
  }
  return length / 1000 / took
}

await turns('Sandbox.create()', 'ms', rounds,
  () => made(() => Sandbox.create(), (s) => s.kill()),
  () => made(() => client.sandbox(), (s) => s.delete()))

await warm()
const s = await Sandbox.create()
const own = await client.sandbox()
const url = process.env.RESPONDER_URL
const nothing = await Sandbox.create({ apiUrl: url, sandboxUrl: url })
const commandTakes = 20 // ms, in e2b.go
await turns('commands.run of true', 'ms', calls,
  () => timed(() => s.commands.run('true')),
  () => timed(() => own.exec(['/bin/bash', '-l', '-c', 'true'], { files: false })),
  async () => await timed(() => nothing.commands.run('true')) - commandTakes)
await turns('runCode of 1', 'ms', calls,
  () => timed(() => s.runCode('1')),
  () => timed(() => own.run('1', { files: false })),
  () => timed(() => nothing.runCode('1')))
const flood = `head -c ${megabytes * 1_000_000} /dev/zero | tr '\\0' x | fold -w 99`
await turns(`${megabytes} MB of output of a command`, 'MB/s', 3,
  () => rate(async () => (await s.commands.run(flood, { timeoutMs: 0 })).stdout.length),
  () => rate(async () => (await own.exec(flood, { files: false, maxOutput: 2e8 })).stdout.length))
await s.kill()
await own.delete()

// Clients create sandboxes and kill them, all at the same time.
const began = performance.now()
const all = []
await Promise.all(Array.from({ length: 20 }, async () => {
  for (let i = 0; i < 10; i++) {
    // A busy machine refuses some of them for a time.
    const one = await Sandbox.create({ retries: 20, requestTimeoutMs: 300_000 })
    all.push(one.sandboxId)
    if (!(await one.kill())) throw new Error(`${one.sandboxId} was not there`)
  }
}))
const took = performance.now() - began
let left = 0
for (const pages = Sandbox.list(); pages.hasNext;) left += (await pages.nextItems()).length
if (new Set(all).size !== 200 || left !== 0) {
  throw new Error(`${new Set(all).size} of 200 sandboxes were created, ${left} remain`)
}
figures.push({ name: '200 sandboxes of 20 clients', unit: 's', e2b: [took / 1000], native: [] })
console.log(JSON.stringify(figures))
await client.close?.()
process.exit(0)
