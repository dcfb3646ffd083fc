// The managers that a page of JupyterLab waits for.
import { check, equal, ok, services, settings } from './kit.mjs'

const serverSettings = settings()
const { ServiceManager } = services

const request = (path) =>
  fetch(new URL(path, serverSettings.baseUrl), {
    headers: { Authorization: `token ${serverSettings.token}` }
  })

check('the managers of a page are ready', async () => {
  const manager = new ServiceManager({ serverSettings })
  await manager.ready
  ok(manager.kernelspecs.specs.kernelspecs.python3, 'there is no python3')
  equal((await manager.contents.get('')).type, 'directory')
  manager.dispose()
})

check('the user has a name', async () => {
  const { identity, permissions } = await (await request('api/me')).json()
  ok(identity.username && identity.display_name && identity.initials, JSON.stringify(identity))
  equal(permissions, {})
})

check('what is not there is 404', async () => {
  for (const path of [
    'api/nbconvert', 'nbconvert/html/a.ipynb', 'nbconvert/html', 'api/config/x', 'lab/api/settings'
  ]) {
    const r = await request(path)
    equal(r.status, 404)
    const { message, reason } = await r.json()
    equal([message, reason], ['there is no such path or method', 'not_found'])
  }
})
