// The chat of examples/, on an origin of its own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { token, url } from './rig.js'

export async function startChat(): Promise<{ url: string; stop(): void }> {
  const free = createServer().listen(0, 'localhost')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  await once(free.close(), 'close')
  const host = spawn(process.execPath, [new URL('../../../../examples/chat/server.mjs', import.meta.url).pathname], {
    env: { ...process.env, PORT: String(port), SANDGATE_URL: url, SANDGATE_TOKEN: token }, stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise((resolve) => host.stdout!.once('data', resolve))
  return { url: `http://localhost:${port}`, stop: () => void host.kill() }
}
