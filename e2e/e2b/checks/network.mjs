// The hosts that sandboxes may reach.
import { assert, e2b, refused, suite } from './kit.mjs'

const { Sandbox, ALL_TRAFFIC } = e2b
const check = suite('network')

check('allow-out', ['Sandbox.create(network.allowOut, network.denyOut)'], async (t) => {
  const s = await t.fresh({ network: { allowOut: ['example.com'], denyOut: [ALL_TRAFFIC] } })
  const { network } = await s.getInfo()
  assert.deepEqual(network.allowOut, ['example.com'])
  assert.deepEqual(network.denyOut, [ALL_TRAFFIC])
})

check('selector', ['Sandbox.create(network.denyOut)'], async (t) => {
  const s = await t.fresh({ network: { denyOut: ({ allTraffic }) => [allTraffic] } })
  const { stdout } = await s.commands.run('curl -sm 3 http://example.com || echo refused')
  assert.equal(stdout, 'refused\n')
})

check('deny-out', ['Sandbox.create(network.denyOut)', 'Sandbox#updateNetwork'], async (t) => {
  const denied = ['192.0.2.0/24', '203.0.113.7']
  const s = await t.fresh({ network: { denyOut: denied } })
  const list = (await s.getInfo()).network.denyOut
  assert.ok(list.includes('192.0.2.0/24') && list.includes('203.0.113.7/32'), String(list))
  await s.updateNetwork({ denyOut: ['198.51.100.0/24'] })
  assert.ok((await s.getInfo()).network.denyOut.includes('198.51.100.0/24'))
})

check('deny-out-exception', ['Sandbox.create(network.allowOut with denied networks)'], async () => {
  await refused(Sandbox.create({
    network: { allowOut: ['example.com'], denyOut: ['192.0.2.0/24'] }
  }))
}, { refuses: 'denied networks have no exceptions' })

check('update', ['Sandbox#updateNetwork', 'Sandbox.updateNetwork'], async (t) => {
  const s = await t.fresh()
  await s.updateNetwork({ allowInternetAccess: false })
  const { stdout } = await s.commands.run('curl -fsm 3 http://example.com || echo refused')
  assert.equal(stdout, 'refused\n')
  assert.deepEqual((await s.getInfo()).network.denyOut, [ALL_TRAFFIC])
  await Sandbox.updateNetwork(s.sandboxId, { allowOut: ['example.com'], denyOut: [ALL_TRAFFIC] })
  assert.deepEqual((await s.getInfo()).network.allowOut, ['example.com'])
})

check('rules', ['Sandbox.create(network.rules)'], async () => {
  await refused(Sandbox.create({
    network: {
      allowOut: ['example.com'],
      rules: { 'example.com': [{ transform: { headers: { Authorization: 'x' } } }] }
    }
  }))
}, { refuses: 'requests to the outside are not changed' })

check('egress-proxy', ['Sandbox.create(network.egressProxy)'], async () => {
  await refused(Sandbox.create({ network: { egressProxy: { address: 'proxy.example.com:1080' } } }))
}, { refuses: 'connections do not go through a SOCKS proxy of the user' })

check('mask-host', ['Sandbox.create(network.maskRequestHost)'], async () => {
  await refused(Sandbox.create({ network: { maskRequestHost: 'localhost:${PORT}' } }))
}, { refuses: 'the host of a request is not changed' })

check('https-ports', ['Sandbox.create(network.httpsPorts)'], async () => {
  await refused(Sandbox.create({ network: { httpsPorts: [8443] } }))
}, { refuses: 'programs in a sandbox are reached without TLS' })
