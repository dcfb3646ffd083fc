// A chat application of another vendor, with Sandgate's run buttons:
//
//   SANDGATE_URL=http://127.0.0.1:8080 SANDGATE_TOKEN=$(bin/sandgate token) node examples/chat/server.mjs
//
// The token stays in this server. Its page gets a ticket that runs code, for pages of this origin,
// for ten minutes. TEMPLATE is the template of the sandboxes; the page offers its languages.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const sandgate = process.env.SANDGATE_URL ?? 'http://127.0.0.1:8080'
const token = process.env.SANDGATE_TOKEN
const origin = `http://localhost:${process.env.PORT ?? 8090}`
const template = process.env.TEMPLATE
const headers = { Authorization: `Bearer ${token}` }

async function get(path) {
  const res = await fetch(sandgate + path, { headers })
  if (!res.ok) throw new Error(await res.text())
  return res.json()
}

// languages returns the names and aliases of the languages that blocks of code can have.
async function languages() {
  let all = (await get('/v1')).languages
  if (template) {
    const { languages, kernelspecs = [] } = await get(`/v1/templates/${template}`)
    all = [...all, ...kernelspecs].filter(({ name }) => languages.includes(name))
  }
  return all.flatMap(({ name, aliases = [] }) => [name, ...aliases]).join(' ')
}

async function file(name) {
  const text = readFileSync(new URL(name, import.meta.url), 'utf8').replaceAll('SANDGATE', sandgate)
  return text.includes('LANGUAGES') ? text.replaceAll('LANGUAGES', await languages()) : text
}

async function mint(embed) {
  const res = await fetch(`${sandgate}/v1/tickets`, {
    method: 'POST', headers,
    body: JSON.stringify({ scopes: ['run'], origin, embed, template, uses: 50, expires_seconds: 600 }),
  })
  if (!res.ok) throw new Error(await res.text())
  return (await res.json()).ticket
}

const pages = { '/': ['text/html', 'index.html'], '/chat.js': ['text/javascript', 'chat.js'], '/chat.css': ['text/css', 'chat.css'], '/strict': ['text/html', 'strict.html'], '/strict.js': ['text/javascript', 'strict.js'] }

createServer(async (req, res) => {
  try {
    const [path] = req.url.split('?')
    // A real application first checks who is signed in.
    if (req.method === 'POST' && path === '/ticket') {
      const ticket = await mint(req.url.endsWith('?embed'))
      res.setHeader('Content-Type', 'application/json')
      return res.end(JSON.stringify({ ticket }))
    }
    const page = pages[path]
    if (!page) return res.writeHead(404).end()
    const script = path === '/strict' ? "'self'" : `'self' ${sandgate}`
    res.setHeader('Content-Security-Policy', `default-src 'none'; script-src ${script}; style-src 'self' 'unsafe-inline'; connect-src ${script}; frame-src 'self' ${sandgate}; img-src data:`)
    res.setHeader('Content-Type', page[0])
    res.end(await file(page[1]))
  } catch (e) {
    res.writeHead(500).end(String(e))
  }
}).listen(process.env.PORT ?? 8090, 'localhost', () => console.log(`a chat at ${origin}`))
