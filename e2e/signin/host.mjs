// Connects to the tools of a server as hosts of language models do that know only its address. The
// arguments are the address, and where the provider sends the user's browser. It ends with an error
// if a step fails.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { inspect } from 'node:util'
import * as next from '@modelcontextprotocol/client'
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const [url, redirectUrl] = process.argv.slice(2)
const packages = [
  { Client, Transport: StreamableHTTPClientTransport, Refused: UnauthorizedError, options: {} },
  {
    Client: next.Client, Transport: next.StreamableHTTPClientTransport, Refused: next.UnauthorizedError,
    options: { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  },
]

// signIn connects a host with a client id at the provider.
async function signIn({ Client, Transport, Refused, options }, id) {
  const kept = {}
  const authProvider = {
    redirectUrl,
    clientMetadata: { client_name: 'test', redirect_uris: [redirectUrl], token_endpoint_auth_method: 'none' },
    state: () => randomUUID(),
    clientInformation: () => ({ client_id: id }),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => { kept.tokens = tokens },
    codeVerifier: () => kept.verifier,
    saveCodeVerifier: (verifier) => { kept.verifier = verifier },
    redirectToAuthorization: (address) => { kept.address = address },
  }
  const connect = async () => {
    const transport = new Transport(new URL(`${url}/mcp`), { authProvider })
    const client = new Client({ name: 'test', version: '1' }, options)
    return { transport, client, done: client.connect(transport) }
  }
  const first = await connect()
  await assert.rejects(first.done, Refused)
  assert.equal(kept.address.searchParams.get('resource'), `${url}/mcp`)
  const back = await fetch(kept.address, { redirect: 'manual' }) // the user's browser
  const { searchParams } = new URL(back.headers.get('location'))
  await first.transport.finishAuth(searchParams.get('code'))
  const second = await connect()
  await second.done
  return second.client
}

for (const p of packages) {
  const client = await signIn(p, 'host')
  const result = await client.callTool({ name: 'run_code', arguments: { language: 'bash', code: 'echo $((6 * 7))' } })
  assert.equal(result.structuredContent.stdout, '42\n')
  await client.close()
  await assert.rejects(signIn(p, 'stranger'), (e) => inspect(e).includes('do not name a role'))
}
