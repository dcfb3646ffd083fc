// Checks of older releases of the SDK.
import { assert, e2b, fails, mode, suite, until } from './kit.mjs'

const { Sandbox } = e2b
const check = suite('older')
const first = process.env.CHECK_E2B?.startsWith('e2b-1.')

check('create', [], async (t) => {
  const s = await t.fresh({ metadata: { a: 'b c' }, envs: { E: 'x' }, timeoutMs: 100_000 })
  assert.match(s.sandboxId, /^[a-z0-9]+$/)
  assert.equal(await s.isRunning(), true)
  assert.equal((await s.commands.run('echo $E')).stdout, 'x\n')
  const info = await s.getInfo()
  assert.deepEqual(info.metadata, { a: 'b c' })
  assert.equal(info.sandboxId, s.sandboxId)
})

check('create-secure', [], async (t) => {
  const s = await t.fresh({ secure: true })
  await s.files.write('x', 'y')
  assert.equal(await s.files.read('x'), 'y')
})

check('connect', [], async (t) => {
  const s = await t.fresh()
  await s.files.write('x', 'there')
  const again = await Sandbox.connect(s.sandboxId)
  assert.equal(await again.files.read('x'), 'there')
})

check('list', [], async (t) => {
  const s = await t.fresh({ metadata: { mark: 'of-older' } })
  const options = { query: { metadata: { mark: 'of-older' } } }
  const list = first ? await Sandbox.list(options) : await Sandbox.list(options).nextItems()
  assert.ok(list.some((o) => o.sandboxId === s.sandboxId), JSON.stringify(list))
})

check('timeout-and-kill', [], async (t) => {
  const s = await t.fresh()
  await s.setTimeout(200_000)
  await Sandbox.setTimeout(s.sandboxId, 300_000)
  await s.kill()
  assert.equal(await s.isRunning(), false)
  assert.equal(await Sandbox.kill(s.sandboxId), false)
  await fails(s.files.read('x'), e2b.TimeoutError)
})

check('wrong-key', [], async () => {
  await fails(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }),
    first ? undefined : e2b.AuthenticationError, /401|[Uu]nauthorized/)
})

check('commands', [], async (t) => {
  const s = await t.shared()
  let seen = ''
  const result = await s.commands.run('echo out; echo err >&2', {
    onStdout: (data) => { seen += data }, cwd: '/tmp', user: 'user'
  })
  assert.deepEqual([result.stdout, result.stderr, seen], ['out\n', 'err\n', 'out\n'])
  const err = await fails(s.commands.run('exit 9'), e2b.CommandExitError)
  assert.equal(err.exitCode, 9)
})

check('background', [], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('cat', { background: true, stdin: true })
  await s.commands.sendStdin(h.pid, 'text\n')
  await until('the echo', () => h.stdout === 'text\n')
  assert.ok((await s.commands.list()).some((p) => p.pid === h.pid))
  const again = await s.commands.connect(h.pid)
  assert.equal(await s.commands.kill(h.pid), true)
  await fails(again.wait())
  await fails(h.wait())
})

check('command-timeout', [], async (t) => {
  const s = await t.shared()
  await fails(s.commands.run('sleep 60', { timeoutMs: 1000 }), e2b.TimeoutError)
})

check('files', [], async (t) => {
  const s = await t.shared()
  await s.files.write(t.path('a/b'), 'x ü')
  assert.equal(await s.files.read(t.path('a/b')), 'x ü')
  assert.equal((await s.files.read(t.path('a/b'), { format: 'bytes' })).length, 4)
  assert.equal(await s.files.makeDir(t.path('d')), true)
  assert.deepEqual((await s.files.list(t.path())).map((e) => [e.name, e.type]).toSorted(),
    [['a', 'dir'], ['d', 'dir']])
  assert.equal((await s.files.getInfo(t.path('a/b'))).size, 4)
  await s.files.rename(t.path('a/b'), t.path('c'))
  assert.equal(await s.files.exists(t.path('a/b')), false)
  await s.files.remove(t.path('c'))
  await fails(s.files.read(t.path('c')), e2b.NotFoundError)
})

check('files-several', [], async (t) => {
  const s = await t.shared()
  await s.files.write([
    { path: t.path('1'), data: 'one' }, { path: t.path('2'), data: new Blob(['two']) }
  ])
  assert.equal(await s.files.read(t.path('2')), 'two')
  await s.files.write(t.path('empty'), '')
  assert.equal(await s.files.read(t.path('empty')), '')
})

check('watch', [], async (t) => {
  const s = await t.shared()
  await s.files.makeDir(t.path())
  const events = []
  const handle = await s.files.watchDir(t.path(), (e) => events.push(`${e.type} ${e.name}`), {
    recursive: true
  })
  await s.files.write(t.path('x'), 'y')
  await until('the event', () => events.includes('create x'))
  await handle.stop()
})

check('pty', [], async (t) => {
  const s = await t.shared()
  let seen = ''
  const term = await s.pty.create({
    cols: 80, rows: 24, onData: (data) => { seen += new TextDecoder().decode(data) }
  })
  await s.pty.resize(term.pid, { cols: 100, rows: 30 })
  await s.pty.sendInput(term.pid, new TextEncoder().encode('stty size\n'))
  await until('the size', () => seen.includes('30 100'))
  assert.equal(await s.pty.kill(term.pid), true)
})

check('signed-urls', [], async (t) => {
  const s = await t.fresh({ secure: true })
  await s.files.write('x.txt', 'by url')
  const url = await s.downloadUrl('x.txt', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(url)).text(), 'by url')
}, { mode: 'domain' })

check('host', [], async (t) => {
  const s = await t.shared()
  await s.commands.run('python3 -m http.server 3000', { background: true, timeoutMs: 0 })
  const url = `https://${s.getHost(3000)}`
  await until('the server listens', async () => (await fetch(url)).status === 200)
}, { mode: 'domain' })

check('pause', [], async (t) => {
  const s = await t.fresh()
  await s.files.write('x', 'kept')
  assert.equal(await s.betaPause(), true)
  const again = await Sandbox.connect(s.sandboxId)
  assert.equal(await again.files.read('x'), 'kept')
}, first ? { mode: 'none' } : {})

check('unknown', [], async () => {
  await fails(Sandbox.getInfo('i0123456789abcdefghij'))
  await fails(Sandbox.connect('i0123456789abcdefghij'), undefined, /not found|404|exist/i)
  assert.ok(['url', 'domain'].includes(mode))
})
