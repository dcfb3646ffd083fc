// The quotas of a tenant refuse requests with 429 and Retry-After.
import { createInterface } from 'node:readline'
import { assert, e2b, fails, suite } from './kit.mjs'

const check = suite('limits', { timeout: 900_000 })
const { RateLimitError, Sandbox } = e2b
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// quota has the test set the quota of the tenant.
async function quota(value) {
  process.stdout.write(JSON.stringify({ ask: `quota ${JSON.stringify(value)}` }) + '\n')
  await answers.next()
}

check('sessions', ['Sandbox.create(retries)'], async (t) => {
  await quota({ sessions: 1 })
  const first = await t.fresh()
  await fails(Sandbox.create({ retries: 0 }), RateLimitError, /quota/)
  let created = false
  const second = t.fresh().then((s) => {
    created = true
    return s
  })
  await fails(Sandbox.create({ retries: 0 }), RateLimitError)
  assert.equal(created, false)
  assert.equal(await first.kill(), true)
  assert.equal(await (await second).kill(), true) // the SDK has repeated the request
})

check('requests', ['Sandbox.list(retries)'], async () => {
  await quota({ requests_per_second: 1 })
  const list = (options) => Sandbox.list(options).nextItems()
  const all = await Promise.allSettled(Array.from({ length: 8 }, () => list({ retries: 0 })))
  const refused = all.filter((r) => r.status === 'rejected')
  assert.ok(refused.length > 0, 'no request was refused')
  for (const { reason } of refused) {
    assert.ok(reason instanceof RateLimitError, String(reason))
  }
  assert.deepEqual(await list(), []) // repeated until it passes
  await quota({})
})
