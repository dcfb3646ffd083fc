// Runs the checks of the suites named as arguments, several at a time, and prints one line of JSON
// for each. With --plan it prints the checks and the SDK's methods instead of running them.
import { checks, Context, e2b, interpreter, mode } from './kit.mjs'
import { methods } from './methods.mjs'

const parallel = Number(process.env.CHECK_PARALLEL ?? 4)
const only = process.env.CHECK_ONLY ? new RegExp(process.env.CHECK_ONLY) : undefined
const plan = process.argv.includes('--plan')
for (const name of process.argv.slice(2).filter((a) => !a.startsWith('--'))) {
  await import(`./${name}.mjs`)
}

function print(value) {
  process.stdout.write(JSON.stringify(value) + '\n')
}

// A Shared is the sandbox of a suite: the first check creates it, the last one kills it.
class Shared {
  #sandbox
  left = 0

  open(check) {
    this.#sandbox ??= (check.sdk === 'interpreter' ? interpreter : e2b).Sandbox.create({
      timeoutMs: 3_600_000, requestTimeoutMs: 300_000
    })
    return this.#sandbox
  }

  async done() {
    if (--this.left === 0 && this.#sandbox) {
      await this.#sandbox.then((s) => s.kill()).catch(() => {})
    }
  }
}

function timeout(ms) {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`no end within ${ms} ms`)), ms).unref()
  })
}

async function run(check, shared) {
  const context = new Context(check, shared)
  const began = Date.now()
  let error
  try {
    await Promise.race([check.run(context), timeout(check.timeout ?? 600_000)])
  } catch (err) {
    error = `${err?.constructor?.name}: ${err?.stack ?? err}`
    if (err?.cause) {
      error += `\nbecause of ${err.cause.stack ?? err.cause}`
    }
  }
  print({ name: check.name, ok: error === undefined, error, ms: Date.now() - began })
  await context.end()
  await shared.done()
}

function describe({ name, covers, refuses, mode }) {
  return { name, covers, refuses, mode }
}

if (plan) {
  print({ plan: checks.map(describe), methods: methods() })
  process.exit(0)
}

// An error that nobody waits for must not end the other checks.
process.on('unhandledRejection', (err) => print({ stray: String(err?.stack ?? err) }))

const queue = checks.filter((c) => (!c.mode || c.mode === mode) && (!only || only.test(c.name)))
print({ plan: queue.map(describe) })
const shared = {}
for (const check of queue) {
  shared[check.suite] ??= new Shared()
  shared[check.suite].left++
}
const waiting = [...queue]
await Promise.all(Array.from({ length: parallel }, async () => {
  for (let check = waiting.shift(); check; check = waiting.shift()) {
    await run(check, shared[check.suite])
  }
}))
process.exit(0)
