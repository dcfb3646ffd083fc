// Pause, resume, expiry, snapshots and forks.
import { assert, e2b, fails, near, pause, refused, suite, until } from './kit.mjs'

const { Sandbox } = e2b
const check = suite('lifecycle')

async function state(s) {
  return (await Sandbox.getInfo(s.sandboxId)).state
}

// counting starts a program that counts, and returns a function that reads where it is.
async function counting(s) {
  await s.commands.run('i=0; while :; do echo $((i++)) > count; sleep 0.1; done', {
    background: true, timeoutMs: 0
  })
  await until('it counts', () => s.files.exists('count'))
  return async (sandbox = s) => Number(await sandbox.files.read('count'))
}

check('pause', ['Sandbox#pause', 'Sandbox#connect'], async (t) => {
  const s = await t.fresh()
  await s.files.write('kept', 'still here')
  const count = await counting(s)
  assert.equal(await s.pause(), true)
  assert.equal(await state(s), 'paused')
  await s.connect()
  assert.equal(await state(s), 'running')
  assert.equal(await s.files.read('kept'), 'still here')
  const was = await count()
  await until('it goes on counting', async () => (await count()) > was)
})

check('pause-twice', ['Sandbox#pause', 'Sandbox.pause', 'Sandbox#betaPause'], async (t) => {
  const s = await t.fresh()
  assert.equal(await Sandbox.pause(s.sandboxId), true)
  assert.equal(await Sandbox.pause(s.sandboxId), false)
  assert.equal(await s.betaPause(), false)
})

check('beta-pause', ['Sandbox.betaPause', 'Sandbox#betaPause'], async (t) => {
  const s = await t.fresh()
  assert.equal(await s.betaPause(), true)
  assert.equal(await Sandbox.betaPause(s.sandboxId), false)
})

check('pause-unknown', ['Sandbox.pause'], async () => {
  await fails(Sandbox.pause('i0123456789abcdefghij'), e2b.SandboxNotFoundError)
})

check('paused-is-not-running', ['Sandbox#isRunning', 'Sandbox#pause'], async (t) => {
  const s = await t.fresh()
  await s.pause()
  assert.equal(await s.isRunning(), false)
  await fails(s.files.read('x'), e2b.TimeoutError, /paused/)
  assert.equal(await state(s), 'paused')
})

check('kill-paused', ['Sandbox#kill'], async (t) => {
  const s = await t.fresh()
  await s.pause()
  assert.equal(await s.kill(), true)
  await fails(Sandbox.connect(s.sandboxId), e2b.SandboxNotFoundError)
})

check('resume-timeout', ['Sandbox.connect(timeoutMs)'], async (t) => {
  const s = await t.fresh({ timeoutMs: 60_000 })
  await s.pause()
  const again = await Sandbox.connect(s.sandboxId, { timeoutMs: 500_000 })
  near((await again.getInfo()).endAt - Date.now(), 500_000)
  assert.equal((await again.commands.run('echo back')).stdout, 'back\n')
})

check('pause-without-memory', ['Sandbox#pause(keepMemory)'], async (t) => {
  const s = await t.fresh()
  await refused(s.pause({ keepMemory: false }))
}, { refuses: 'a pause always keeps the memory' })

check('resume-reboot', ['Sandbox.connect(onResume)'], async (t) => {
  const s = await t.fresh()
  await s.pause()
  await refused(Sandbox.connect(s.sandboxId, { onResume: 'reboot' }))
}, { refuses: 'a sandbox resumes with its memory' })

check('resume-restore', ['Sandbox.connect(onResume)'], async (t) => {
  const s = await t.fresh()
  await s.pause()
  const again = await Sandbox.connect(s.sandboxId, { onResume: 'restore' })
  assert.equal(await again.isRunning(), true)
})

check('auto-pause', ['Sandbox.create(lifecycle.onTimeout)'], async (t) => {
  const s = await t.fresh({ timeoutMs: 3000, lifecycle: { onTimeout: 'pause' } })
  await s.files.write('kept', 'x')
  await until('it pauses', async () => (await state(s)) === 'paused')
  const again = await Sandbox.connect(s.sandboxId)
  assert.equal(await again.files.read('kept'), 'x')
})

check('auto-pause-object', ['Sandbox.create(lifecycle.onTimeout)'], async (t) => {
  const s = await t.fresh({
    timeoutMs: 3000, lifecycle: { onTimeout: { action: 'pause', keepMemory: true } }
  })
  await until('it pauses', async () => (await state(s)) === 'paused')
})

check('auto-resume', ['Sandbox.create(lifecycle.autoResume)'], async (t) => {
  const s = await t.fresh({
    timeoutMs: 3000, lifecycle: { onTimeout: 'pause', autoResume: true }
  })
  await s.files.write('kept', 'x')
  await until('it pauses', async () => (await state(s)) === 'paused')
  assert.equal((await s.commands.run('cat kept')).stdout, 'x')
  assert.equal(await state(s), 'running')
})

check('no-auto-resume', ['Sandbox.create(lifecycle.autoResume)'], async (t) => {
  const s = await t.fresh({
    timeoutMs: 3000, lifecycle: { onTimeout: 'pause', autoResume: false }
  })
  await until('it pauses', async () => (await state(s)) === 'paused')
  await fails(s.commands.run('true'), e2b.SandboxNotFoundError)
  assert.equal(await state(s), 'paused')
})

check('timeout-kills', ['Sandbox.create(lifecycle.onTimeout)'], async (t) => {
  const s = await t.fresh({ timeoutMs: 2000, lifecycle: { onTimeout: 'kill' } })
  await until('it is gone', async () => {
    await pause(200)
    return state(s).then(() => false, (err) => err instanceof e2b.SandboxNotFoundError)
  })
})

check('timeout-ends-commands', ['CommandHandle#wait'], async (t) => {
  const s = await t.fresh({ timeoutMs: 3000 })
  const h = await s.commands.run('sleep 100', { background: true })
  await fails(h.wait(), e2b.TimeoutError)
})

check('snapshot', ['Sandbox#createSnapshot', 'Sandbox.create(template)'], async (t) => {
  const s = await t.fresh()
  await s.files.write('state.json', '{"step": 1}')
  const snapshot = await s.createSnapshot()
  t.defer(() => Sandbox.deleteSnapshot(snapshot.snapshotId))
  assert.ok(snapshot.snapshotId)
  await s.files.write('state.json', '{"step": 2}')
  const copy = await t.fresh(snapshot.snapshotId)
  assert.equal(await copy.files.read('state.json'), '{"step": 1}')
  assert.equal(await s.files.read('state.json'), '{"step": 2}')
})

check('snapshot-name', ['Sandbox.createSnapshot(name)'], async (t) => {
  const s = await t.fresh()
  await s.files.write('x', 'named')
  const name = `snapshot-${Math.random().toString(36).slice(2)}`
  const snapshot = await Sandbox.createSnapshot(s.sandboxId, { name })
  t.defer(() => Sandbox.deleteSnapshot(snapshot.snapshotId))
  assert.ok(snapshot.names.some((n) => n.includes(name)), JSON.stringify(snapshot))
  const copy = await t.fresh(name)
  assert.equal(await copy.files.read('x'), 'named')
})

check('snapshot-outlives-sandbox', ['Sandbox#createSnapshot', 'Sandbox#kill'], async (t) => {
  const s = await t.fresh()
  await s.files.write('x', 'kept')
  const { snapshotId } = await s.createSnapshot()
  t.defer(() => Sandbox.deleteSnapshot(snapshotId))
  await s.kill()
  assert.equal(await (await t.fresh(snapshotId)).files.read('x'), 'kept')
})

check('snapshot-list', ['Sandbox.listSnapshots(sandboxId, limit, nextToken)',
  'Sandbox#listSnapshots', 'SnapshotPaginator#nextItems'], async (t) => {
  const s = await t.fresh()
  const made = []
  for (let i = 0; i < 2; i++) {
    made.push((await s.createSnapshot()).snapshotId)
  }
  t.defer(() => Promise.all(made.map((id) => Sandbox.deleteSnapshot(id))))
  const found = (await s.listSnapshots().nextItems()).map((x) => x.snapshotId)
  assert.deepEqual(found.toSorted(), made.toSorted())
  const pages = Sandbox.listSnapshots({ sandboxId: s.sandboxId, limit: 1 })
  const first = await pages.nextItems()
  assert.equal(first.length, 1)
  assert.equal(pages.hasNext, true)
  const second = await Sandbox.listSnapshots({
    sandboxId: s.sandboxId, limit: 1, nextToken: pages.nextToken
  }).nextItems()
  assert.deepEqual([...first, ...second].map((x) => x.snapshotId).toSorted(), made.toSorted())
})

check('snapshot-delete', ['Sandbox.deleteSnapshot'], async (t) => {
  const s = await t.fresh()
  const { snapshotId } = await s.createSnapshot()
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), false)
  await fails(Sandbox.create(snapshotId))
})

check('fork', ['Sandbox#fork(count, timeoutMs)'], async (t) => {
  const s = await t.fresh()
  await s.files.write('x', 'before')
  const count = await counting(s)
  const copies = await s.fork({ count: 2, timeoutMs: 200_000 })
  assert.equal(copies.length, 2)
  for (const copy of copies) {
    assert.ok(copy instanceof Sandbox, String(copy))
    t.defer(() => copy.kill())
    assert.notEqual(copy.sandboxId, s.sandboxId)
    assert.equal(await copy.files.read('x'), 'before')
    const was = await count(copy)
    await until('it goes on counting', async () => (await count(copy)) > was)
    near((await copy.getInfo()).endAt - Date.now(), 200_000)
  }
  await s.files.write('x', 'after')
  assert.equal(await copies[0].files.read('x'), 'before')
})

check('fork-by-id', ['Sandbox.fork'], async (t) => {
  const s = await t.fresh()
  const [copy] = await Sandbox.fork(s.sandboxId)
  assert.ok(copy instanceof Sandbox, String(copy))
  t.defer(() => copy.kill())
  assert.equal((await copy.commands.run('echo copy')).stdout, 'copy\n')
})

check('fork-unknown', ['Sandbox.fork'], async () => {
  await fails(Sandbox.fork('i0123456789abcdefghij'), e2b.SandboxNotFoundError)
})
