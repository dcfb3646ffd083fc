import { Sandgate as Client, type Options } from './sandgate.js'
import { SandgateError } from './fault.js'
import { openSocket } from './nodesocket.js'
import type { Platform, Upload } from './socket.js'

export * from './index.js'
export { node as platform }

/** A client of one server, for Node. */
export class Sandgate extends Client {
  constructor(options: Options) {
    super(options, node)
  }
}

const node: Platform = {
  name: 'sandgate-node',
  headers: true,
  openSocket,
  onWake: () => () => {},
  upload,
}

/** The size of the parts in which a body is sent, in bytes. */
const part = 128 << 10

async function upload(u: Upload): Promise<{ status: number; retryAfter: string | null; body: string }> {
  const parts = u.body instanceof Blob ? slices(u.body) : chunks(u.body)
  let sent = 0
  const body = new ReadableStream<Uint8Array>({
    async pull(out) {
      // The request for more means that the earlier part was accepted.
      if (sent > 0) u.progress?.(sent)
      const { done, value } = await parts.next()
      if (done) return out.close()
      sent += value.length
      out.enqueue(value)
    },
    cancel: async () => void (await parts.return(undefined)),
  }, { highWaterMark: 0 })
  const init = { method: 'PUT', headers: u.headers, body: body as unknown as BodyInit, duplex: 'half', signal: u.signal ?? null }
  try {
    const res = await fetch(u.url, init as RequestInit)
    return { status: res.status, retryAfter: res.headers.get('Retry-After'), body: await res.text() }
  } catch (e) {
    if (u.signal?.aborted) throw new SandgateError('canceled', 'the upload was aborted', { cause: e })
    throw new SandgateError('unavailable', 'the upload was cut short', { cause: e })
  }
}

async function* slices(b: Blob): AsyncGenerator<Uint8Array, void, void> {
  for (let at = 0; at < b.size; at += part) yield new Uint8Array(await b.slice(at, at + part).arrayBuffer())
}

async function* chunks(s: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  const reader = s.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}
