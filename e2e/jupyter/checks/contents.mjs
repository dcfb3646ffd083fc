// Files through ContentsManager and the requests below it.
import { createHash } from 'node:crypto'
import { check, equal, ok, services, settings } from './kit.mjs'

const { ContentsManager, KernelManager, SessionManager } = services
const serverSettings = settings()
const contents = new ContentsManager({ serverSettings })
const unique = `c${Math.random().toString(36).slice(2)}`
const names = (model) => model.content.map((m) => m.name).sort()
const sha256 = (text) => createHash('sha256').update(text).digest('hex')

const request = (path, init = {}) =>
  fetch(new URL(path, serverSettings.baseUrl), {
    ...init,
    headers: { Authorization: `token ${serverSettings.token}`, ...init.headers }
  })

async function refused(promise, status) {
  try {
    await promise
  } catch (err) {
    equal(err.response?.status, status)
    return
  }
  throw new Error(`it is not refused with ${status}`)
}

const document = (source) => ({
  cells: [
    { cell_type: 'markdown', id: 'a', metadata: { trusted: true }, source },
    {
      cell_type: 'code',
      execution_count: 1,
      id: 'b',
      metadata: {},
      source: '1\n2',
      outputs: [
        { output_type: 'stream', name: 'stdout', text: 'x\ny\n' },
        {
          output_type: 'display_data',
          metadata: {},
          data: { 'text/html': '<b>&\n</b>', 'application/json': ['p', 'q'] }
        }
      ]
    }
  ],
  metadata: { signature: 'x', z: 1, a: 1.5 },
  nbformat: 4,
  nbformat_minor: 5
})

check('a folder is made and listed', async () => {
  const model = await contents.save(unique, { type: 'directory' })
  equal([model.name, model.path, model.type, model.content], [unique, unique, 'directory', null])
  ok(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z$/.test(model.last_modified), model.last_modified)
  const root = await contents.get('')
  equal([root.path, root.type, root.format], ['', 'directory', 'json'])
  ok(names(root).includes(unique), 'it is not in the list')
  equal((await contents.get(unique)).content, [])
})

check('text is saved and read', async () => {
  const path = `${unique}/ä b.txt`
  const content = 'Grüße\n\u2028<&>'
  const saved = await contents.save(path, { type: 'file', format: 'text', content })
  equal([saved.name, saved.size, saved.writable], ['ä b.txt', Buffer.byteLength(content), true])
  const model = await contents.get(path, { content: true, hash: true })
  equal([model.content, model.format, model.mimetype, model.type], [content, 'text', 'text/plain', 'file'])
  const raw = await (await request(`api/contents/${unique}/%C3%A4%20b.txt?hash=1&content=0`)).json()
  equal([raw.content, raw.format, raw.hash, raw.hash_algorithm], [null, null, sha256(content), 'sha256'])
  equal((await contents.get(path, { content: true, format: 'base64', type: 'file' })).content, Buffer.from(content).toString('base64'))
})

check('bytes are saved and read', async () => {
  const path = `${unique}/bytes.bin`
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  await contents.save(path, { type: 'file', format: 'base64', content: bytes.toString('base64') })
  const model = await contents.get(path)
  equal([model.content, model.format], [bytes.toString('base64'), 'base64'])
  await refused(contents.get(path, { content: true, format: 'text', type: 'file' }), 400)
})

check('a notebook keeps its texts, as lists of lines in its file', async () => {
  const path = `${unique}/n.ipynb`
  await contents.save(path, { type: 'notebook', format: 'json', content: document('a\nb') })
  const model = await contents.get(path)
  equal([model.type, model.format, model.mimetype], ['notebook', 'json', null])
  equal(model.content.cells[0].source, 'a\nb')
  const [stream, display] = model.content.cells[1].outputs
  equal([stream.text, display.data['text/html']], ['x\ny\n', '<b>&\n</b>'])
  equal(display.data['application/json'], ['p', 'q'])
  const file = (await contents.get(path, { content: true, type: 'file', format: 'text' })).content
  const stored = JSON.parse(file)
  equal(stored.cells[0].source, ['a\n', 'b'])
  equal([stored.cells[0].metadata, stored.metadata], [{}, { a: 1.5, z: 1 }])
  ok(file.startsWith('{\n "cells": [\n  {\n') && file.endsWith('}\n') && file.includes('<b>&'), file)
})

check('what is no notebook is refused as one', async () => {
  const path = `${unique}/bad.ipynb`
  await contents.save(path, { type: 'file', format: 'text', content: 'no' })
  await refused(contents.get(path), 400)
  equal((await contents.get(path, { content: true, type: 'file' })).content, 'no')
  await refused(contents.save(path, { type: 'notebook', format: 'json', content: { nbformat: 3 } }), 400)
  await refused(contents.get(path, { type: 'directory' }), 400)
  await refused(contents.get(unique, { type: 'file' }), 400)
})

check('new files have new names', async () => {
  const at = async (type, ext) => (await contents.newUntitled({ path: unique, type, ext })).name
  equal([await at('notebook'), await at('notebook')], ['Untitled.ipynb', 'Untitled1.ipynb'])
  equal([await at('file', '.py'), await at('file', '.py')], ['untitled.py', 'untitled1.py'])
  equal([await at('directory'), await at('directory')], ['Untitled Folder', 'Untitled Folder 1'])
  const many = await Promise.all(Array.from({ length: 5 }, () => at('file', '.md')))
  equal(new Set(many).size, 5)
  equal((await contents.get(`${unique}/Untitled.ipynb`)).content.cells, [])
})

check('copies have new names', async () => {
  const copy = async (from, to) => (await contents.copy(`${unique}/${from}`, `${unique}${to}`)).path
  equal(await copy('n.ipynb', ''), `${unique}/n-Copy1.ipynb`)
  equal(await copy('n-Copy1.ipynb', ''), `${unique}/n-Copy2.ipynb`)
  equal(await copy('n.ipynb', '/Untitled Folder'), `${unique}/Untitled Folder/n.ipynb`)
  equal((await contents.get(`${unique}/n-Copy2.ipynb`)).content.cells.length, 2)
})

check('a rename keeps the content and takes no other file', async () => {
  const model = await contents.rename(`${unique}/bad.ipynb`, `${unique}/good.txt`)
  equal([model.path, model.type], [`${unique}/good.txt`, 'file'])
  await refused(contents.get(`${unique}/bad.ipynb`), 404)
  await refused(contents.rename(`${unique}/good.txt`, `${unique}/n.ipynb`), 409)
  equal((await contents.get(`${unique}/good.txt`)).content, 'no')
})

check('a checkpoint is kept, restored and removed', async () => {
  const path = `${unique}/c.txt`
  const save = (content) => contents.save(path, { type: 'file', format: 'text', content })
  await save('one')
  equal(await contents.listCheckpoints(path), [])
  const { id, last_modified } = await contents.createCheckpoint(path)
  ok(!Number.isNaN(Date.parse(last_modified)), last_modified)
  await save('two')
  equal((await contents.listCheckpoints(path)).map((c) => c.id), [id])
  await contents.restoreCheckpoint(path, id)
  equal((await contents.get(path)).content, 'one')
  ok(!names(await contents.get(unique)).some((n) => n[0] === '.'), 'the list has hidden files')
  await contents.rename(path, `${unique}/d.txt`)
  equal((await contents.listCheckpoints(`${unique}/d.txt`)).length, 1)
  await contents.deleteCheckpoint(`${unique}/d.txt`, id)
  equal(await contents.listCheckpoints(`${unique}/d.txt`), [])
})

check('a file is saved in parts', async () => {
  const path = `${unique}/large.bin`
  const part = Buffer.alloc(1 << 20, 'abcdefg')
  const save = (chunk, format = 'base64') =>
    contents.save(path, { type: 'file', format, chunk, content: part.toString('base64') })
  for (const chunk of [1, 2, 3, -1]) {
    equal((await save(chunk)).path, path)
  }
  const response = await request(`files/${path}`)
  const bytes = Buffer.from(await response.arrayBuffer())
  equal(sha256(bytes), sha256(Buffer.concat([part, part, part, part])))
  await save(1)
  await save(3)
  await refused(save(-1), 400)
  equal((await contents.get(path, { content: false })).size, 4 << 20)
})

check('a file is sent as it is, whole or in part', async () => {
  const path = `files/${unique}/page.html`
  const content = '<script>alert(1)</script>'
  await contents.save(`${unique}/page.html`, { type: 'file', format: 'text', content })
  const whole = await request(path)
  equal(await whole.text(), content)
  equal(whole.headers.get('content-type'), 'text/html; charset=utf-8')
  ok(whole.headers.get('content-security-policy').startsWith('sandbox;'), 'it may run scripts')
  equal([whole.headers.get('x-content-type-options'), whole.headers.get('content-disposition')], ['nosniff', null])
  const part = await request(path, { headers: { Range: 'bytes=1-6' } })
  equal([part.status, await part.text()], [206, 'script'])
  equal(part.headers.get('content-range'), `bytes 1-6/${content.length}`)
  equal((await request(path, { headers: { Range: 'bytes=100-' } })).status, 416)
  const same = await request(path, { headers: { 'If-None-Match': whole.headers.get('etag') } })
  equal(same.status, 304)
  const head = await request(path, { method: 'HEAD' })
  equal([head.status, head.headers.get('content-length')], [200, `${content.length}`])
  globalThis.document = { cookie: '' } // 6.6 reads the cookies of its page
  const url = await contents.getDownloadUrl(`${unique}/page.html`)
  delete globalThis.document
  equal((await fetch(url, { headers: { Authorization: `token ${serverSettings.token}` } })).status, 200)
  equal((await request(`${path}?download=1`)).headers.get('content-disposition'), "attachment; filename*=UTF-8''page.html")
  equal((await request(`files/${unique}`)).status, 404)
})

check('hidden files and paths outside are not there', async () => {
  for (const path of ['.bashrc', `${unique}/.x`, '..%2Fetc%2Fpasswd', '%2e%2e/etc/passwd', `${unique}/%2E%2E/x`, 'a%00b', 'a//b']) {
    for (const area of ['api/contents/', 'files/']) {
      const { status } = await fetch(serverSettings.baseUrl + area + path, {
        redirect: 'manual',
        headers: { Authorization: `token ${serverSettings.token}` }
      })
      ok([400, 404].includes(status), `${area}${path}: status ${status}`)
    }
  }
  await refused(contents.save(`${unique}/.hidden`, { type: 'file', format: 'text', content: '' }), 404)
  await refused(contents.rename(`${unique}/n.ipynb`, '.n'), 404)
})

check('a file that is too large for a model is an error that says so', async () => {
  const kernels = new KernelManager({ serverSettings })
  const sessions = new SessionManager({ serverSettings, kernelManager: kernels })
  await sessions.ready
  const path = `${unique}/Untitled.ipynb`
  const session = await sessions.startNew({ path, name: '', type: 'notebook', kernel: { name: 'python3' } })
  const future = session.kernel.requestExecute({
    code: 'import os; open("huge.txt", "wb").truncate(40 << 20); print(os.getcwd())'
  })
  let text = ''
  future.onIOPub = (m) => (text += m.content.text ?? '')
  await future.done
  // The kernel runs where its notebook is.
  equal(text, `/home/user/${unique}\n`)
  await refused(contents.get(`${unique}/huge.txt`), 413)
  equal((await contents.get(`${unique}/huge.txt`, { content: false })).size, 40 << 20)
  equal((await request(`files/${unique}/huge.txt`, { method: 'HEAD' })).status, 200)
  await session.shutdown()
  sessions.dispose()
  kernels.dispose()
})

check('a folder is removed with everything in it', async () => {
  await contents.delete(unique)
  await refused(contents.get(unique), 404)
  await refused(contents.delete(unique), 404)
  await refused(contents.delete(''), 400)
})
