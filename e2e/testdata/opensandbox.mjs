// Uses the server with the unmodified SDK of OpenSandbox. It fails if a check fails.
import assert from 'node:assert/strict'
import { Sandbox, SandboxManager } from '@alibaba-group/opensandbox'

const { SANDGATE_URL: url, SANDGATE_TOKEN: apiKey } = process.env
const connectionConfig = { domain: `${url}/opensandbox`, apiKey }

const sandbox = await Sandbox.create({
  connectionConfig, image: 'any', env: { A: '1' }, metadata: { team: 'sdk' },
})
const text = (messages) => messages.map((m) => m.text).join('')

async function commands({ commands }) {
  const seen = []
  const run = await commands.run('echo $A; pwd; echo no >&2; exit 3', { workingDirectory: '/tmp' }, {
    onStdout: (m) => { seen.push(m.text) },
  })
  assert.equal(text(run.logs.stdout), '1\n/tmp\n')
  assert.equal(seen.join(''), '1\n/tmp\n')
  assert.equal(text(run.logs.stderr), 'no\n')
  assert.equal(run.exitCode, 3)
  const long = await commands.run('head -c 3000000 /dev/zero | tr "\\0" x')
  assert.equal(text(long.logs.stdout).length, 3_000_000)
  assert.equal(long.exitCode, 0)
  const late = await commands.run('sleep 60', { timeoutSeconds: 1 })
  assert.equal(late.error.value, 'timeout')

  // The SDK's signal has no effect once the answer has begun, so its users interrupt by the id.
  let id
  const interrupted = await commands.run('echo begun; exec sleep 60', {}, {
    onInit: (init) => { id = init.id },
    onStdout: () => commands.interrupt(id),
  })
  assert.notEqual(interrupted.exitCode, 0)

  const later = await commands.run('echo first; until test -e /tmp/go; do sleep 0.02; done; exit 4', {
    background: true,
  })
  assert.equal((await commands.getCommandStatus(later.id)).running, true)
  await commands.run('touch /tmp/go')
  let status
  do status = await commands.getCommandStatus(later.id)
  while (status.running)
  assert.equal(status.exitCode, 4)
  assert.equal((await commands.getBackgroundCommandLogs(later.id)).content, 'first\n')

  const shell = await commands.createSession({ workingDirectory: '/tmp' })
  await commands.runInSession(shell, 'x=5; cd /usr')
  const kept = await commands.runInSession(shell, 'echo $x; pwd')
  assert.equal(text(kept.logs.stdout), '5\n/usr\n')
  await commands.deleteSession(shell)
}

async function files({ files }) {
  await files.createDirectories([{ path: '/tmp/d', mode: 755 }])
  const picture = Uint8Array.from({ length: 256 }, (_, i) => i)
  await files.writeFiles([
    { path: '/tmp/d/a.txt', data: 'one one', mode: 640 }, { path: '/tmp/d/b.bin', data: picture },
  ])
  assert.deepEqual(await files.readBytes('/tmp/d/b.bin'), picture)
  assert.equal(await files.readFile('/tmp/d/a.txt', { range: 'bytes=4-' }), 'one')
  const info = (await files.getFileInfo(['/tmp/d/a.txt']))['/tmp/d/a.txt']
  assert.equal(info.size, 7)
  assert.equal(info.mode, 640)
  await files.replaceContents([{ path: '/tmp/d/a.txt', oldContent: 'one', newContent: '1' }])
  await files.setPermissions([{ path: '/tmp/d/a.txt', mode: 600 }])
  await files.moveFiles([{ src: '/tmp/d/a.txt', dest: '/tmp/d/c.txt' }])
  assert.equal(await files.readFile('/tmp/d/c.txt'), '1 1')
  const found = await files.search({ path: '/tmp/d', pattern: '*.txt' })
  assert.deepEqual(found.map((f) => f.path), ['/tmp/d/c.txt'])
  assert.equal((await files.listDirectory({ path: '/tmp/d' })).length, 2)
  await files.deleteFiles(['/tmp/d/c.txt'])
  await files.deleteDirectories(['/tmp/d'])
  await assert.rejects(files.readFile('/tmp/d/b.bin'))
}

async function life() {
  const manager = SandboxManager.create({ connectionConfig })
  const list = await manager.listSandboxInfos({ states: ['Running'], metadata: { team: 'sdk' } })
  assert.deepEqual(list.items.map((s) => s.id), [sandbox.id])
  await sandbox.patchMetadata({ team: null, other: '2' })
  const before = (await sandbox.getInfo()).expiresAt
  await sandbox.renew(3600)
  const { metadata, expiresAt } = await sandbox.getInfo()
  assert.deepEqual(metadata, { other: '2' })
  assert(expiresAt > before)
  assert((await sandbox.getMetrics()).memoryTotalMiB > 0)

  await sandbox.commands.run('echo kept >/tmp/kept')
  await sandbox.pause()
  assert.equal((await sandbox.getInfo()).status.state, 'Paused')
  const resumed = await sandbox.resume()
  assert.equal(await resumed.files.readFile('/tmp/kept'), 'kept\n')

  const other = await Sandbox.connect({ connectionConfig, sandboxId: sandbox.id })
  await other.commands.run('mkdir /tmp/site; echo hello >/tmp/site/a')
  await other.commands.run('cd /tmp/site; exec python3 -m http.server 8123', { background: true })
  await other.commands.run('until echo >/dev/tcp/127.0.0.1/8123; do sleep 0.02; done 2>/dev/null')
  const { headers } = await other.getEndpoint(8123)
  const page = await fetch(`${await other.getEndpointUrl(8123)}/a`, { headers })
  assert.equal(await page.text(), 'hello\n')
  await other.close()

  await assert.rejects(Sandbox.connect({
    connectionConfig: { ...connectionConfig, apiKey: 'sgk_no' }, sandboxId: sandbox.id,
  }))
  await sandbox.kill()
  await assert.rejects(sandbox.getInfo(), { statusCode: 404 })
  await manager.close()
}

await Promise.all([commands(sandbox), files(sandbox)])
await life()
await sandbox.close()
