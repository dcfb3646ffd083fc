// Programs and files at addresses of a sandbox. Addresses need a domain.
import { createHash } from 'node:crypto'
import tls from 'node:tls'
import { assert, e2b, fails, mode, pause, suite, until } from './kit.mjs'

const { Sandbox } = e2b
const check = suite('ports', { mode: 'domain' })

// web starts a web server in the sandbox, and returns its address.
async function web(s, port = 3000) {
  await s.files.write(`web${port}/index.html`, `page of ${port}`)
  await s.commands.run(`cd web${port} && python3 -m http.server ${port}`, {
    background: true, timeoutMs: 0
  })
  const url = `https://${s.getHost(port)}`
  await until('the server listens', async () => (await fetch(url)).status === 200)
  return url
}

check('http', ['Sandbox#getHost'], async (t) => {
  const s = await t.fresh()
  const url = await web(s)
  const res = await fetch(`${url}/index.html`)
  assert.equal(await res.text(), 'page of 3000')
  assert.equal((await fetch(`${url}/nothing`)).status, 404)
})

check('closed-port', ['Sandbox#getHost'], async (t) => {
  const s = await t.shared()
  const res = await fetch(`https://${s.getHost(4321)}`)
  assert.equal(res.status, 502)
  const body = await res.json()
  assert.equal(body.port, 4321)
  assert.equal(body.code, 502)
})

check('unknown-sandbox', ['Sandbox#getHost'], async () => {
  const res = await fetch(`https://3000-i0123456789abcdefghij.${process.env.E2B_DOMAIN}`)
  assert.equal(res.status, 502)
  assert.match((await res.json()).message, /never existed|not found/)
})

check('websocket', ['Sandbox#getHost'], async (t) => {
  const s = await t.fresh()
  await s.files.write('ws.py', `
import base64, hashlib, socketserver
class H(socketserver.BaseRequestHandler):
    def handle(self):
        head = b''
        while b'\\r\\n\\r\\n' not in head: head += self.request.recv(4096)
        if b'Upgrade' not in head:
            self.request.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok'); return
        key = [l.split(b': ')[1] for l in head.split(b'\\r\\n') if l.lower().startswith(b'sec-websocket-key')][0]
        accept = base64.b64encode(hashlib.sha1(key + b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest())
        self.request.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\n'
            b'Connection: Upgrade\\r\\nSec-WebSocket-Accept: ' + accept + b'\\r\\n\\r\\n')
        f = self.request.recv(4096)
        mask, data = f[2:6], f[6:]
        text = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.request.sendall(bytes([0x81, len(text)]) + text)
        self.request.recv(4096)
class S(socketserver.ThreadingTCPServer): allow_reuse_address = True
S(('', 3002), H).serve_forever()
`)
  await s.commands.run('python3 ws.py', { background: true, timeoutMs: 0 })
  const host = s.getHost(3002)
  await until('the server listens', async () => (await fetch(`https://${host}`)).status === 200)
  const answer = await new Promise((resolve, reject) => {
    const [name, port] = host.split(':')
    const socket = tls.connect({ host: name, port: Number(port), servername: name }, () => {
      socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\n` +
        'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
        `Sec-WebSocket-Key: ${Buffer.from('0123456789abcdef').toString('base64')}\r\n\r\n`)
    })
    let data = Buffer.alloc(0)
    let upgraded = false
    socket.on('error', reject)
    socket.on('data', (part) => {
      data = Buffer.concat([data, part])
      const end = data.indexOf('\r\n\r\n')
      if (!upgraded && end >= 0) {
        upgraded = true
        data = data.subarray(end + 4)
        const text = Buffer.from('ping')
        const mask = Buffer.from([1, 2, 3, 4])
        socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | text.length]), mask,
          text.map((b, i) => b ^ mask[i % 4])]))
      }
      if (upgraded && data.length >= 6) {
        socket.destroy()
        resolve(data.subarray(2).toString())
      }
    })
  })
  assert.equal(answer, 'ping')
})

check('private', ['Sandbox.create(network.allowPublicTraffic)'], async (t) => {
  const s = await t.fresh({ network: { allowPublicTraffic: false } })
  await s.commands.run('python3 -m http.server 3000', { background: true, timeoutMs: 0 })
  const url = `https://${s.getHost(3000)}`
  const refused = await fetch(url)
  assert.equal(refused.status, 403)
  assert.equal((await refused.json()).code, 403)
  const headers = { 'E2B-Traffic-Access-Token': s.trafficAccessToken }
  await until('the server listens', async () => (await fetch(url, { headers })).status === 200)
  const wrong = { 'E2B-Traffic-Access-Token': 'x' }
  assert.equal((await fetch(url, { headers: wrong })).status, 403)
})

check('killed-port', ['Sandbox#getHost', 'Sandbox#kill'], async (t) => {
  const s = await t.fresh()
  const url = await web(s)
  await s.kill()
  const res = await fetch(url)
  assert.equal(res.status, 502)
  assert.match((await res.json()).message, /killed/)
})

check('download-url', ['Sandbox#downloadUrl'], async (t) => {
  const s = await t.shared()
  await s.files.write('a file+ü.txt', 'by url')
  const res = await fetch(await s.downloadUrl('a file+ü.txt'))
  assert.equal(res.status, 200)
  assert.equal(await res.text(), 'by url')
})

check('download-url-options', ['Sandbox#downloadUrl(user, useSignatureExpiration)'], async (t) => {
  const s = await t.shared()
  await s.files.write('x.txt', 'by url')
  const url = await s.downloadUrl('/home/user/x.txt', { user: 'user', useSignatureExpiration: 60 })
  assert.equal(await (await fetch(url)).text(), 'by url')
})

check('download-url-expired', ['Sandbox#downloadUrl(useSignatureExpiration)'], async (t) => {
  const s = await t.shared()
  await s.files.write('x.txt', 'by url')
  const url = await s.downloadUrl('/home/user/x.txt', { useSignatureExpiration: 1 })
  await pause(2100)
  assert.equal((await fetch(url)).status, 401)
})

check('download-url-changed', ['Sandbox#downloadUrl'], async (t) => {
  const s = await t.shared()
  await s.files.write('x.txt', 'by url')
  const url = new URL(await s.downloadUrl('/home/user/x.txt'))
  url.searchParams.set('path', '/etc/passwd')
  assert.equal((await fetch(url)).status, 401)
  url.searchParams.delete('signature')
  assert.equal((await fetch(url)).status, 401)
  const write = await s.uploadUrl('/home/user/x.txt')
  assert.equal((await fetch(write)).status, 401)
})

check('upload-url', ['Sandbox#uploadUrl'], async (t) => {
  const s = await t.shared()
  const form = new FormData()
  form.append('file', new Blob(['sent by url']), 'any-name')
  const res = await fetch(await s.uploadUrl('up/loaded.txt'), { method: 'POST', body: form })
  assert.equal(res.status, 200)
  assert.equal((await res.json())[0].path, '/home/user/up/loaded.txt')
  assert.equal(await s.files.read('up/loaded.txt'), 'sent by url')
})

check('upload-url-without-path', ['Sandbox#uploadUrl(useSignatureExpiration)'], async (t) => {
  const s = await t.shared()
  const form = new FormData()
  form.append('file', new Blob(['1']), 'first.txt')
  form.append('file', new Blob(['2']), 'second.txt')
  const url = await s.uploadUrl(undefined, { useSignatureExpiration: 60 })
  const res = await fetch(url, { method: 'POST', body: form })
  assert.equal(res.status, 200)
  assert.equal(await s.files.read('second.txt'), '2')
})

check('signature-of-hand', ['Sandbox#downloadUrl'], async (t) => {
  const s = await t.shared()
  await s.files.write('hand.txt', 'signed by hand')
  const path = '/home/user/hand.txt'
  const raw = `${path}:read::${s.envdAccessToken}`
  const signature = 'v1_' + createHash('sha256').update(raw).digest('base64').replace(/=+$/, '')
  const { signature: ours } = await e2b.getSignature({
    path, operation: 'read', envdAccessToken: s.envdAccessToken
  })
  assert.equal(signature, ours)
  const url = new URL(`https://${s.getHost(49983)}/files`)
  url.searchParams.set('path', path)
  url.searchParams.set('signature', signature)
  assert.equal(await (await fetch(url)).text(), 'signed by hand')
})

check('other-sandbox-token', ['Filesystem#read'], async (t) => {
  const one = await t.fresh()
  const two = await t.shared()
  const res = await fetch(`https://${one.getHost(49983)}/files?path=/etc/hostname`, {
    headers: { 'X-Access-Token': two.envdAccessToken }
  })
  assert.equal(res.status, 401)
})

check('shared-host', ['Sandbox.connect'], async (t) => {
  const s = await t.shared()
  const again = await Sandbox.connect(s.sandboxId, {
    sandboxUrl: `https://sandbox.${process.env.E2B_DOMAIN}`
  })
  assert.equal((await again.commands.run('echo x')).stdout, 'x\n')
  assert.equal(await again.isRunning(), true)
})

suite('ports-of-url', { mode: 'url' })('mcp-token', ['Sandbox#getMcpToken', 'Sandbox#getMcpUrl'],
  async (t) => {
    const s = await t.shared()
    assert.match(s.getMcpUrl(), /^https:\/\/50005-/)
    await fails(s.getMcpToken())
    assert.equal(mode, 'url')
  }, { refuses: 'there is no gateway of MCP servers in the image' })
