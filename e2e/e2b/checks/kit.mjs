// The kit of the checks: how a check is declared, and what it gets.
import assert from 'node:assert/strict'

export { assert }

// The packages under test. The names are those of package.json.
export const e2b = await import(process.env.CHECK_E2B ?? 'e2b')
export const interpreter = process.env.CHECK_INTERPRETER === 'none'
  ? undefined
  : await import(process.env.CHECK_INTERPRETER ?? '@e2b/code-interpreter')

// mode is url or domain.
export const mode = process.env.CHECK_MODE ?? 'url'

// All checks in the order of their declaration.
export const checks = []

// suite returns a function that declares checks. Their name is the suite's and their own.
// `covers` lists the methods that a check proves, each with the options that it uses, as in
// "Sandbox.create(metadata, envs)". The options of a suite and a check are:
//   sdk      e2b or interpreter: the package of the sandbox that the suite shares
//   mode     the only mode in which it runs
//   refuses  why Sandgate refuses what the check asks for; it proves the refusal
//   timeout  its limit in ms
export function suite(name, options = {}) {
  return (title, covers, run, more = {}) => {
    checks.push({ name: `${name}/${title}`, suite: name, covers, run, ...options, ...more })
  }
}

// A Context gives a check its sandboxes and paths.
export class Context {
  #deferred = []
  #shared

  constructor(check, shared) {
    this.check = check
    this.#shared = shared
  }

  // shared is the sandbox of the suite.
  shared() {
    return this.#shared.open(this.check)
  }

  // fresh creates a sandbox that only this check has.
  async fresh(...args) {
    const { Sandbox } = this.check.sdk === 'interpreter' ? interpreter : e2b
    const sandbox = await Sandbox.create(...args)
    this.defer(() => e2b.Sandbox.kill(sandbox.sandboxId))
    return sandbox
  }

  // path is a path in a folder that only this check uses.
  path(name = '') {
    const folder = '/home/user/' + this.check.name.replaceAll('/', '-')
    return name ? `${folder}/${name}` : folder
  }

  // defer runs a function when the check has ended.
  defer(undo) {
    this.#deferred.push(undo)
  }

  async end() {
    for (const undo of this.#deferred.reverse()) {
      await undo().catch(() => {})
    }
  }
}

// until calls a function until its value is true, and fails after a limit in ms.
export async function until(what, test, limit = 300_000) {
  const end = Date.now() + limit
  while (!(await test())) {
    if (Date.now() > end) {
      throw new Error(`not in time: ${typeof what === 'function' ? what() : what}`)
    }
    await pause(50)
  }
}

export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

// fails returns the error of a promise, which must be of the class, and whose message must match.
export async function fails(promise, class_, pattern) {
  let value
  try {
    value = await promise
  } catch (err) {
    if (class_ && !(err instanceof class_)) {
      throw new Error(`${err.constructor.name} instead of ${class_.name}: ${err.message}`)
    }
    if (pattern) {
      assert.match(err.message, pattern)
    }
    return err
  }
  throw new Error(`no error but ${JSON.stringify(value)?.slice(0, 200)}`)
}

// refused expects a status and a message that report something that Sandgate does not offer.
export function refused(promise) {
  return fails(promise, undefined, /(400|501): (?!\[object)\S/)
}

// near compares times in ms.
export function near(got, want, tolerance = 90_000) {
  assert.ok(Math.abs(got - want) <= tolerance, `${got} is not near ${want}`)
}
