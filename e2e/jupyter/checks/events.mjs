// The events of files and kernels, through the manager of events.
import { check, equal, ok, services, settings } from './kit.mjs'

const { EventManager, ContentsManager, Drive, KernelManager } = services
const serverSettings = settings()
const unique = `events-${process.pid}-${Date.now()}`
const custom = 'https://example.org/checks/v1'
const own = 'https://events.jupyter.org/jupyter_server/'

// listen returns a manager, and a function that waits for an event and removes it and those before.
async function listen() {
  const manager = new EventManager({ serverSettings })
  const got = []
  let changed = () => {}
  manager.stream.connect((_, event) => {
    got.push(event)
    changed()
  })
  const next = async (what, test) => {
    const end = Date.now() + 300_000
    for (;;) {
      const at = got.findIndex(test)
      if (at >= 0) {
        return got.splice(0, at + 1)[at]
      }
      ok(Date.now() < end, `${what} does not arrive`)
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, 1000)
        changed = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }
  // The manager does not report when its WebSocket is open.
  for (let n = 0; !got.some((e) => e.mark === unique); n++) {
    ok(n < 600, 'no event arrives')
    await manager.emit({ schema_id: custom, version: '1', data: { mark: unique } })
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return { manager, next }
}

async function refused(promise, status) {
  try {
    await promise
  } catch (err) {
    equal(err.response?.status, status, 'status')
    return
  }
  throw new Error(`it was not refused with ${status}`)
}

// Older packages have no manager of events.
if (EventManager) {
  check('a client gets the events of files', async () => {
    const { manager, next } = await listen()
    const contents = new ContentsManager({ defaultDrive: new Drive({ serverSettings }) })
    const name = `${unique}.txt`
    const of = (action, path) => (e) =>
      e.schema_id === `${own}contents_service/v1` && e.action === action && e.path === path
    await contents.save(name, { type: 'file', format: 'text', content: 'x' })
    equal(await next('save', of('save', name)), {
      action: 'save', path: name, schema_id: `${own}contents_service/v1`
    })
    await contents.get(name)
    await next('get', of('get', name))
    await contents.rename(name, `${unique}-b.txt`)
    const renamed = await next('rename', of('rename', `${unique}-b.txt`))
    equal(renamed.source_path, name)
    const copy = await contents.copy(`${unique}-b.txt`, '')
    equal((await next('copy', of('copy', copy.path))).source_path, `${unique}-b.txt`)
    for (const path of [`${unique}-b.txt`, copy.path]) {
      await contents.delete(path)
      await next('delete', of('delete', path))
    }
    manager.dispose()
  })

  check('a client gets the events of kernels', async () => {
    const { manager, next } = await listen()
    const kernels = new KernelManager({ serverSettings })
    const kernel = await kernels.startNew({ name: 'python3' })
    const of = (action) => (e) => e.action === action && e.kernel_id === kernel.id
    const started = await next('start', of('start'))
    equal([started.schema_id, started.status, started.kernel_name],
      [`${own}kernel_actions/v1`, 'success', 'python3'])
    await kernel.interrupt()
    await next('interrupt', of('interrupt'))
    await kernel.restart()
    await next('restart', of('restart'))
    await kernel.shutdown()
    await next('shutdown', of('shutdown'))
    kernels.dispose()
    manager.dispose()
  })

  check('a client posts events', async () => {
    const { manager, next } = await listen()
    const event = { schema_id: custom, version: '1', data: { mark: unique, n: { a: [1] } } }
    await manager.emit({ ...event, timestamp: '2022-05-26T12:50:00+06:00Z' })
    equal(await next('the event', (e) => e.mark === unique && e.n), {
      mark: unique, n: { a: [1] }, schema_id: custom
    })
    for (const wrong of [
      { schema_id: 'x' }, { schema_id: `${own}kernel_actions/v1` }, { version: null },
      { data: [] }, { data: { schema_id: 'x' } }, { timestamp: 'today' }
    ]) {
      await refused(manager.emit({ ...event, ...wrong }), 400)
    }
    await refused(manager.emit({ ...event, data: { text: 'x'.repeat(17_000) } }), 413)
    manager.dispose()
  })
}
