// A chat whose model runs code. Each conversation has a session of Sandgate, in which the code of the
// model and the run buttons of the page run. The model is at any address that speaks the chat
// completions of OpenAI:
//
//   SANDGATE_URL=http://127.0.0.1:8080 SANDGATE_TOKEN=$(bin/sandgate token) \
//   MODEL_URL=http://127.0.0.1:11434/v1 MODEL=qwen3 MODEL_KEY= node examples/agent/server.mjs
//
// TEMPLATE names a template for the sessions; its languages are offered then.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const {
  SANDGATE_URL = 'http://127.0.0.1:8080', SANDGATE_TOKEN, TEMPLATE, MODEL_URL, MODEL, MODEL_KEY, PORT = '8091',
} = process.env
/** The most calls of the model for one message, and characters of a result that it gets. */
const maxRounds = 10
const maxText = 20_000
const maxConversations = 1000
const week = 7 * 24 * 3600

async function request(url, key, method, body) {
  const response = await fetch(url, {
    method, body: body && JSON.stringify(body),
    headers: { 'Content-Type': 'application/json', ...(key && { Authorization: `Bearer ${key}` }) },
  })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${(await response.text()).slice(0, 500)}`)
  return response.json()
}
const sandgate = (method, path, body) => request(SANDGATE_URL + path, SANDGATE_TOKEN, method, body)

/** The languages that sessions have. */
const languages = TEMPLATE
  ? (await sandgate('GET', `/v1/templates/${TEMPLATE}`)).languages
  : (await sandgate('GET', '/v1')).languages.map((language) => language.name)

const tools = [{
  type: 'function',
  function: {
    name: 'run_code',
    description: 'Run code. Variables and files stay for later calls. Returns output, the last value, and errors.',
    parameters: {
      type: 'object', required: ['language', 'code'],
      properties: { language: { type: 'string', enum: languages }, code: { type: 'string' } },
    },
  },
}]

/** The conversations by id: their messages, and whether one is being answered. */
const conversations = new Map()

function conversation(id) {
  if (!id) {
    id = randomUUID()
    conversations.set(id, { id, messages: [], busy: false })
    if (conversations.size > maxConversations) conversations.delete(conversations.keys().next().value)
  }
  return conversations.get(id)
}

/** Returns the id of a conversation's session. The first call creates it. */
async function session({ id }) {
  const labels = { conversation: id }
  return (await sandgate('PUT', `/v1/sessions/by-name/agent-${id}`, { template: TEMPLATE, labels, idle_delete_seconds: week })).id
}

/** Performs a call of the tool, and returns what the page shows and what the model gets. */
async function runCode(talk, call) {
  let code = ''
  let language = 'python'
  try {
    ({ code = '', language = 'python' } = JSON.parse(call.function.arguments))
    const result = await sandgate('POST', `/v1/sessions/${await session(talk)}/run`, { code, language, timeout_ms: 60_000 })
    const text = [
      result.stdout, result.stderr, result.data?.['text/plain'], result.error?.traceback?.join('\n'),
      ...(result.files ?? []).map((file) => `[${file.change} ${file.path}]`),
      result.status === 'ok' ? '' : `[${result.status}]`,
    ].filter(Boolean).join('\n').slice(0, maxText)
    const pictures = result.results.flatMap(({ data }) => data?.['image/png'] ?? [])
    const files = (result.files ?? []).filter((file) => file.url).map(({ path, url }) => ({ path, url }))
    return { type: 'run', code, language, text: text || '[no output]', pictures, files }
  } catch (error) { // the model can correct most errors
    return { type: 'run', code, language, text: String(error.message).slice(0, maxText), pictures: [], files: [] }
  }
}

/** Answers a message. show gets each part of the answer. */
async function answer(talk, text, show) {
  talk.messages.push({ role: 'user', content: text })
  for (let round = 0; round < maxRounds; round++) {
    const { choices: [{ message }] } = await request(`${MODEL_URL}/chat/completions`, MODEL_KEY, 'POST', { model: MODEL, messages: talk.messages, tools })
    talk.messages.push(message)
    if (message.content) show({ type: 'text', text: message.content })
    if (!message.tool_calls?.length) return
    for (const call of message.tool_calls) {
      const result = await runCode(talk, call)
      show(result)
      talk.messages.push({ role: 'tool', tool_call_id: call.id, content: result.text })
    }
  }
  show({ type: 'text', text: `The model has called the tool in ${maxRounds} rounds. Ask it to continue.` })
}

async function read(req) {
  let body = ''
  for await (const part of req.setEncoding('utf8')) {
    body += part
    if (body.length > 100_000) throw new Error('the message is too long')
  }
  return body
}

async function chat(talk, req, res) {
  if (talk.busy) return res.writeHead(409).end('the last message is being answered')
  talk.busy = true
  try {
    const text = await read(req)
    res.setHeader('Content-Type', 'application/x-ndjson')
    const show = (part) => res.write(`${JSON.stringify(part)}\n`)
    show({ type: 'conversation', id: talk.id })
    await answer(talk, text, show).catch((error) => show({ type: 'error', text: error.message }))
    res.end()
  } finally {
    talk.busy = false
  }
}

/** Returns a ticket with which the page's buttons run code in the conversation's session. */
async function ticket(talk, res) {
  const made = await sandgate('POST', '/v1/tickets', { scopes: ['run'], origin: origin(), session: await session(talk), uses: 50, expires_seconds: 600 })
  res.setHeader('Content-Type', 'application/json')
  res.end(JSON.stringify({ ticket: made.ticket }))
}

const pages = { '/': ['text/html', 'index.html'], '/chat.js': ['text/javascript', 'chat.js'], '/chat.css': ['text/css', '../chat/chat.css'] }

const server = createServer(async (req, res) => {
  try {
    // A real application first checks who is signed in, and whose conversation this is.
    const [, path, id] = req.url.split('/')
    const talk = req.method === 'POST' && conversation(id)
    if (talk && path === 'chat') return await chat(talk, req, res)
    if (talk && path === 'ticket') return await ticket(talk, res)
    const page = pages[req.url]
    if (req.method !== 'GET' || !page) return res.writeHead(404).end()
    res.setHeader('Content-Security-Policy', `default-src 'none'; script-src 'self' ${SANDGATE_URL}; style-src 'self' 'unsafe-inline'; connect-src 'self' ${SANDGATE_URL}; img-src data:`)
    res.setHeader('Content-Type', page[0])
    res.end(readFileSync(new URL(page[1], import.meta.url), 'utf8').replaceAll('SANDGATE_URL', SANDGATE_URL).replaceAll('LANGUAGES', languages.join(' ')))
  } catch (error) {
    console.error(error)
    if (!res.headersSent) res.writeHead(502)
    res.end()
  }
}).listen(Number(PORT), 'localhost', () => console.log(`a chat at ${origin()}`))
const origin = () => `http://localhost:${server.address().port}`
