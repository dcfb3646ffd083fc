// Terminals through TerminalManager and their WebSockets.
import { createHash } from 'node:crypto'
import { check, equal, list, ok, services, settings, until } from './kit.mjs'

const { TerminalManager, TerminalAPI } = services
const serverSettings = settings()
const manager = new TerminalManager({ serverSettings })
let terminal
let shown

// show collects what a terminal shows.
function show(connection) {
  const all = { text: '' }
  connection.messageReceived.connect((_, m) => {
    if (m.type === 'stdout') {
      all.text += m.content.join('')
    }
  })
  all.has = (text) => until(connection.messageReceived, () => all.text.includes(text), `the text ${text}`)
  return all
}

const type = (text) => terminal.send({ type: 'stdin', content: [text] })

check('a terminal starts', async () => {
  await manager.ready
  terminal = await manager.startNew()
  shown = show(terminal)
  ok(/^\w+$/.test(terminal.name), terminal.name)
  await until(terminal.connectionStatusChanged, () => terminal.connectionStatus === 'connected', 'a connection')
  type('echo $((6*7))$((1))\r')
  await shown.has('421')
})

check('a terminal has the size of its client', async () => {
  terminal.send({ type: 'set_size', content: [31, 97, 500, 800] })
  type('stty size\r')
  await shown.has('31 97')
  terminal.send({ type: 'set_size', content: [0, 0, 0, 0] })
  terminal.send({ type: 'set_size', content: [100000, 100000, 0, 0] })
  type('stty size\r')
  await shown.has('1000 1000')
})

check('characters are whole', async () => {
  const text = '€ü😀'.repeat(20_000)
  type('python3 -c "print(\'€ü😀\'*20000)"\r')
  const wide = () => shown.text.replaceAll(/[\r\n]/g, '').includes(text)
  await until(terminal.messageReceived, wide, 'the text')
  ok(!shown.text.includes('\ufffd'), 'a character was cut')
})

check('a large paste is complete', async () => {
  type('stty -echo -icanon; echo rea""dy; head -c 600000 | md5sum; stty echo icanon\r')
  await shown.has('ready')
  type('x'.repeat(600_000))
  await shown.has(createHash('md5').update('x'.repeat(600_000)).digest('hex'))
})

check('lists and lookups agree', async () => {
  await manager.refreshRunning()
  ok(
    list(manager.running()).some((m) => m.name === terminal.name),
    'it is not listed'
  )
  const model = (await TerminalAPI.listRunning(serverSettings)).find((m) => m.name === terminal.name)
  ok(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z$/.test(model.last_activity), model.last_activity)
  const url = new URL(`api/terminals/${terminal.name}`, serverSettings.baseUrl)
  const response = await fetch(url, { headers: { Authorization: `token ${serverSettings.token}` } })
  equal([response.status, (await response.json()).name], [200, terminal.name])
})

check('a client that reconnects sees everything once', async () => {
  type('clear; echo be""fore\r')
  await shown.has('before')
  await terminal.reconnect()
  shown.text = ''
  type('echo af""ter\r')
  await shown.has('after')
  const screen = shown.text.split('\x1bc').at(-1)
  equal(screen.split('before').length - 1, 1)
})

check('another page sees the terminal', async () => {
  const page = new TerminalManager({ serverSettings: settings() })
  const other = page.connectTo({ model: { name: terminal.name } })
  const seen = show(other)
  await seen.has('after')
  type('echo for""all\r')
  await seen.has('forall')
  page.dispose()
})

check('an unknown terminal is refused', async () => {
  const status = await new Promise((resolve) => {
    const url = `${serverSettings.wsUrl}terminals/websocket/none_t99?token=${serverSettings.token}`
    const ws = new serverSettings.WebSocket(url)
    ws.on('unexpected-response', (_, r) => resolve(r.statusCode))
    ws.on('open', () => resolve('open'))
    ws.on('error', () => {})
  })
  equal(status, 404)
})

check('the exit of the program ends the terminal', async () => {
  const { name } = terminal
  const disposed = new Promise((resolve) => terminal.disposed.connect(resolve))
  type('exit\r')
  await disposed
  const running = await TerminalAPI.listRunning(serverSettings)
  ok(!running.some((m) => m.name === name), 'it is still listed')
})

check('a shutdown ends the terminal', async () => {
  const other = await manager.startNew()
  await manager.shutdown(other.name)
  const running = await TerminalAPI.listRunning(serverSettings)
  ok(!running.some((m) => m.name === other.name), 'it is still listed')
})
