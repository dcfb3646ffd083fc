// Commands: their output, input, options and life.
import { assert, e2b, fails, pause, suite, until } from './kit.mjs'

const check = suite('commands')

check('run', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const result = await s.commands.run('echo hello; echo warning >&2')
  assert.equal(result.exitCode, 0)
  assert.equal(result.stdout, 'hello\n')
  assert.equal(result.stderr, 'warning\n')
  assert.ok(!result.error)
})

check('exit-code', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const err = await fails(s.commands.run('echo out; echo err >&2; exit 7'), e2b.CommandExitError)
  assert.equal(err.exitCode, 7)
  assert.equal(err.stdout, 'out\n')
  assert.equal(err.stderr, 'err\n')
  assert.match(err.error, /7/)
})

check('command-not-found', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const err = await fails(s.commands.run('no-such-command'), e2b.CommandExitError)
  assert.equal(err.exitCode, 127)
  assert.match(err.stderr, /not found/)
})

check('killed-by-signal', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const err = await fails(s.commands.run('kill -9 $$'), e2b.CommandExitError)
  assert.ok(err.exitCode !== 0)
  assert.match(err.error ?? '', /killed/)
})

check('cwd', ['Commands#run(cwd)'], async (t) => {
  const s = await t.shared()
  assert.equal((await s.commands.run('pwd', { cwd: '/usr/bin' })).stdout, '/usr/bin\n')
  assert.equal((await s.commands.run('pwd')).stdout, '/home/user\n')
})

check('cwd-missing', ['Commands#run(cwd)'], async (t) => {
  const s = await t.shared()
  await fails(s.commands.run('pwd', { cwd: '/no/such/folder' }), e2b.InvalidArgumentError)
})

check('envs', ['Commands#run(envs)'], async (t) => {
  const s = await t.shared()
  const { stdout } = await s.commands.run('echo "$A|$B|$HOME|$USER"', { envs: { A: '1 2', B: '"' } })
  assert.equal(stdout, '1 2|"|/home/user|user\n')
})

check('user', ['Commands#run(user)'], async (t) => {
  const s = await t.shared()
  assert.equal((await s.commands.run('whoami', { user: 'user' })).stdout, 'user\n')
  assert.equal((await s.commands.run('whoami')).stdout, 'user\n')
})

check('user-unknown', ['Commands#run(user)'], async (t) => {
  const s = await t.shared()
  await fails(s.commands.run('whoami', { user: 'nobody-here' }), e2b.AuthenticationError)
})

check('user-root', ['Commands#run(user root)'], async (t) => {
  const s = await t.shared()
  await fails(s.commands.run('whoami', { user: 'root' }))
}, { refuses: 'programs in a sandbox are never root' })

check('callbacks', ['Commands#run(onStdout, onStderr)'], async (t) => {
  const s = await t.shared()
  let out = ''
  let err = ''
  const result = await s.commands.run('for i in 1 2 3; do echo $i; echo e$i >&2; done', {
    onStdout: (data) => { out += data }, onStderr: async (data) => { err += data }
  })
  assert.equal(out, '1\n2\n3\n')
  assert.equal(err, 'e1\ne2\ne3\n')
  assert.equal(result.stdout, out)
})

// The command ends when the client has written a file, which it does when it gets the first output.
check('output-comes-at-once', ['Commands#run(onStdout)'], async (t) => {
  const s = await t.shared()
  let written
  const { stdout } = await s.commands.run(
    'echo a; for i in $(seq 400); do [ -e at-once ] && { echo b; exit; }; sleep 0.1; done; echo late',
    { onStdout: () => { written ??= s.files.write('at-once', '') } })
  await written
  assert.equal(stdout, 'a\nb\n')
})

check('background', ['Commands#run(background)', 'CommandHandle#wait'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('echo begun; sleep 0.3; echo ended', { background: true })
  assert.ok(h.pid > 0)
  assert.equal(h.exitCode, undefined)
  const result = await h.wait()
  assert.equal(result.stdout, 'begun\nended\n')
  assert.equal(h.exitCode, 0)
  assert.equal(h.stdout, 'begun\nended\n')
  assert.equal(h.stderr, '')
})

check('background-fails', ['CommandHandle#wait', 'CommandHandle#exitCode', 'CommandHandle#error',
  'CommandHandle#stderr', 'CommandHandle#stdout'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('echo o; echo e >&2; exit 3', { background: true })
  await fails(h.wait(), e2b.CommandExitError)
  assert.equal(h.exitCode, 3)
  assert.equal(h.stdout, 'o\n')
  assert.equal(h.stderr, 'e\n')
  assert.match(h.error, /3/)
})

check('timeout', ['Commands#run(timeoutMs)'], async (t) => {
  const s = await t.shared()
  await fails(s.commands.run('echo $$ > pid-of-timeout; exec sleep 3600', { timeoutMs: 1000 }),
    e2b.TimeoutError)
  await until('the command ends', async () => (await s.commands.run(
    'kill -0 $(cat pid-of-timeout) 2>/dev/null && echo there || echo gone')).stdout === 'gone\n')
})

check('no-timeout', ['Commands#run(timeoutMs)'], async (t) => {
  const s = await t.shared()
  assert.equal((await s.commands.run('sleep 0.1; echo x', { timeoutMs: 0 })).stdout, 'x\n')
})

check('request-options', ['Commands#run(requestTimeoutMs, signal)'], async (t) => {
  const s = await t.shared()
  const stop = new AbortController()
  assert.equal((await s.commands.run('echo x', {
    requestTimeoutMs: 10_000, signal: stop.signal
  })).stdout, 'x\n')
  const running = s.commands.run('sleep 50', { signal: stop.signal })
  setTimeout(() => stop.abort(), 300)
  await fails(running)
})

check('stdin', ['Commands#sendStdin', 'CommandHandle#sendStdin', 'Commands#closeStdin'],
  async (t) => {
    const s = await t.shared()
    const h = await s.commands.run('cat', { background: true, stdin: true })
    await s.commands.sendStdin(h.pid, 'one\n')
    await h.sendStdin('zwei ü\n')
    await h.sendStdin(new TextEncoder().encode('three\n'))
    await s.commands.closeStdin(h.pid)
    assert.equal((await h.wait()).stdout, 'one\nzwei ü\nthree\n')
  })

check('close-stdin', ['CommandHandle#closeStdin', 'Commands#run(stdin)',
  'Commands#supportsStdinClose'], async (t) => {
  const s = await t.shared()
  assert.equal(s.commands.supportsStdinClose, true)
  const h = await s.commands.run('wc -c', { background: true, stdin: true })
  await h.sendStdin('x'.repeat(100_000))
  await h.closeStdin()
  assert.equal((await h.wait()).stdout.trim(), '100000')
  await fails(h.sendStdin('more'))
})

check('stdin-is-closed', ['Commands#run(stdin)'], async (t) => {
  const s = await t.shared()
  assert.equal((await s.commands.run('cat; echo end', { stdin: false })).stdout, 'end\n')
})

check('stdin-unknown-pid', ['Commands#sendStdin', 'Commands#closeStdin'], async (t) => {
  const s = await t.shared()
  await fails(s.commands.sendStdin(999_999, 'x'), e2b.NotFoundError)
  await fails(s.commands.closeStdin(999_999), e2b.NotFoundError)
})

check('list', ['Commands#list'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('sleep 60', {
    background: true, cwd: '/tmp', envs: { LISTED: 'yes' }
  })
  const found = (await s.commands.list()).find((p) => p.pid === h.pid)
  assert.ok(found)
  assert.equal(found.cmd, '/bin/bash')
  assert.deepEqual(found.args, ['-l', '-c', 'sleep 60'])
  assert.equal(found.envs.LISTED, 'yes')
  assert.equal(found.cwd, '/tmp')
  await h.kill()
  await fails(h.wait(), e2b.CommandExitError)
  await until('it is off the list', async () =>
    !(await s.commands.list()).some((p) => p.pid === h.pid))
})

check('kill', ['Commands#kill'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('sleep 60', { background: true })
  assert.equal(await s.commands.kill(h.pid), true)
  const err = await fails(h.wait(), e2b.CommandExitError)
  assert.ok(err.exitCode !== 0)
  assert.match(err.error, /killed/)
  await until('the second kill finds nothing', async () => !(await s.commands.kill(h.pid)))
  assert.equal(await s.commands.kill(999_999), false)
})

check('handle-kill', ['CommandHandle#kill'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('sleep 60', { background: true })
  assert.equal(await h.kill(), true)
  await fails(h.wait(), e2b.CommandExitError)
})

check('connect', ['Commands#connect(onStdout, timeoutMs)'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('echo one; sleep 1; echo two', { background: true })
  let seen = ''
  const again = await s.commands.connect(h.pid, {
    onStdout: (data) => { seen += data }, timeoutMs: 20_000
  })
  assert.equal(again.pid, h.pid)
  assert.match((await again.wait()).stdout, /two\n$/)
  assert.match(seen, /two\n$/)
  assert.equal((await h.wait()).stdout, 'one\ntwo\n')
})

check('connect-replays', ['Commands#connect', 'CommandHandle#disconnect'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('echo one; sleep 1; echo two; echo e >&2', { background: true })
  await until('the first output', () => h.stdout === 'one\n')
  await h.disconnect()
  await pause(300)
  const result = await (await s.commands.connect(h.pid)).wait()
  assert.equal(result.stdout, 'one\ntwo\n')
  assert.equal(result.stderr, 'e\n')
})

check('connect-after-the-end', ['Commands#connect'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('echo over', { background: true })
  await h.wait()
  const again = await s.commands.connect(h.pid)
  assert.equal((await again.wait()).stdout, 'over\n')
})

check('connect-unknown', ['Commands#connect'], async (t) => {
  const s = await t.shared()
  await fails(s.commands.connect(999_999), e2b.NotFoundError)
})

check('disconnect', ['CommandHandle#disconnect'], async (t) => {
  const s = await t.shared()
  let calls = 0
  const h = await s.commands.run('for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done; touch lasted', {
    background: true, onStdout: () => { calls++ }
  })
  await until('some output', () => calls > 0)
  await h.disconnect()
  const then = calls
  await until('the command goes on', () => s.files.exists('lasted'))
  assert.equal(calls, then)
})

check('two-viewers', ['Commands#connect'], async (t) => {
  const s = await t.shared()
  const h = await s.commands.run('for i in 1 2 3; do sleep 0.2; echo $i; done', { background: true })
  const others = await Promise.all([s.commands.connect(h.pid), s.commands.connect(h.pid)])
  for (const viewer of [h, ...others]) {
    assert.equal((await viewer.wait()).stdout, '1\n2\n3\n')
  }
})

check('large-output', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const { stdout } = await s.commands.run("yes 0123456789abcde | head -c 8000000")
  assert.equal(stdout.length, 8_000_000)
  assert.ok(stdout.endsWith('0123456789abcde\n'))
})

check('unicode', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const text = 'äöü €uro 日本語 🚀'
  assert.equal((await s.commands.run(`echo '${text}'`)).stdout, text + '\n')
  const { stdout } = await s.commands.run("printf '\\xf0\\x9f'; sleep 0.2; printf '\\x9a\\x80'")
  assert.equal(stdout, '🚀')
})

check('shell', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const { stdout } = await s.commands.run(
    'cat <<X | tr a-z A-Z | head -1\nfirst\nsecond\nX\n[[ 1 == 1 ]] && echo "two  spaces" \'$HOME\'')
  assert.equal(stdout, 'FIRST\ntwo  spaces $HOME\n')
})

check('many-at-once', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const all = await Promise.all(Array.from({ length: 12 }, (_, i) =>
    s.commands.run(`sleep 0.1; echo ${i}`)))
  assert.deepEqual(all.map((r) => Number(r.stdout)), [...Array(12).keys()])
})

check('many-turns', ['Commands#run'], async (t) => {
  const s = await t.fresh()
  for (let turn = 0; turn < 3; turn++) {
    await Promise.all(Array.from({ length: 60 }, () => s.commands.run('true')))
  }
})

check('children-outlive', ['Commands#run'], async (t) => {
  const s = await t.shared()
  const { stdout } = await s.commands.run('(sleep 0.5; touch child) >/dev/null 2>&1 & echo done')
  assert.equal(stdout, 'done\n')
  await until('the child goes on', () => s.files.exists('child'))
})

check('empty', ['Commands#run'], async (t) => {
  const s = await t.shared()
  assert.deepEqual(await s.commands.run('').then((r) => [r.exitCode, r.stdout]), [0, ''])
})
