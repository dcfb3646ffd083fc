// Lists of sandboxes, their filters and pages.
import { assert, e2b, fails, pause, suite } from './kit.mjs'

const { Sandbox } = e2b
const check = suite('list')

// everything reads all pages.
async function everything(paginator) {
  const all = []
  while (paginator.hasNext) {
    all.push(...await paginator.nextItems())
  }
  return all
}

// marked creates sandboxes with a mark of their own, one after the other.
async function marked(t, n) {
  const mark = `${t.check.name}-${Math.random()}`
  const ids = []
  for (let i = 0; i < n; i++) {
    ids.push((await t.fresh({ metadata: { mark } })).sandboxId)
  }
  return { mark, ids }
}

function ids(list) {
  return list.map((s) => s.sandboxId)
}

check('all', ['Sandbox.list', 'SandboxPaginator#nextItems'], async (t) => {
  const s = await t.shared()
  const found = (await everything(Sandbox.list())).find((o) => o.sandboxId === s.sandboxId)
  assert.ok(found)
  assert.equal(found.state, 'running')
  assert.ok(found.startedAt instanceof Date && found.endAt > found.startedAt)
  assert.ok(found.cpuCount >= 1 && found.memoryMB >= 128)
  assert.ok(found.templateId && found.envdVersion)
})

check('metadata', ['Sandbox.list(query.metadata)'], async (t) => {
  const s = await t.fresh({ metadata: { 'k&1': 'a=b c%', other: 'ü' } })
  const query = { metadata: { 'k&1': 'a=b c%', other: 'ü' } }
  assert.deepEqual(ids(await everything(Sandbox.list({ query }))), [s.sandboxId])
  assert.deepEqual(await everything(Sandbox.list({ query: { metadata: { 'k&1': 'x' } } })), [])
})

check('state', ['Sandbox.list(query.state)'], async (t) => {
  const { mark, ids: [one, two] } = await marked(t, 2)
  await Sandbox.pause(two)
  const list = (state) => everything(Sandbox.list({ query: { metadata: { mark }, state } }))
  assert.deepEqual(ids(await list(['running'])), [one])
  const paused = await list(['paused'])
  assert.deepEqual(ids(paused), [two])
  assert.equal(paused[0].state, 'paused')
  assert.deepEqual(ids(await list(['running', 'paused'])).sort(), [one, two].sort())
  assert.deepEqual(ids(await list(undefined)).sort(), [one, two].sort())
})

check('started-after', ['Sandbox.list(query.startedAfter)'], async (t) => {
  const { mark } = await marked(t, 1)
  await pause(1100)
  const startedAfter = new Date()
  const later = await t.fresh({ metadata: { mark } })
  const list = await everything(Sandbox.list({ query: { metadata: { mark }, startedAfter } }))
  assert.deepEqual(ids(list), [later.sandboxId])
})

check('template', ['Sandbox.list(query.template)'], async (t) => {
  const mark = `template-${Math.random()}`
  const base = await t.fresh('base', { metadata: { mark } })
  await t.fresh('code-interpreter-v1', { metadata: { mark } })
  const list = await everything(Sandbox.list({ query: { metadata: { mark }, template: 'base' } }))
  assert.deepEqual(ids(list), [base.sandboxId])
})

check('order', ['Sandbox.list(order)'], async (t) => {
  const { mark, ids: created } = await marked(t, 3)
  const list = async (order) => ids(await everything(
    Sandbox.list({ query: { metadata: { mark } }, order })))
  assert.deepEqual(await list('asc'), created)
  assert.deepEqual(await list('desc'), created.toReversed())
})

check('pages', ['Sandbox.list(limit, nextToken)', 'SandboxPaginator#nextItems'], async (t) => {
  const { mark, ids: created } = await marked(t, 3)
  const query = { metadata: { mark } }
  const pages = Sandbox.list({ query, limit: 2, order: 'asc' })
  assert.equal(pages.hasNext, true)
  assert.deepEqual(ids(await pages.nextItems()), created.slice(0, 2))
  assert.equal(pages.hasNext, true)
  const rest = Sandbox.list({ query, limit: 2, order: 'asc', nextToken: pages.nextToken })
  assert.deepEqual(ids(await rest.nextItems()), created.slice(2))
  assert.equal(rest.hasNext, false)
  await fails(rest.nextItems(), Error, /No more items/)
})

check('killed-are-gone', ['Sandbox.list'], async (t) => {
  const { mark, ids: [id] } = await marked(t, 1)
  await Sandbox.kill(id)
  assert.deepEqual(await everything(Sandbox.list({ query: { metadata: { mark } } })), [])
})

check('bad-token', ['Sandbox.list(nextToken)'], async () => {
  await fails(Sandbox.list({ nextToken: 'not a token' }).nextItems(), undefined, /^400: /)
})
