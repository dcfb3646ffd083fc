// The connection to the server, and helpers of the checks.
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const WebSocket = require('ws')

export const services = require(process.env.SERVICES)

// A page says whether its server has terminals. Each version of the packages has its own copy.
const { PageConfig } = createRequire(require.resolve(process.env.SERVICES))('@jupyterlab/coreutils')
PageConfig.setOption('terminalsAvailable', 'true')
// Old versions use events only if the page says that the server is Jupyter Server 2 or later.
PageConfig.setOption('notebookVersion', '[2, 14, 0]')

export function settings(base = process.env.BASE, options = {}) {
  return services.ServerConnection.makeSettings({
    baseUrl: base,
    wsUrl: base.replace(/^http/, 'ws'),
    token: process.env.TOKEN,
    appendToken: true,
    WebSocket,
    fetch,
    Request,
    Headers,
    ...options
  })
}

export const checks = []

// check adds a check, which fails if run throws.
export function check(name, run) {
  checks.push({ name, run })
}

export function equal(got, want, what = 'value') {
  const a = JSON.stringify(got)
  const b = JSON.stringify(want)
  if (a !== b) {
    throw new Error(`${what}: got ${a.slice(0, 500)}, want ${b.slice(0, 500)}`)
  }
}

export function ok(value, what) {
  if (!value) {
    throw new Error(what)
  }
}

// list returns what an iterator of any version of the packages has.
export function list(iterator) {
  const all = []
  if (iterator[Symbol.iterator]) {
    all.push(...iterator)
  } else {
    for (let v = iterator.next(); v !== undefined; v = iterator.next()) {
      all.push(v)
    }
  }
  return all
}

// until resolves once test, called with each emission of the signal and once before, returns true.
export function until(signal, test, what) {
  return new Promise((resolve, reject) => {
    if (test()) {
      resolve()
      return
    }
    const timer = setTimeout(() => reject(new Error(`${what} did not happen`)), 300_000)
    const slot = (_, value) => {
      if (test(value)) {
        clearTimeout(timer)
        signal.disconnect(slot)
        resolve()
      }
    }
    signal.connect(slot)
  })
}

// run executes code and returns its reply, its output messages and its text. A clear_output clears
// them, as it does in a notebook.
export async function run(kernel, code, options = {}, onMessage) {
  let future
  try {
    future = kernel.requestExecute({ code, ...options })
  } catch (err) {
    const model = await services.KernelAPI.getKernelModel(kernel.id, kernel.serverSettings)
    err.message += `: ${kernel.reason}; the server has ${JSON.stringify(model)}`
    throw err
  }
  return await collect(future, onMessage)
}

export async function collect(future, onMessage) {
  const outputs = []
  let text = ''
  future.onIOPub = (m) => {
    if (m.header.msg_type === 'clear_output') {
      outputs.length = 0
      text = ''
    } else {
      outputs.push(m)
      if (m.header.msg_type === 'stream') {
        text += m.content.text
      }
    }
    onMessage?.(m, text)
  }
  const reply = await future.done
  return { reply: reply.content, outputs, text }
}
