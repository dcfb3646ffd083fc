// Events of folders.
import { assert, e2b, fails, suite, until } from './kit.mjs'

const check = suite('watch')

// watched watches the folder of a check. Its events are "type name".
async function watched(t, options = {}) {
  const s = await t.shared()
  await s.files.makeDir(t.path())
  const w = { sandbox: s, events: [] }
  w.handle = await s.files.watchDir(t.path(), (e) => { w.events.push(`${e.type} ${e.name}`) }, options)
  t.defer(() => w.handle.stop())
  w.expect = (event) => until(() => `${event} in ${w.events}`, () => w.events.includes(event))
  return w
}

check('create', ['Filesystem#watchDir'], async (t) => {
  const w = await watched(t)
  await w.sandbox.files.write(t.path('new.txt'), 'x')
  await w.expect('create new.txt')
  await w.expect('write new.txt')
})

check('remove', ['Filesystem#watchDir'], async (t) => {
  const w = await watched(t)
  await w.sandbox.files.write(t.path('x'), 'x')
  await w.expect('create x')
  await w.sandbox.files.remove(t.path('x'))
  await w.expect('remove x')
})

check('rename', ['Filesystem#watchDir'], async (t) => {
  const w = await watched(t)
  await w.sandbox.files.write(t.path('x'), 'x')
  await w.sandbox.files.rename(t.path('x'), t.path('y'))
  await w.expect('rename x')
  await w.expect('create y')
})

check('chmod', ['Filesystem#watchDir'], async (t) => {
  const w = await watched(t)
  await w.sandbox.files.write(t.path('x'), 'x')
  await w.sandbox.commands.run(`chmod 600 ${t.path('x')}`)
  await w.expect('chmod x')
})

check('of-commands', ['Filesystem#watchDir'], async (t) => {
  const w = await watched(t)
  await w.sandbox.commands.run(`cd ${t.path()} && echo 1 > a && echo 2 >> a && mkdir b`)
  await w.expect('create a')
  await w.expect('write a')
  await w.expect('create b')
})

check('not-recursive', ['Filesystem#watchDir'], async (t) => {
  const w = await watched(t)
  await w.sandbox.files.write(t.path('sub/x'), 'x')
  await w.sandbox.files.write(t.path('last'), 'x')
  await w.expect('create last')
  assert.ok(!w.events.some((e) => e.endsWith('sub/x')), w.events.join())
})

check('recursive', ['Filesystem#watchDir(recursive)'], async (t) => {
  const s = await t.shared()
  await s.files.makeDir(t.path('sub/deeper'))
  const w = await watched(t, { recursive: true })
  await s.files.write(t.path('sub/deeper/x'), 'x')
  await w.expect('create sub/deeper/x')
})

check('recursive-new-folder', ['Filesystem#watchDir(recursive)'], async (t) => {
  const w = await watched(t, { recursive: true })
  await w.sandbox.files.makeDir(t.path('new'))
  await w.expect('create new')
  await until('events of the new folder', async () => {
    await w.sandbox.files.write(t.path(`new/${Date.now()}`), 'x')
    return w.events.some((e) => /new\/\d+/.test(e))
  })
})

check('stop', ['WatchHandle#stop', 'Filesystem#watchDir(onExit)'], async (t) => {
  let ended = false
  const w = await watched(t, { onExit: () => { ended = true } })
  await w.handle.stop()
  await until('onExit', () => ended)
  const seen = w.events.length
  await w.sandbox.files.write(t.path('later'), 'x')
  assert.equal(w.events.length, seen)
})

check('timeout', ['Filesystem#watchDir(timeoutMs, onExit)'], async (t) => {
  let error
  const end = (err) => { error = err ?? 'none' }
  // On a busy machine the time ends before the watch begins.
  await watched(t, { timeoutMs: 1000, onExit: end }).catch(end)
  await until('the watch ends', () => error)
  assert.ok(error instanceof e2b.TimeoutError, String(error))
})

check('missing', ['Filesystem#watchDir'], async (t) => {
  const s = await t.shared()
  await fails(s.files.watchDir(t.path('nothing'), () => {}), e2b.FileNotFoundError)
  await s.files.write(t.path('file'), '')
  await fails(s.files.watchDir(t.path('file'), () => {}), e2b.InvalidArgumentError)
})

check('two-watchers', ['Filesystem#watchDir'], async (t) => {
  const one = await watched(t)
  const two = await watched(t)
  await one.sandbox.files.write(t.path('x'), 'x')
  await one.expect('create x')
  await two.expect('create x')
})

check('kill-ends-watch', ['Filesystem#watchDir(onExit)'], async (t) => {
  const s = await t.fresh()
  let error
  await s.files.watchDir('/tmp', () => {}, { onExit: (err) => { error = err ?? 'none' } })
  await s.kill()
  await until('onExit', () => error)
  assert.ok(error instanceof Error, String(error))
})
