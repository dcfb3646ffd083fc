// The gateway dies under streams, and another one takes its place.
import { createInterface } from 'node:readline'
import { assert, e2b, fails, interpreter, pause, suite, until } from './kit.mjs'

const check = suite('faults', { sdk: 'interpreter', timeout: 900_000 })
// cut matches the errors of a connection that was cut: undici says "terminated" after the header of
// the response and "fetch failed" before it. The SDK passes both on if the sandbox still runs.
const cut = /terminated|fetch failed/

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// killGateway has the test kill the gateway, and returns when the next one is ready.
async function killGateway() {
  process.stdout.write(JSON.stringify({ ask: 'kill-gateway' }) + '\n')
  await answers.next()
}

check('command', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('for i in $(seq 40); do echo $i; sleep 0.1; done', {
    background: true
  })
  await until('some output', () => h.stdout.includes('3\n'))
  const ended = fails(h.wait(), e2b.SandboxError, cut)
  await killGateway()
  await ended
  const again = await s.commands.connect(h.pid)
  assert.equal((await again.wait()).stdout,
    Array.from({ length: 40 }, (_, i) => `${i + 1}\n`).join(''))
})

check('connected-command', ['Commands#connect'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('sleep 3; echo end', { background: true })
  const viewer = await s.commands.connect(h.pid)
  const ended = Promise.all([h, viewer].map((one) => fails(one.wait(), e2b.SandboxError, cut)))
  await killGateway()
  await ended
  assert.equal((await (await s.commands.connect(h.pid)).wait()).stdout, 'end\n')
})

check('pty', ['Pty#create', 'Pty#connect'], async (t) => {
  const s = await t.shared()
  let seen = ''
  const onData = (data) => { seen += new TextDecoder().decode(data) }
  const h = await s.pty.create({ cols: 80, rows: 24, onData })
  await s.pty.sendInput(h.pid, new TextEncoder().encode('kept=$((40+2))\n'))
  await until('the shell reads', () => seen.includes('kept'))
  const ended = fails(h.wait(), e2b.SandboxError, cut)
  await killGateway()
  await ended
  await s.pty.connect(h.pid, { onData })
  await s.pty.sendInput(h.pid, new TextEncoder().encode('echo "[$kept]"\n'))
  await until('the shell goes on', () => seen.includes('[42]'))
  assert.equal(await s.pty.kill(h.pid), true)
})

check('watch', ['Filesystem#watchDir'], async (t) => {
  const s = await t.shared()
  await s.files.makeDir(t.path())
  let ended
  await s.files.watchDir(t.path(), () => {}, { onExit: (err) => { ended = err ?? 'none' } })
  await killGateway()
  await until('onExit', () => ended)
  assert.ok(ended instanceof e2b.SandboxError, String(ended))
  assert.match(ended.message, cut)
  const events = []
  const handle = await s.files.watchDir(t.path(), (e) => events.push(e.name))
  await s.files.write(t.path('x'), 'y')
  await until('an event', () => events.includes('x'))
  await handle.stop()
})

check('code', ['Sandbox#runCode'], async (t) => {
  const s = await t.shared()
  await s.runCode('kept = 42')
  const running = fails(s.runCode('import time\ntime.sleep(30)'))
  await pause(500)
  await killGateway()
  await running
  assert.equal((await s.runCode('kept')).text, '42')
})

check('read', ['Filesystem#read'], async (t) => {
  const s = await t.shared()
  await s.commands.run(`mkdir -p ${t.path()}; head -c 200000000 /dev/zero > ${t.path('x')}`)
  const stream = await s.files.read(t.path('x'), { format: 'stream' })
  const reader = stream.getReader()
  await reader.read()
  await killGateway()
  await fails((async () => {
    while (!(await reader.read()).done) { /* until the error */ }
  })())
  await s.files.write(t.path('y'), 'again')
  assert.equal(await s.files.read(t.path('y')), 'again')
})

check('write', ['Filesystem#write'], async (t) => {
  const s = await t.shared()
  let going = true
  const stream = new ReadableStream({
    async pull(c) {
      await pause(20)
      if (going) c.enqueue(new Uint8Array(10_000))
      else c.close()
    }
  })
  const writing = fails(s.files.write(t.path('x'), stream))
  await pause(300)
  await killGateway()
  going = false
  await writing
  await s.files.write(t.path('x'), 'whole')
  assert.equal(await s.files.read(t.path('x')), 'whole')
})

check('create', ['Sandbox.create', 'Sandbox#kill'], async (t) => {
  const making = e2b.Sandbox.create().catch((err) => err)
  await killGateway()
  const made = await making
  const s = await t.fresh()
  assert.equal(await s.isRunning(), true)
  if (made instanceof e2b.Sandbox) {
    assert.equal(await made.kill(), true)
  }
  assert.ok(interpreter)
})
