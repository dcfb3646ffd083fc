// Sessions of notebooks through SessionManager and the requests below it.
import { check, equal, list, ok, run, services, settings } from './kit.mjs'

const { KernelManager, SessionManager, SessionAPI, KernelAPI } = services
const serverSettings = settings()
const kernelManager = new KernelManager({ serverSettings })
const manager = new SessionManager({ serverSettings, kernelManager })
const unique = Math.random().toString(36).slice(2)
const path = `work/a-${unique}.ipynb`
let session

const request = (path, init = {}) =>
  fetch(new URL(path, serverSettings.baseUrl), {
    ...init,
    headers: { Authorization: `token ${serverSettings.token}` }
  })

check('a session starts with its kernel', async () => {
  await manager.ready
  session = await manager.startNew({ path, name: 'a', type: 'notebook', kernel: { name: 'python3' } })
  equal([session.path, session.name, session.type], [path, 'a', 'notebook'])
  equal((await run(session.kernel, 'x = 6; print(x*7)')).text, '42\n')
})

check('the same path is the same session', async () => {
  const body = JSON.stringify({ path, name: 'b', type: 'notebook', kernel: { name: 'bash' } })
  const response = await request('api/sessions', { method: 'POST', body })
  equal(response.status, 201)
  const model = await response.json()
  equal([model.id, model.kernel.id, model.name], [session.id, session.kernel.id, 'a'])
  equal(model.notebook, { path, name: 'a' })
})

check('simultaneous requests for a path get one session', async () => {
  const body = JSON.stringify({ path: `same-${unique}.ipynb`, name: '', type: 'notebook' })
  const all = await Promise.all(
    Array.from({ length: 4 }, async () => await (await request('api/sessions', { method: 'POST', body })).json())
  )
  equal(new Set(all.map((m) => m.id)).size, 1)
  await SessionAPI.shutdownSession(all[0].id, serverSettings)
})

check('lists and lookups agree', async () => {
  await manager.refreshRunning()
  const own = list(manager.running()).find((m) => m.id === session.id)
  equal([own.path, own.kernel.id], [path, session.kernel.id])
  equal((await manager.findById(session.id)).path, path)
  equal((await manager.findByPath(path)).id, session.id)
  ok((await KernelAPI.listRunning(serverSettings)).some((k) => k.id === session.kernel.id), 'no kernel')
})

check('another page connects to the session', async () => {
  const kernels = new KernelManager({ serverSettings: settings() })
  const page = new SessionManager({ serverSettings: settings(), kernelManager: kernels })
  await page.ready
  const other = page.connectTo({ model: await page.findByPath(path) })
  equal((await run(other.kernel, 'print(x)')).text, '6\n')
  page.dispose()
  kernels.dispose()
})

check('a session gets another path, name and type', async () => {
  const long = `work/${'ü'.repeat(200)}-${unique}.ipynb`
  await session.setPath(long)
  await session.setName('long')
  await session.setType('console')
  const model = await SessionAPI.getSessionModel(session.id, serverSettings)
  equal([model.path, model.name, model.type], [long, 'long', 'console'])
  equal((await run(session.kernel, 'print(x)')).text, '6\n')
  await session.setPath(path)
})

check('a session changes its kernel', async () => {
  const id = session.id
  const old = session.kernel.id
  await session.changeKernel({ name: 'bash' })
  equal(session.id, id)
  equal((await session.kernel.info).language_info.name, 'bash')
  equal((await run(session.kernel, 'echo bash')).text, 'bash\n')
  equal(await KernelAPI.getKernelModel(old, serverSettings), undefined)
})

check('a session takes the kernel of another one', async () => {
  const second = await manager.startNew({
    path: `other-${unique}.ipynb`,
    name: '',
    type: 'notebook',
    kernel: { name: 'python3' }
  })
  await run(second.kernel, 'y = 5')
  const id = session.id
  await session.changeKernel({ id: second.kernel.id })
  equal([session.id, session.kernel.id], [id, second.kernel.id])
  equal((await run(session.kernel, 'print(y)')).text, '5\n')
  equal((await SessionAPI.listRunning(serverSettings)).filter((m) => m.kernel.id === second.kernel.id).length, 2)
  await session.changeKernel({ name: 'python3' })
  await manager.refreshRunning()
  ok(!list(manager.running()).some((m) => m.id === second.id), 'the session of an ended kernel is listed')
})

check('a session without its kernel is gone', async () => {
  const other = await manager.startNew({ path: `gone-${unique}.ipynb`, name: '', type: 'notebook' })
  await KernelAPI.shutdownKernel(other.kernel.id, serverSettings)
  const r = await request(`api/sessions/${other.id}`, { method: 'DELETE' })
  ok([404, 410].includes(r.status), `status ${r.status}`)
})

check('requests without a session or a path are refused', async () => {
  const id = '00000000-0000-0000-0000-000000000000'
  equal((await request(`api/sessions/${id}`)).status, 404)
  equal((await request(`api/sessions/${id}`, { method: 'PATCH', body: '{}' })).status, 404)
  equal((await request('api/sessions', { method: 'POST', body: '{}' })).status, 400)
  const body = JSON.stringify({ path: 'x'.repeat(2000) })
  equal((await request('api/sessions', { method: 'POST', body })).status, 400)
})

check('a shutdown ends the session and its kernel', async () => {
  const { id } = session
  const kernel = session.kernel.id
  await session.shutdown()
  equal((await request(`api/sessions/${id}`)).status, 404)
  equal((await request(`api/kernels/${kernel}`)).status, 404)
})
