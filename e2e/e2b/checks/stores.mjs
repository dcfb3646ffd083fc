// Volumes and secrets.
import { assert, e2b, fails, refused, suite } from './kit.mjs'

const { Secret, Volume } = e2b
const volumes = suite('volumes')
const secrets = suite('secrets')

function name(t) {
  return t.check.name.replace('/', '-') + '-' + Math.random().toString(36).slice(2, 10)
}

// made creates a volume that the end of the check destroys.
async function made(t) {
  const volume = await Volume.create(name(t))
  t.defer(() => Volume.destroy(volume.volumeId))
  return volume
}

volumes('create', ['Volume.create', 'Volume.getInfo', 'Volume.connect', 'Volume.list'],
  async (t) => {
    const volume = await made(t)
    assert.ok(volume.volumeId && volume.name && volume.token)
    const info = await Volume.getInfo(volume.volumeId)
    assert.equal(info.name, volume.name)
    assert.equal((await Volume.connect(volume.volumeId)).name, volume.name)
    assert.ok((await Volume.list()).some((v) => v.volumeId === volume.volumeId))
  })

volumes('destroy', ['Volume.destroy'], async (t) => {
  const volume = await made(t)
  assert.equal(await Volume.destroy(volume.volumeId), true)
  assert.equal(await Volume.destroy(volume.volumeId), false)
  await fails(Volume.getInfo(volume.volumeId), e2b.VolumeNotFoundError)
})

volumes('mount', ['Sandbox.create(volumeMounts)'], async (t) => {
  const volume = await made(t)
  const one = await t.fresh({ volumeMounts: { '/data': volume } })
  await one.files.write('/data/x', 'shared')
  assert.deepEqual((await one.getInfo()).volumeMounts, [{ name: volume.name, path: '/data' }])
  await one.kill()
  const two = await t.fresh({ volumeMounts: { '/data': volume.name } })
  assert.equal(await two.files.read('/data/x'), 'shared')
})

volumes('content', ['Volume#writeFile', 'Volume#readFile', 'Volume#list', 'Volume#makeDir',
  'Volume#getInfo', 'Volume#exists', 'Volume#remove', 'Volume#updateMetadata'], async (t) => {
  const v = await made(t)
  for (const call of [() => v.writeFile('/x', 'text'), () => v.readFile('/x'), () => v.list('/'),
    () => v.makeDir('/x'), () => v.getInfo('/x'), () => v.exists('/x'), () => v.remove('/x'),
    () => v.updateMetadata('/x', { mode: 0o600 })]) {
    await refused(call())
  }
}, { refuses: 'a sandbox that mounts the volume reads and writes its files' })

secrets('refused', ['Secret.create', 'Secret.update', 'Secret.getInfo', 'Secret.exists',
  'Secret.list', 'Secret.destroy', 'SecretPaginator#nextItems'], async (t) => {
  const key = name(t)
  for (const call of [() => Secret.create(key, 'x'), () => Secret.update(key, 'x'),
    () => Secret.getInfo(key), () => Secret.exists(key), () => Secret.list().nextItems(),
    () => Secret.destroy(key)]) {
    await refused(call())
  }
}, { refuses: 'the server stores no secrets; sandboxes get them as environment variables' })

secrets('fill', ['Secret.fill', 'Secret.iamToken'], async () => {
  assert.equal(Secret.fill('key'), '${e2b.secrets.key}')
  const token = { audience: 'a', tokenType: 'JWT-SVID' }
  assert.deepEqual(Secret.iamToken(token), token)
})
