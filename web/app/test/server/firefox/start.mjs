#!/usr/bin/env node
// Starts Firefox for Playwright, which drives it by WebDriver BiDi. Firefox lacks one command that
// Playwright sends to each page: to emulate media features. This program answers it, and passes all
// other messages on. The preferences of the profile set these features instead.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { WebSocket, WebSocketServer } from 'ws'

const lacks = new Set(['emulation.setMediaFeaturesOverride'])

const firefox = spawn(process.env.FIREFOX ?? '/usr/bin/firefox-esr', process.argv.slice(2), { stdio: ['ignore', 'ignore', 'pipe'] })
for (const s of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(s, () => firefox.kill(s))
firefox.on('error', (e) => {
  console.error(String(e))
  process.exit(1)
})
firefox.on('exit', (code) => process.exit(code ?? 1))

createInterface(firefox.stderr).on('line', (line) => {
  const address = /WebDriver BiDi listening on (ws:\/\/.*)$/.exec(line)?.[1]
  if (!address) return console.error(line)
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, maxPayload: 256 << 20 }, () => {
    console.error(`WebDriver BiDi listening on ws://127.0.0.1:${server.address().port}`)
  })
  server.on('connection', (client, request) => connect(client, address + request.url))
})

function connect(client, address) {
  const browser = new WebSocket(address, { perMessageDeflate: false, maxPayload: 256 << 20 })
  const opened = new Promise((resolve) => browser.on('open', resolve))
  client.on('message', async (data) => {
    const text = data.toString()
    const { id, method } = JSON.parse(text)
    await opened
    if (lacks.has(method)) client.send(JSON.stringify({ type: 'success', id, result: {} }))
    else browser.send(text)
  })
  browser.on('message', (data) => client.send(data.toString()))
  for (const [one, other] of [[client, browser], [browser, client]]) {
    one.on('close', () => other.close())
    one.on('error', (e) => console.error(String(e)))
  }
}
