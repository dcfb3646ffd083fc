// A WebSocket client after RFC 6455 on Node's own HTTP: Node 20 has none, and
// the later ones' cannot carry a token or say why an upgrade was refused.
// Without extensions; the server compresses nothing either.
import { createHash, randomBytes } from 'node:crypto'
import { request as http } from 'node:http'
import { request as https } from 'node:https'
import type { Duplex } from 'node:stream'
import { fromResponse, SandgateError } from './fault.js'
import { frameHeader, limits } from './frame.js'
import { protocols, subprotocol, type Credentials, type Socket, type SocketEvents } from './socket.js'

const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
/** A frame of the protocol with the largest body, and a little. */
const maxMessage = frameHeader + limits.body + 64
/** How long the server may take to answer a close, in ms. */
const closeWait = 2000

const opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

export function openSocket(url: URL, who: Credentials, events: SocketEvents): Socket {
  const key = randomBytes(16).toString('base64')
  const headers: Record<string, string> = {
    Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key,
    'Sec-WebSocket-Protocol': protocols(who).join(', '), 'User-Agent': 'sandgate-node',
  }
  if (!who.ticket && who.token) headers.Authorization = `Bearer ${who.token}`
  const address = new URL(url)
  address.protocol = url.protocol === 'wss:' || url.protocol === 'https:' ? 'https:' : 'http:'
  const req = (address.protocol === 'https:' ? https : http)(address, { headers, agent: false })

  let wire: Wire | undefined
  let ended = false
  const closed = (code: number, reason: string, error?: SandgateError) => {
    if (ended) return
    ended = true
    events.closed(code, reason, error)
  }
  req.on('upgrade', (res, duplex: Duplex, head) => {
    const accept = createHash('sha1').update(key + guid).digest('base64')
    if (ended || res.headers['sec-websocket-accept'] !== accept || res.headers['sec-websocket-protocol'] !== subprotocol) {
      duplex.on('error', () => {})
      duplex.destroy()
      closed(1002, '', new SandgateError('unsupported', `the server does not speak ${subprotocol}`))
      return
    }
    wire = new Wire(duplex, { ...events, closed })
    events.open()
    if (head.length > 0) wire.take(head)
  })
  req.on('response', (res) => {
    let body = ''
    res.setEncoding('utf8')
    res.on('data', (text: string) => {
      if (body.length < 64 << 10) body += text
    })
    const done = () => closed(1006, '', fromResponse(res.statusCode ?? 0, res.headers['retry-after'], body))
    res.on('end', done)
    res.on('error', done)
    res.on('close', done)
  })
  req.on('error', (e) => closed(1006, '', new SandgateError('unavailable', 'the server cannot be reached', { cause: e })))
  req.on('close', () => {
    if (!wire) closed(1006, '')
  })
  req.end()
  return {
    send: (data) => wire?.message(data),
    close(code, reason) {
      if (wire) wire.goodbye(code, reason)
      else req.destroy()
    },
  }
}

/** One connection after the upgrade. */
class Wire {
  #duplex: Duplex
  #events: SocketEvents
  #chunks: Buffer[] = []
  #held = 0
  #parts: Buffer[] = []
  #partsType = 0
  #partsSize = 0
  #saidGoodbye = false
  #code = 1006
  #reason = ''
  #dead = false
  #timer: NodeJS.Timeout | undefined

  constructor(duplex: Duplex, events: SocketEvents) {
    this.#duplex = duplex
    this.#events = events
    if ('setNoDelay' in duplex) (duplex as Duplex & { setNoDelay(on: boolean): void }).setNoDelay(true)
    if ('setTimeout' in duplex) (duplex as Duplex & { setTimeout(ms: number): void }).setTimeout(0)
    duplex.on('data', (b: Buffer) => this.take(b))
    duplex.on('error', () => {}) // close follows
    duplex.on('end', () => duplex.destroy())
    duplex.on('close', () => this.#end())
  }

  #end(): void {
    if (this.#dead) return
    this.#dead = true
    clearTimeout(this.#timer)
    this.#events.closed(this.#code, this.#reason)
  }

  /** Ends the connection because the server broke the protocol. */
  #refuse(code: number, why: string): void {
    this.goodbye(code, why)
    this.#code = code
    this.#reason = why
    this.#duplex.destroy()
  }

  goodbye(code: number, reason: string): void {
    if (this.#saidGoodbye) return
    this.#saidGoodbye = true
    const text = Buffer.from(reason).subarray(0, 123)
    const body = Buffer.alloc(2 + text.length)
    body.writeUInt16BE(code)
    text.copy(body, 2)
    this.#frame(opcode.close, body)
    this.#timer = setTimeout(() => this.#duplex.destroy(), closeWait)
    this.#timer.unref()
  }

  message(data: string | Uint8Array): void {
    if (this.#saidGoodbye) return
    if (typeof data === 'string') this.#frame(opcode.text, Buffer.from(data))
    else this.#frame(opcode.binary, data)
  }

  #frame(op: number, body: Uint8Array): void {
    if (this.#dead || this.#duplex.writableEnded || this.#duplex.destroyed) return
    const size = body.length
    const head = size < 126 ? 2 : size < 65536 ? 4 : 10
    const b = Buffer.allocUnsafe(head + 4 + size)
    b[0] = 0x80 | op
    if (head === 2) {
      b[1] = 0x80 | size
    } else if (head === 4) {
      b[1] = 0x80 | 126
      b.writeUInt16BE(size, 2)
    } else {
      b[1] = 0x80 | 127
      b.writeBigUInt64BE(BigInt(size), 2)
    }
    const mask = randomBytes(4)
    mask.copy(b, head)
    for (let i = 0; i < size; i++) b[head + 4 + i] = body[i]! ^ mask[i & 3]!
    this.#duplex.write(b)
  }

  /** Takes what has arrived and passes whole messages on. */
  take(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#held += chunk.length
    while (!this.#dead && !this.#duplex.destroyed && this.#next()) {
      // until a frame is not whole yet
    }
  }

  /** The first n bytes of what is held, which must be there. */
  #peek(n: number): Buffer {
    const first = this.#chunks[0]!
    if (first.length >= n) return first.subarray(0, n)
    const all = Buffer.concat(this.#chunks)
    this.#chunks = [all]
    return all.subarray(0, n)
  }

  #drop(n: number): void {
    this.#held -= n
    while (n > 0) {
      const first = this.#chunks[0]!
      if (first.length > n) {
        this.#chunks[0] = first.subarray(n)
        return
      }
      n -= first.length
      this.#chunks.shift()
    }
  }

  /** Takes one frame; false when it is not whole yet. */
  #next(): boolean {
    if (this.#held < 2) return false
    let head = this.#peek(2)
    const first = head[0]!
    const op = first & 0x0f
    const fin = (first & 0x80) !== 0
    let size = head[1]! & 0x7f
    if ((first & 0x70) !== 0 || (head[1]! & 0x80) !== 0) return this.#broken('a frame with reserved bits or a mask')
    let length = 2
    if (size === 126) length = 4
    else if (size === 127) length = 10
    if (this.#held < length) return false
    if (length > 2) {
      head = this.#peek(length)
      size = length === 4 ? head.readUInt16BE(2) : Number(head.readBigUInt64BE(2))
    }
    if (op >= 8 && (size > 125 || !fin)) return this.#broken('a control frame that is long or in parts')
    if (op < 8 && this.#partsSize + size > maxMessage) {
      this.#refuse(1009, `a message is over ${maxMessage} bytes`)
      return false
    }
    if (this.#held < length + size) return false
    const body = this.#peek(length + size).subarray(length)
    this.#drop(length + size)
    return op >= 8 ? this.#control(op, body) : this.#data(op, fin, body)
  }

  #broken(what: string): false {
    this.#refuse(1002, `the server sent ${what}`)
    return false
  }

  #control(op: number, body: Buffer): boolean {
    if (op === opcode.ping) this.#frame(opcode.pong, body)
    if (op !== opcode.close) return op === opcode.ping || op === opcode.pong || this.#broken('an unknown frame')
    this.#code = body.length >= 2 ? body.readUInt16BE(0) : 1005
    this.#reason = body.subarray(2).toString()
    if (!this.#saidGoodbye) this.goodbye(this.#code === 1005 ? 1000 : this.#code, '')
    this.#duplex.end()
    this.#end()
    return false
  }

  #data(op: number, fin: boolean, body: Buffer): boolean {
    if (op !== opcode.continuation && op !== opcode.text && op !== opcode.binary) return this.#broken('an unknown frame')
    if ((op === opcode.continuation) !== (this.#partsType !== 0)) return this.#broken('parts of messages out of order')
    if (op !== opcode.continuation) this.#partsType = op
    this.#parts.push(body)
    this.#partsSize += body.length
    if (!fin) return true
    const whole = this.#parts.length === 1 ? body : Buffer.concat(this.#parts)
    const text = this.#partsType === opcode.text
    this.#parts = []
    this.#partsType = this.#partsSize = 0
    if (!text) {
      this.#events.message(whole)
      return true
    }
    let decoded: string
    try {
      decoded = new TextDecoder('utf-8', { fatal: true }).decode(whole)
    } catch {
      this.#refuse(1007, 'the server sent text that is no UTF-8')
      return false
    }
    this.#events.message(decoded)
    return true
  }
}
