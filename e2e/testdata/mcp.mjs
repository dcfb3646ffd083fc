// Uses the server as hosts of language models do, with the unmodified packages. It prints a line of
// JSON for each kind of client: its name, and the error if a check fails.
import assert from 'node:assert/strict'
import * as next from '@modelcontextprotocol/client'
import { StdioClientTransport as NextStdio } from '@modelcontextprotocol/client/stdio'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const { SANDGATE_URL: url, SANDGATE_TOKEN: token, SANDGATE_PROGRAM: program } = process.env
const info = { name: 'test', version: '1' }
const address = new URL(`${url}/mcp`)
const http = { requestInit: { headers: { Authorization: `Bearer ${token}` } } }
const stdio = { command: program, args: ['mcp'], env: process.env }
const current = { versionNegotiation: { mode: { pin: '2026-07-28' } } }

// connect returns a function that calls a tool.
async function connect(kind) {
  const older = kind.startsWith('sdk')
  const client = older ? new Client(info) : new next.Client(info, kind.includes('current') ? current : {})
  const local = kind.endsWith('stdio')
  const Transport = older
    ? (local ? StdioClientTransport : StreamableHTTPClientTransport)
    : (local ? NextStdio : next.StreamableHTTPClientTransport)
  await client.connect(local ? new Transport(stdio) : new Transport(address, http))
  // The older package takes a schema before the options.
  const call = (name, args, options = {}) => {
    const params = { name, arguments: args }
    return older ? client.callTool(params, undefined, options) : client.callTool(params, options)
  }
  return { client, call }
}

const textOf = (result) => result.content.filter((c) => c.type === 'text').map((c) => c.text).join('\n')

async function scenario(kind) {
  const { client, call } = await connect(kind)
  const ok = async (name, args, want) => {
    const result = await call(name, args)
    assert(!result.isError, textOf(result))
    assert(textOf(result).includes(want), `${name}: ${textOf(result)}, should have ${want}`)
    return result
  }
  const wrong = async (name, args, want) => {
    const result = await call(name, args)
    assert(result.isError && textOf(result).includes(want), `${name}: ${textOf(result)}`)
  }
  const { tools } = await client.listTools()
  assert.equal(tools.length, 14)
  await ok('run_code', { code: 'kept = 41' }, 'new')
  const sum = await ok('run_code', { code: 'print("line"); kept + 1' }, 'line\n42')
  assert.equal(sum.structuredContent.result, '42\n')
  await wrong('run_code', { code: '1 / 0' }, 'ZeroDivisionError')
  await wrong('run_code', { code: 'while True: pass', timeout_seconds: 1 }, 'stopped after 1 s')
  await wrong('read_file', { path: 'a', session: 'none' }, 'no session "none"')

  const long = await ok('run_command', { command: 'seq 100000' }, 'bytes left out')
  assert(textOf(long).length < 40000)
  await ok('search_files', { pattern: '^77777$', path: long.structuredContent.output_file }, ':77777')

  await ok('write_file', { path: 'in.txt', content: 'from the host' }, '13 bytes')
  const picture = await ok('run_code', {
    code: 'import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nopen("out.txt", "w").write(open("in.txt").read())',
  }, 'out.txt')
  const image = picture.content.find((c) => c.type === 'image')
  assert(image.mimeType === 'image/png' && image.data.startsWith('iVBOR'))
  const link = picture.content.find((c) => c.type === 'resource_link')
  assert.equal(await (await fetch(link.uri)).text(), 'from the host')

  // A cancelled call interrupts its cell, so the next cell runs before the first one could end.
  const abort = new AbortController()
  const cancelled = call('run_code', { code: 'import time\nprint("begun", flush=True)\ntime.sleep(300)', timeout_seconds: 600 }, {
    signal: abort.signal, onprogress: (p) => p.message?.includes('begun') && abort.abort(),
  })
  await assert.rejects(cancelled)
  await ok('run_code', { code: 'kept' }, '41')
  await ok('close_session', {}, 'deleted')
  await client.close()
}

await Promise.all(process.argv.slice(2).map(async (kind) => {
  let error
  const begun = Date.now()
  try {
    await scenario(kind)
  } catch (e) {
    error = e.stack
  }
  console.log(JSON.stringify({ kind, error, ms: Date.now() - begun }))
}))
process.exit(0)
