// Volumes and secrets.
import { assert, e2b, fails, suite } from './kit.mjs'

const { Secret, Volume, VolumeFileType } = e2b
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
  const one = await t.fresh({ volumeMounts: { '/mnt/data': volume } })
  await one.files.write('/mnt/data/x', 'shared')
  assert.deepEqual((await one.getInfo()).volumeMounts, [{ name: volume.name, path: '/mnt/data' }])
  await one.kill()
  const two = await t.fresh({ volumeMounts: { '/mnt/data': volume.name } })
  assert.equal(await two.files.read('/mnt/data/x'), 'shared')
})

volumes('files', ['Volume#writeFile', 'Volume#readFile(format)', 'Volume#list(depth)',
  'Volume#makeDir', 'Volume#getInfo', 'Volume#exists', 'Volume#remove'], async (t) => {
  const v = await made(t)
  await v.makeDir('/folder')
  await v.writeFile('/folder/x', 'text')
  assert.equal(await v.readFile('/folder/x'), 'text')
  assert.equal((await v.readFile('/folder/x', { format: 'bytes' })).length, 4)
  assert.deepEqual((await v.list('/')).map((e) => e.name), ['folder'])
  assert.equal((await v.list('/', { depth: 2 })).length, 2)
  assert.equal((await v.getInfo('/folder')).type, VolumeFileType.DIRECTORY)
  assert.equal(await v.exists('/folder/x'), true)
  await v.remove('/folder/x')
  assert.equal(await v.exists('/folder/x'), false)
})

volumes('metadata', ['Volume#updateMetadata(mode)'], async (t) => {
  const v = await made(t)
  await v.writeFile('/x', 'text')
  const entry = await v.updateMetadata('/x', { mode: 0o600 })
  assert.equal(entry.mode & 0o777, 0o600)
})

secrets('create', ['Secret.create(metadata)', 'Secret.getInfo', 'Secret.exists'], async (t) => {
  const key = name(t)
  const made = await Secret.create(key, 'hidden', { metadata: { of: 'checks' } })
  t.defer(() => Secret.destroy(key))
  assert.equal(made.name, key)
  assert.equal(made.version, 1)
  assert.deepEqual(made.metadata, { of: 'checks' })
  assert.ok(!JSON.stringify(await Secret.getInfo(key)).includes('hidden'))
  assert.equal(await Secret.exists(key), true)
  assert.equal(await Secret.exists('no-such-secret'), false)
})

secrets('update', ['Secret.update(metadata)'], async (t) => {
  const key = name(t)
  await Secret.create(key, 'one')
  t.defer(() => Secret.destroy(key))
  assert.equal((await Secret.update(key, 'two', { metadata: { a: 'b' } })).version, 2)
})

secrets('list', ['Secret.list(limit, nextToken)', 'SecretPaginator#nextItems'], async (t) => {
  const key = name(t)
  await Secret.create(key, 'one')
  t.defer(() => Secret.destroy(key))
  const all = []
  for (const pages = Secret.list({ limit: 1 }); pages.hasNext;) {
    all.push(...await pages.nextItems())
  }
  assert.ok(all.some((s) => s.name === key))
})

secrets('destroy', ['Secret.destroy'], async (t) => {
  const key = name(t)
  await Secret.create(key, 'one')
  assert.equal(await Secret.destroy(key), true)
  assert.equal(await Secret.destroy(key), false)
  await fails(Secret.getInfo(key), e2b.SecretNotFoundError)
})

secrets('fill', ['Secret.fill', 'Secret.iamToken'], async () => {
  assert.equal(Secret.fill('key'), '${e2b.secrets.key}')
  const token = { audience: 'a', tokenType: 'JWT-SVID' }
  assert.deepEqual(Secret.iamToken(token), token)
})
