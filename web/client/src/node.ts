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

async function upload(u: Upload): Promise<{ status: number; retryAfter: string | null; body: string }> {
  let sent = 0
  const source = u.body instanceof Blob ? u.body.stream() : u.body
  const counted = source.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, out) {
      out.enqueue(chunk)
      sent += chunk.length
      u.progress?.(sent)
    },
  }))
  const init = { method: 'PUT', headers: u.headers, body: counted as unknown as BodyInit, duplex: 'half', signal: u.signal ?? null }
  try {
    const res = await fetch(u.url, init as RequestInit)
    return { status: res.status, retryAfter: res.headers.get('Retry-After'), body: await res.text() }
  } catch (e) {
    if (u.signal?.aborted) throw new SandgateError('canceled', 'the upload was aborted', { cause: e })
    throw new SandgateError('unavailable', 'the upload was cut short', { cause: e })
  }
}
