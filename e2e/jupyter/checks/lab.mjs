// The managers that a page of JupyterLab waits for.
import { check, equal, ok, services, settings } from './kit.mjs'

const serverSettings = settings()
const { ServiceManager } = services

// A WebSocket of a browser ends nothing when nobody listens for its errors.
class BrowserSocket extends serverSettings.WebSocket {
  constructor(...args) {
    super(...args)
    this.on('error', () => {})
  }
}

const request = (path) =>
  fetch(new URL(path, serverSettings.baseUrl), {
    headers: { Authorization: `token ${serverSettings.token}` }
  })

check('the managers of a page are ready', async () => {
  const page = settings(process.env.BASE, { WebSocket: BrowserSocket })
  const manager = new ServiceManager({ serverSettings: page })
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
  for (const path of ['api/events/subscribe', 'api/nbconvert', 'api/config/x', 'lab/api/settings']) {
    equal((await request(path)).status, 404)
  }
})
