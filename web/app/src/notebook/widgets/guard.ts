import { isObject, type Path } from './state'

/** The size of a message of a frame, in bytes. The server's limit for a request is 2 MiB. */
export const maxMessage = 1 << 20
/** The number of messages that a frame may send at once, and per second after that. */
const burst = 600
const perSecond = 300
/** The same for bytes. */
const burstBytes = 8 << 20
const bytesPerSecond = 2 << 20
/** The number of refused messages after which a frame is stopped. */
const maxRefused = 500

/**
 * Attributes that decide which code shows a model. Only the kernel sets them.
 */
const code = new Set(['_model_module', '_model_name', '_model_module_version', '_view_module', '_view_name', '_view_module_version', '_esm', '_css', '_anywidget_id'])

/** A message of a frame that has the right form. */
export type Checked =
  | { kind: 'want'; id: string }
  | { kind: 'send'; id: string; n: number; data: { method: 'update'; state: Record<string, unknown>; buffer_paths: Path[] } | { method: 'custom'; content: unknown }; buffers: Uint8Array[] }
  | { kind: 'refused'; why: string; n?: number | undefined; id?: string | undefined }
  | { kind: 'stop' }

/** Checks what one frame sends. Everything in it is untrusted. */
export class Guard {
  #tokens = burst
  #bytes = burstBytes
  #at: number | undefined
  #refused = 0

  check(m: unknown, now: number): Checked {
    const r = this.#look(m, now)
    if (r.kind === 'refused' && ++this.#refused > maxRefused) return { kind: 'stop' }
    return r
  }

  /** Counts a message that has the right form and that the frame may not send. */
  refuse(why: string, m: { n?: number; id?: string }): Checked {
    return ++this.#refused > maxRefused ? { kind: 'stop' } : { kind: 'refused', why, ...m }
  }

  #look(m: unknown, now: number): Checked {
    if (!isObject(m)) return { kind: 'refused', why: 'it is not a message' }
    const { want, send } = m
    if (want !== undefined) return isID(want) ? { kind: 'want', id: want } : { kind: 'refused', why: 'it names no model' }
    if (!isObject(send)) return { kind: 'refused', why: 'it is not a message' }
    const n = typeof send.n === 'number' && Number.isSafeInteger(send.n) ? send.n : undefined
    if (!isID(send.id) || n === undefined) return { kind: 'refused', why: 'it names no model', n }
    const no = (why: string): Checked => ({ kind: 'refused', why, n, id: send.id as string })
    const seconds = (now - (this.#at ?? now)) / 1000
    this.#tokens = Math.min(burst, this.#tokens + seconds * perSecond)
    this.#bytes = Math.min(burstBytes, this.#bytes + seconds * bytesPerSecond)
    this.#at = now
    if (this.#tokens < 1) return no('there are too many messages')
    this.#tokens--
    const buffers = buffersOf(send.buffers)
    if (!buffers) return no('a buffer is not binary')
    if (!isObject(send.data)) return no('it has no data')
    let text: string
    try {
      text = JSON.stringify(send.data) // a structured clone can have cycles
    } catch {
      return no('it is not JSON')
    }
    const size = text.length + buffers.reduce((sum, b) => sum + b.length * (4 / 3), 0)
    if (size > maxMessage) return no(`it is larger than ${maxMessage >> 10} KiB`)
    if (size > this.#bytes) return no('there are too many bytes')
    this.#bytes -= size
    const data = JSON.parse(text) as Record<string, unknown>
    if (data.method === 'custom') return { kind: 'send', id: send.id, n, data: { method: 'custom', content: data.content }, buffers }
    if (data.method !== 'update' || !isObject(data.state)) return no('it is neither an update nor a custom message')
    if (Object.keys(data.state).some((k) => code.has(k))) return no("it changes the model's code")
    const paths = Array.isArray(data.buffer_paths) ? (data.buffer_paths as unknown[]) : []
    if (paths.length !== buffers.length || !paths.every(isPath)) return no('its buffers have no places')
    if ((paths as Path[]).some((p) => code.has(String(p[0])))) return no("it changes the model's code")
    return { kind: 'send', id: send.id, n, data: { method: 'update', state: data.state, buffer_paths: paths as Path[] }, buffers }
  }
}

function isID(v: unknown): v is string {
  return typeof v === 'string' && v.length > 0 && v.length <= 128
}

function isPath(p: unknown): p is Path {
  return Array.isArray(p) && p.length > 0 && p.every((k) => typeof k === 'string' || typeof k === 'number')
}

function buffersOf(v: unknown): Uint8Array[] | undefined {
  if (v === undefined) return []
  if (!Array.isArray(v)) return undefined
  const out: Uint8Array[] = []
  for (const b of v as unknown[]) {
    if (b instanceof ArrayBuffer) out.push(new Uint8Array(b))
    else if (ArrayBuffer.isView(b)) out.push(new Uint8Array(b.buffer, b.byteOffset, b.byteLength))
    else return undefined
  }
  return out
}
