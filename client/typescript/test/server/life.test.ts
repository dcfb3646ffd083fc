// Scenarios of files, ports, copies and services.
import { createServer, get, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { client, kept, sandbox, sg, token, unique, url } from './scenarios.js'

it('wait_port', async () => {
  const s = await sandbox()
  await s.start('python3 -m http.server 8131')
  expect((await s.waitPort(8131)).port).toBe(8131)
  await expect(s.waitPort(8132, { timeout: 1 })).rejects.toMatchObject({ kind: 'deadline_exceeded' })
  const page = await fetch(s.portUrl(8131), { headers: { Authorization: `Bearer ${token}` } })
  expect(page.status).toBe(200)
})

it('files', async () => {
  const s = await sandbox()
  await s.files.write('d/a.txt', '0123456789', { mode: 0o600 })
  expect(await s.files.readText('d/a.txt')).toBe('0123456789')
  expect(new TextDecoder().decode(await s.files.read('d/a.txt', { offset: 2, length: 3 }))).toBe('234')
  await s.files.copy('d/a.txt', 'd/b.txt')
  await s.files.move('d/b.txt', 'd/c.txt')
  expect((await s.files.list('d')).map((f) => f.path)).toEqual(['/home/user/d/a.txt', '/home/user/d/c.txt'])
  await s.files.remove('d/c.txt')
  expect(await s.files.exists('d/c.txt')).toBe(false)
  await s.files.upload({ 'x/one': 'first', two: new Uint8Array([50]) }, 'tree')
  expect(await s.files.readText('tree/x/one')).toBe('first')
  expect((await s.files.readTree('tree')).length).toBeGreaterThan(1024)
  const parts: Uint8Array[] = []
  for await (const part of s.files.stream('d/a.txt')) parts.push(part)
  expect(parts.reduce((n, p) => n + p.length, 0)).toBe(10)
})

it('file_link', async () => {
  const s = await sandbox()
  await s.files.write('a.txt', 'shared')
  const { url: address } = await s.files.link('a.txt', { expires: '5m' })
  const res = await fetch(new URL(address, url))
  expect(await res.text()).toBe('shared')
})

it('file_changes', async () => {
  const s = await sandbox()
  await s.exec('echo 1 > old')
  const { cursor } = await s.files.changes()
  await s.exec('echo 2 > new; echo 3 >> old')
  const { files } = await s.files.changes({ since: cursor })
  expect(files.map((f) => `${f.change} ${f.path.split('/').at(-1)}`).sort()).toEqual(['changed old', 'created new'])
})

it('file_watch', async () => {
  const s = await sandbox()
  await s.files.mkdir('w')
  const watch = await s.files.watch('w')
  await s.files.write('w/f', 'x')
  for await (const { changes } of watch) if (changes.some((c) => c.path.endsWith('/w/f'))) break
})

it('fork', async () => {
  const s = await sandbox()
  await s.run('x = 1')
  const copies = (await s.fork(2)).map(kept)
  const values = await Promise.all(copies.map(async (c, n) => (await c.run(`x += ${n + 1}; x`)).text))
  expect(values).toEqual(['2', '3'])
  expect((await s.run('x')).text).toBe('1')
})

it('snapshot', async () => {
  const s = await sandbox()
  await s.run('x = 41')
  const name = unique('saved')
  await s.snapshot(name, { expires: '10m' })
  await s.delete()
  const again = await sandbox({ snapshot: name })
  expect((await again.run('x + 1')).text).toBe('42')
  expect((await sg.snapshots.get(name)).name).toBe(name)
  await sg.snapshots.delete(name)
})

it('pause_resume', async () => {
  const s = await sandbox()
  await s.run('x = 5')
  expect((await s.pause()).state).toBe('paused')
  expect((await s.run('x')).text).toBe('5')
  expect((await s.hibernate()).state).toBe('hibernated')
  expect((await s.run('x')).text).toBe('5')
  expect((await s.refresh()).state).toBe('running')
})

it('presence', async () => {
  const s = await sandbox()
  const seen: string[] = []
  const waiting: (() => void)[] = []
  const watch = await s.presence((p) => {
    seen.push(JSON.stringify(p))
    for (const wake of waiting.splice(0)) wake()
  })
  const differs = async (from: string) => {
    while (seen.at(-1) === from) await new Promise<void>((resolve) => waiting.push(resolve))
  }
  const alone = seen.at(-1)!
  const other = await (await client({ name: 'other' }).getSandbox(s.id)).presence(() => {})
  await differs(alone)
  const both = seen.at(-1)!
  other.close()
  await differs(both)
  expect(seen.at(-1)).toBe(alone)
  watch.close()
})

it('volumes', async () => {
  const name = unique('vol')
  await sg.volumes.ensure(name)
  const a = await sandbox({ volumes: [name] })
  await a.exec(`echo kept > /volumes/${name}/f`)
  const b = await sandbox({ volumes: { [name]: '/home/user/data' } })
  expect((await b.exec('cat data/f')).stdout).toBe('kept\n')
  await a.delete()
  await b.delete()
  await sg.volumes.delete(name)
})

it('notebooks', async () => {
  const s = await sandbox()
  const [first, second] = ['{"cells": []}', `{"cells": [], "x": "${'ä'.repeat(200_000)}"}`]
  await s.files.write('n.ipynb', first)
  const [saved] = await sg.notebooks.list({ session: s.id })
  expect(saved).toMatchObject({ session: s.id, path: '/home/user/n.ipynb', versions: 1 })
  const { id } = saved!
  const [old] = await sg.notebooks.versions(id)
  await sg.notebooks.name(id, old!.id, '', { closed: true })
  await s.files.write('n.ipynb', second)
  expect((await sg.notebooks.versions(id)).map((v) => v.id)).toEqual([expect.not.stringMatching(old!.id), old!.id])
  expect(await sg.notebooks.name(id, old!.id, 'empty')).toMatchObject({ name: 'empty' })
  expect(await sg.notebooks.read(id, old!.id)).toBe(first)
  expect(await sg.notebooks.read(id) === second).toBe(true)
  await sg.notebooks.delete(id)
  await expect(sg.notebooks.read(id)).rejects.toMatchObject({ kind: 'not_found', field: 'notebook' })
  await s.delete()
})

it('services', async () => {
  const s = await sandbox()
  expect(await s.services.set('web', 'echo up; exec python3 -m http.server 8141', { port: 8141 })).toMatchObject({ state: 'ready' })
  for await (const line of (await s.services.process('web')).logs()) {
    expect(line).toBe('up\n')
    break
  }
  expect(await s.services.stop('web')).toMatchObject({ state: 'stopped' })
  expect(await s.services.start('web')).toMatchObject({ state: 'ready' })
  await s.services.remove('web')
  await expect(s.services.get('web')).rejects.toMatchObject({ kind: 'not_found', field: 'name' })
})

it('share_link', async () => {
  const s = await sandbox()
  await s.run('print("shown")')
  const link = await s.share({ expires: '10m' })
  const guest = await client({ token: link.token }).getSandbox(s.id)
  const channel = (await guest.channels())[0]!
  expect(await guest.text(channel.id)).toContain('shown')
  await expect(guest.run('1')).rejects.toMatchObject({ kind: 'permission_denied' })
  expect((await s.shares()).map((l) => l.id)).toContain(link.id)
  await s.unshare(link.id)
})

it('preview_link', async () => {
  const s = await sandbox()
  await s.files.write('index.html', 'the page')
  await s.start('python3 -m http.server 8151')
  await s.waitPort(8151)
  const link = await s.portLink(8151, { public: true, expires: '10m' })
  expect((await s.portLinks()).map((l) => l.id)).toEqual([link.id])
  const visit = () => new Promise<{ status: number; body: string }>((resolve, reject) => {
    const to = new URL(link.url!)
    const server = new URL(url) // the name of the link's host need not resolve here
    get({ host: server.hostname, port: server.port, path: '/', headers: { Host: to.host } }, (res) => {
      let body = ''
      res.on('data', (part) => (body += part)).on('end', () => resolve({ status: res.statusCode!, body }))
    }).on('error', reject)
  })
  expect(await visit()).toEqual({ status: 200, body: 'the page' })
  await s.deletePortLink(link.id)
  expect((await visit()).status).toBe(404)
})

it('idempotent_create', async () => {
  const job = unique('job')
  const keys: unknown[] = []
  // The first reply to each request that creates something is lost.
  const proxy = createServer((req, res) => {
    if (req.method === 'POST') keys.push(req.headers['idempotency-key'])
    const lost = req.method === 'POST' && keys.length === 1
    const up = request(new URL(req.url!, url), { method: req.method, headers: req.headers }, (reply) => {
      if (lost) return void reply.resume().on('end', () => res.destroy())
      res.writeHead(reply.statusCode!, reply.headers)
      reply.pipe(res)
    })
    req.pipe(up)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  try {
    const through = client({ url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` })
    const s = kept(await through.sandbox({ labels: { job } }))
    expect(keys).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), keys[0]])
    expect((await sg.sessions({ labels: { job } })).map((one) => one.id)).toEqual([s.id])
  } finally {
    proxy.close()
    proxy.closeAllConnections()
  }
})
