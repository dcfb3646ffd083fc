// Terminals.
import { assert, e2b, fails, suite, until } from './kit.mjs'

const check = suite('pty')

// terminal opens a terminal. Its send types a line, and seen is its output until now.
async function terminal(t, options = {}) {
  const s = await t.shared()
  const decoder = new TextDecoder()
  const term = { seen: '', sandbox: s }
  term.handle = await s.pty.create({
    cols: 80, rows: 24, onData: (data) => { term.seen += decoder.decode(data, { stream: true }) },
    ...options
  })
  t.defer(() => s.pty.kill(term.handle.pid))
  term.send = (line) => s.pty.sendInput(term.handle.pid, new TextEncoder().encode(line + '\n'))
  term.expect = (pattern) => until(() => `${pattern} in ${JSON.stringify(term.seen)}`,
    () => pattern.test(term.seen))
  return term
}

check('create', ['Pty#create', 'Pty#sendInput'], async (t) => {
  const term = await terminal(t)
  assert.ok(term.handle.pid > 0)
  await term.send('echo $((6*7))')
  await term.expect(/42\r\n/)
})

check('size', ['Pty#create(cols, rows)', 'Pty#resize'], async (t) => {
  const term = await terminal(t, { cols: 101, rows: 31 })
  await term.send('stty size')
  await term.expect(/31 101/)
  await term.sandbox.pty.resize(term.handle.pid, { cols: 55, rows: 12 })
  await term.send('stty size')
  await term.expect(/12 55/)
})

check('envs', ['Pty#create(envs, cwd, user)'], async (t) => {
  const term = await terminal(t, { envs: { MINE: 'yes' }, cwd: '/usr', user: 'user' })
  await term.send('echo "[$MINE][$TERM][$LANG][$PWD][$(whoami)]"')
  await term.expect(/\[yes\]\[xterm-256color\]\[C.UTF-8\]\[\/usr\]\[user\]/)
})

check('exit', ['Pty#create', 'CommandHandle#wait'], async (t) => {
  const term = await terminal(t)
  await term.send('exit')
  assert.equal((await term.handle.wait()).exitCode, 0)
})

check('exit-code', ['CommandHandle#wait'], async (t) => {
  const term = await terminal(t)
  await term.send('exit 5')
  const err = await fails(term.handle.wait(), e2b.CommandExitError)
  assert.equal(err.exitCode, 5)
})

check('kill', ['Pty#kill'], async (t) => {
  const term = await terminal(t)
  assert.equal(await term.sandbox.pty.kill(term.handle.pid), true)
  await fails(term.handle.wait(), e2b.CommandExitError)
  await until('the second kill finds nothing', async () =>
    !(await term.sandbox.pty.kill(term.handle.pid)))
})

check('interrupt', ['Pty#sendInput'], async (t) => {
  const term = await terminal(t)
  await term.send('echo ready-$((1+1)); sleep 100')
  await term.expect(/ready-2/)
  await until('the sleep ends', async () => {
    await term.sandbox.pty.sendInput(term.handle.pid, Uint8Array.of(3))
    await term.send('echo prompt-$((1+1))')
    return /prompt-2/.test(term.seen)
  })
})

check('connect', ['Pty#connect', 'CommandHandle#disconnect'], async (t) => {
  const term = await terminal(t)
  await term.send('echo before-$((1+1))')
  await term.expect(/before-2/)
  await term.handle.disconnect()
  await term.send('echo between-$((1+1))')
  let seen = ''
  const decoder = new TextDecoder()
  const again = await term.sandbox.pty.connect(term.handle.pid, {
    onData: (data) => { seen += decoder.decode(data) }, timeoutMs: 0
  })
  assert.equal(again.pid, term.handle.pid)
  await until('what was printed in the meantime', () => /between-2/.test(seen))
  await term.send('echo after-$((1+1))')
  await until('what is printed now', () => /after-2/.test(seen))
})

check('timeout', ['Pty#create(timeoutMs)'], async (t) => {
  // On a busy machine the time ends before the terminal is there.
  const ended = async () => (await terminal(t, { timeoutMs: 1500 })).handle.wait()
  await fails(ended(), e2b.TimeoutError)
})

check('list', ['Commands#list', 'Pty#create'], async (t) => {
  const term = await terminal(t)
  const found = (await term.sandbox.commands.list()).find((p) => p.pid === term.handle.pid)
  assert.equal(found.cmd, '/bin/bash')
  assert.deepEqual(found.args, ['-i', '-l'])
})

check('unknown', ['Pty#sendInput', 'Pty#resize', 'Pty#connect', 'Pty#kill'], async (t) => {
  const s = await t.shared()
  await fails(s.pty.sendInput(999_999, Uint8Array.of(1)), e2b.NotFoundError)
  await fails(s.pty.resize(999_999, { cols: 1, rows: 1 }), e2b.NotFoundError)
  await fails(s.pty.connect(999_999), e2b.NotFoundError)
  assert.equal(await s.pty.kill(999_999), false)
})

check('unicode', ['Pty#sendInput'], async (t) => {
  const term = await terminal(t)
  await term.send('echo "[日本 ü]" | tr -d ab')
  await term.expect(/\r\[日本 ü\]\r/)
})

check('full-screen', ['Pty#create'], async (t) => {
  const term = await terminal(t)
  await term.send('vi -u NONE')
  await term.expect(/\x1b\[\?1049h/)
  await until('vi ends', async () => {
    await term.sandbox.pty.sendInput(term.handle.pid, new TextEncoder().encode('\x1b:q!\r'))
    return /\x1b\[\?1049l/.test(term.seen)
  })
  await term.send('\necho left-$((1+1))')
  await term.expect(/left-2/)
})
