// Creating, finding and ending sandboxes.
import http from 'node:http'
import net from 'node:net'
import { assert, e2b, fails, interpreter, mode, near, refused, suite, until } from './kit.mjs'

const { Sandbox, E2B } = e2b
const check = suite('sandbox')
const unknown = 'i0123456789abcdefghij'

// connection is how the environment says that the server is reached.
function connection() {
  return mode === 'url'
    ? { apiUrl: process.env.E2B_API_URL, sandboxUrl: process.env.E2B_SANDBOX_URL }
    : { domain: process.env.E2B_DOMAIN }
}

check('create', ['Sandbox.create', 'Sandbox#isRunning'], async (t) => {
  const s = await t.fresh()
  assert.match(s.sandboxId, /^[a-z0-9]+$/)
  assert.equal(await s.isRunning(), true)
})

check('create-template-by-name', ['Sandbox.create'], async (t) => {
  const s = await t.fresh('base')
  const info = await s.getInfo()
  assert.equal(info.name ?? info.templateId, 'base')
})

check('create-template-as-option', ['Sandbox.create(template)'], async (t) => {
  const s = await t.fresh({ template: 'code-interpreter-v1' })
  const info = await s.getInfo()
  assert.equal(info.name ?? info.templateId, 'code-interpreter-v1')
})

check('create-unknown-template', ['Sandbox.create(template)'], async () => {
  await fails(Sandbox.create('no-such-template'), undefined, /^40[04]: .*no-such-template/)
})

check('create-metadata', ['Sandbox.create(metadata)', 'Sandbox#getInfo'], async (t) => {
  const metadata = { user: 'ann', 'a key': 'ä & b = c', empty: '' }
  const s = await t.fresh({ metadata })
  assert.deepEqual((await s.getInfo()).metadata, metadata)
})

check('create-envs', ['Sandbox.create(envs)'], async (t) => {
  const s = await t.fresh({ envs: { GREETING: 'hello there', OTHER: 'x' } })
  const { stdout } = await s.commands.run('echo "$GREETING/$OTHER"', { envs: { OTHER: 'y' } })
  assert.equal(stdout, 'hello there/y\n')
})

check('create-timeout', ['Sandbox.create(timeoutMs)'], async (t) => {
  const s = await t.fresh({ timeoutMs: 120_000 })
  const info = await s.getInfo()
  near(info.endAt - Date.now(), 120_000)
  near(info.startedAt.getTime(), Date.now())
})

check('create-default-timeout', ['Sandbox.create'], async (t) => {
  const s = await t.fresh()
  near((await s.getInfo()).endAt - Date.now(), 300_000)
})

check('create-secure', ['Sandbox.create(secure)'], async (t) => {
  const s = await t.fresh({ secure: false })
  assert.equal(await s.isRunning(), true)
})

check('create-without-internet', ['Sandbox.create(allowInternetAccess)'], async (t) => {
  const s = await t.fresh({ allowInternetAccess: false })
  assert.equal((await s.getInfo()).allowInternetAccess, false)
  const { exitCode } = await s.commands.run('curl -sm 5 http://example.com || exit 0')
  assert.equal(exitCode, 0)
})

check('create-lifecycle', ['Sandbox.create(lifecycle)'], async (t) => {
  const s = await t.fresh({ lifecycle: { onTimeout: 'pause', autoResume: true } })
  assert.deepEqual((await s.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
  const other = await t.fresh({ lifecycle: { onTimeout: 'kill' } })
  assert.deepEqual((await other.getInfo()).lifecycle, { onTimeout: 'kill', autoResume: false })
})

check('create-mcp', ['Sandbox.create(mcp)', 'Sandbox#getMcpToken'], async () => {
  await refused(Sandbox.create({ mcp: { time: {} } }))
}, { refuses: 'there is no gateway of MCP servers in the image' })

check('create-iam', ['Sandbox.create(iam)', 'Secret.iamToken'], async () => {
  await refused(Sandbox.create({
    iam: { tokens: { aws: { audience: 'sts.amazonaws.com', tokenType: 'JWT-SVID' } } }
  }))
}, { refuses: 'workloads have no identity of their own' })

check('create-bad-json-is-400', ['Sandbox.create'], async () => {
  const url = mode === 'url' ? process.env.E2B_API_URL : `https://api.${process.env.E2B_DOMAIN}`
  const res = await fetch(`${url}/v2/sandboxes`, {
    method: 'POST',
    headers: { 'X-API-KEY': process.env.E2B_API_KEY, 'Content-Type': 'application/json' },
    body: '{"templateID":'
  })
  assert.equal(res.status, 400)
  assert.equal((await res.json()).code, 400)
})

check('connect', ['Sandbox.connect'], async (t) => {
  const s = await t.fresh()
  await s.files.write('connect.txt', 'here')
  const again = await Sandbox.connect(s.sandboxId)
  assert.equal(again.sandboxId, s.sandboxId)
  assert.equal(await again.files.read('connect.txt'), 'here')
})

check('connect-method', ['Sandbox#connect'], async (t) => {
  const s = await t.fresh()
  assert.equal(await s.connect(), s)
})

check('connect-extends', ['Sandbox.connect(timeoutMs)'], async (t) => {
  const s = await t.fresh({ timeoutMs: 60_000 })
  await Sandbox.connect(s.sandboxId, { timeoutMs: 600_000 })
  near((await s.getInfo()).endAt - Date.now(), 600_000)
})

check('connect-never-shortens', ['Sandbox#connect(timeoutMs)'], async (t) => {
  const s = await t.fresh({ timeoutMs: 600_000 })
  await s.connect({ timeoutMs: 60_000 })
  near((await s.getInfo()).endAt - Date.now(), 600_000)
})

check('connect-unknown', ['Sandbox.connect'], async () => {
  await fails(Sandbox.connect(unknown), e2b.SandboxNotFoundError)
})

check('connect-killed', ['Sandbox.connect'], async (t) => {
  const s = await t.fresh()
  await s.kill()
  await fails(Sandbox.connect(s.sandboxId), e2b.SandboxNotFoundError)
})

check('info', ['Sandbox#getInfo', 'Sandbox.getInfo', 'Sandbox.getFullInfo'], async (t) => {
  const s = await t.shared()
  const info = await s.getInfo()
  assert.equal(info.sandboxId, s.sandboxId)
  assert.equal(info.state, 'running')
  assert.ok(info.cpuCount >= 1 && info.memoryMB >= 128, JSON.stringify(info))
  assert.match(info.envdVersion, /^\d+\.\d+\.\d+$/)
  assert.ok(info.endAt > info.startedAt)
  assert.deepEqual(info.volumeMounts, [])
  assert.deepEqual(await Sandbox.getInfo(s.sandboxId), info)
  assert.deepEqual(await Sandbox.getFullInfo(s.sandboxId), info)
})

check('info-unknown', ['Sandbox.getInfo'], async () => {
  await fails(Sandbox.getInfo(unknown), e2b.SandboxNotFoundError)
})

check('info-invalid-id', ['Sandbox.getInfo'], async () => {
  await fails(Sandbox.getInfo('no sandbox'), undefined, /40[04]|not found/)
})

check('kill', ['Sandbox#kill'], async (t) => {
  const s = await t.fresh()
  assert.equal(await s.kill(), true)
  assert.equal(await s.isRunning(), false)
  assert.equal(await s.kill(), false)
})

check('kill-by-id', ['Sandbox.kill'], async (t) => {
  const s = await t.fresh()
  assert.equal(await Sandbox.kill(s.sandboxId), true)
  assert.equal(await Sandbox.kill(s.sandboxId), false)
  assert.equal(await Sandbox.kill(unknown), false)
})

check('kill-ends-commands', ['Sandbox#kill', 'CommandHandle#wait'], async (t) => {
  const s = await t.fresh()
  const h = await s.commands.run('sleep 100', { background: true })
  const ended = fails(h.wait(), e2b.TimeoutError)
  await s.kill()
  await ended
})

check('killed-says-so', ['Sandbox#isRunning', 'Filesystem#read'], async (t) => {
  const s = await t.fresh()
  await s.kill()
  await fails(s.files.read('x'), e2b.TimeoutError, /killed/)
  await fails(s.commands.run('true'), e2b.SandboxNotFoundError)
  await fails(s.files.list('/'), e2b.TimeoutError)
})

check('expired-says-so', ['Sandbox#setTimeout', 'Sandbox#isRunning'], async (t) => {
  const s = await t.fresh({ timeoutMs: 2000 })
  await until('the sandbox ends', async () => !(await s.isRunning()))
  await fails(s.files.read('x'), e2b.TimeoutError, /expired/)
  assert.equal(await s.kill(), false)
})

check('set-timeout', ['Sandbox#setTimeout'], async (t) => {
  const s = await t.fresh({ timeoutMs: 60_000 })
  await s.setTimeout(900_000)
  near((await s.getInfo()).endAt - Date.now(), 900_000)
  await s.setTimeout(30_000)
  near((await s.getInfo()).endAt - Date.now(), 30_000)
})

check('set-timeout-by-id', ['Sandbox.setTimeout'], async (t) => {
  const s = await t.fresh()
  await Sandbox.setTimeout(s.sandboxId, 700_000)
  near((await s.getInfo()).endAt - Date.now(), 700_000)
  await fails(Sandbox.setTimeout(unknown, 1000), e2b.SandboxNotFoundError)
})

check('metrics', ['Sandbox#getMetrics', 'Sandbox.getMetrics(start, end)'], async (t) => {
  const s = await t.shared()
  let all = []
  await until('a sample', async () => (all = await s.getMetrics()).length > 0)
  const one = all.at(-1)
  near(one.timestamp.getTime(), Date.now(), 60_000)
  for (const name of ['cpuUsedPct', 'cpuCount', 'memUsed', 'memTotal', 'memCache', 'diskUsed',
    'diskTotal']) {
    assert.equal(typeof one[name], 'number', name)
  }
  assert.ok(one.memTotal > 0 && one.cpuCount > 0)
  const start = new Date(Date.now() - 3_600_000)
  assert.ok((await Sandbox.getMetrics(s.sandboxId, { start, end: new Date() })).length > 0)
  assert.deepEqual(
    await Sandbox.getMetrics(s.sandboxId, { start, end: new Date(Date.now() - 3_000_000) }), [])
})

check('metrics-unknown', ['Sandbox.getMetrics'], async () => {
  await fails(Sandbox.getMetrics(unknown), e2b.SandboxNotFoundError)
})

check('host', ['Sandbox#getHost', 'Sandbox#getMcpUrl'], async (t) => {
  const s = await t.shared()
  assert.equal(s.getHost(3000), `3000-${s.sandboxId}.${s.sandboxDomain}`)
  assert.match(s.getMcpUrl(), /^https:\/\/50005-.*\/mcp$/)
  if (mode === 'domain') {
    assert.equal(s.sandboxDomain, process.env.E2B_DOMAIN)
  }
})

check('running-options', ['Sandbox#isRunning(requestTimeoutMs, signal)'], async (t) => {
  const s = await t.shared()
  assert.equal(
    await s.isRunning({ requestTimeoutMs: 10_000, signal: AbortSignal.timeout(10_000) }), true)
  await fails(s.isRunning({ signal: AbortSignal.abort() }), undefined, /abort/i)
})

check('create-aborted', ['Sandbox.create(signal)'], async () => {
  await fails(Sandbox.create({ signal: AbortSignal.abort() }), undefined, /abort/i)
})

check('create-request-timeout', ['Sandbox.create(requestTimeoutMs)'], async () => {
  await fails(Sandbox.create({ requestTimeoutMs: 1 }), undefined, /time|abort/i)
})

check('create-headers', ['Sandbox.create(headers, apiHeaders, retries, validateApiKey)'],
  async (t) => {
    const s = await t.fresh({
      headers: { 'X-One': '1' }, apiHeaders: { 'X-Two': '2' }, retries: 0, validateApiKey: true
    })
    assert.equal(await s.isRunning(), true)
  })

check('create-connection', ['Sandbox.create(apiKey, apiUrl, sandboxUrl, domain)'], async (t) => {
  const s = await t.fresh({ apiKey: process.env.E2B_API_KEY, ...connection() })
  assert.equal((await s.commands.run('echo x')).stdout, 'x\n')
})

check('client', ['new E2B', 'Sandbox.create'], async (t) => {
  const client = new E2B({ apiKey: process.env.E2B_API_KEY, ...connection() })
  const s = await client.Sandbox.create()
  t.defer(() => s.kill())
  assert.equal((await s.commands.run('echo x')).stdout, 'x\n')
  const wrong = new E2B({ apiKey: 'e2b_00', ...connection() })
  await fails(wrong.Sandbox.create(), e2b.AuthenticationError)
})

check('create-wrong-key', ['Sandbox.create(apiKey)'], async () => {
  const key = 'e2b_' + '0'.repeat(40)
  await fails(Sandbox.create({ apiKey: key }), e2b.AuthenticationError)
  await fails(Sandbox.list({ apiKey: key }).nextItems(), e2b.AuthenticationError)
  await fails(Sandbox.kill(unknown, { apiKey: 'no hex' }), e2b.AuthenticationError)
})

check('create-logger', ['Sandbox.create(logger)'], async (t) => {
  const lines = []
  const log = (...args) => lines.push(args)
  const s = await t.fresh({ logger: { debug: log, info: log, warn: log, error: log } })
  await s.commands.run('true')
  await s.files.list('/')
  assert.ok(lines.length > 2)
})

check('create-proxy', ['Sandbox.create(proxy)'], async (t) => {
  let used = 0
  const proxy = http.createServer((req, res) => {
    used++
    const to = http.request(req.url, { method: req.method, headers: req.headers }, (from) => {
      res.writeHead(from.statusCode, from.headers)
      from.pipe(res)
    })
    to.on('error', () => res.destroy())
    req.pipe(to)
  })
  proxy.on('connect', (req, socket, head) => {
    used++
    const to = net.connect(Number(req.url.split(':').at(-1)), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      to.write(head)
      to.pipe(socket).pipe(to)
    })
    to.on('error', () => socket.destroy())
    socket.on('error', () => to.destroy())
  })
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.defer(async () => proxy.close())
  const s = await t.fresh({ proxy: `http://127.0.0.1:${proxy.address().port}` })
  assert.equal((await s.commands.run('echo x')).stdout, 'x\n')
  await s.files.write('x', 'y')
  assert.ok(used > 0)
})

check('create-many', ['Sandbox.create', 'Sandbox.kill'], async (t) => {
  const all = await Promise.all(Array.from({ length: 6 }, () => t.fresh()))
  assert.equal(new Set(all.map((s) => s.sandboxId)).size, 6)
  const outputs = await Promise.all(all.map((s, i) => s.commands.run(`echo ${i}`)))
  assert.deepEqual(outputs.map((o) => o.stdout.trim()), ['0', '1', '2', '3', '4', '5'])
})

check('traffic-token', ['Sandbox.create(network.allowPublicTraffic)'], async (t) => {
  const s = await t.fresh({ network: { allowPublicTraffic: false } })
  assert.ok(s.trafficAccessToken)
  assert.equal((await s.getInfo()).network.allowPublicTraffic, false)
})

check('interpreter-has-all', ['Sandbox.create'], async (t) => {
  const s = await interpreter.Sandbox.create()
  t.defer(() => s.kill())
  await s.files.write('x.txt', 'x')
  assert.equal((await s.commands.run('cat x.txt')).stdout, 'x')
  assert.equal((await s.runCode('open("x.txt").read()')).text, "x")
})

check('stopped-clients-leave-sandboxes', ['Sandbox.connect'], async (t) => {
  const s = await t.fresh()
  await s.commands.run('sleep 0.2; touch later', { background: true })
  const again = await Sandbox.connect(s.sandboxId)
  await until('the file', () => again.files.exists('later'))
})
