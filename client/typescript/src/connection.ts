import { aborted, asError, fromClose, fromFault, orAborted, SandgateError, type Fault } from './fault.js'
import { frameType, limits, parseAck, parseFrame } from './frame.js'
import type { Login } from './http.js'
import { subprotocol, type Platform, type Socket } from './socket.js'
import type { Abortable, SessionState } from './types.js'

/** Limits and times of a connection. */
const maxCalls = 4096 // calls that wait for their replies
const maxCallBytes = 64 << 20 // their total size in bytes
const maxUnderWay = 60 // calls sent to the server at a time; the server accepts 64
const maxAttached = 256
const dialTime = 10_000 // ms: credentials, upgrade and hello together
const quietTime = 15_000 // ms without a message after which the server is asked for one
const answerTime = 10_000 // ms that the server has to answer

export interface Backoff {
  /**
   * The pause before the first reconnection, in ms; each further pause may be twice as long.
   * Default 100.
   */
  min?: number
  /** The longest pause, in ms. Default 10,000. The number of attempts is not limited. */
  max?: number
}

export type ConnectionState =
  | { state: 'connecting'; tries: number }
  | { state: 'open' }
  /** Not connected. The next attempt is in ms milliseconds, or when reconnect() is called. */
  | { state: 'waiting'; tries: number; ms: number; error: SandgateError }
  /** Closed permanently. */
  | { state: 'closed'; error: SandgateError }

/** An object with its own channel number on the connection, which begins again on each link. */
export interface Bound {
  readonly ch: number
  readonly session: string
  /** Whether the server knows it on this link. */
  readonly attached: boolean
  attach(): void
  lower(): void
  receive(body: Uint8Array): void
  inputTaken(sequence: number): void
  inputRefused(error: SandgateError): void
  event?(name: string, params: unknown): void
  fail(e: unknown): void
}

interface Reply {
  id?: number
  result?: unknown
  error?: Fault
  event?: string
  ch?: number
  params?: unknown
}

/** The parameters of the event detached. */
interface Detached {
  channels?: number[]
  requests?: number[]
  error: Fault
}

interface Call {
  id: number
  body: string
  /** Sending the request twice does no harm. */
  repeat: boolean
  /** The request is only useful on the present link. */
  now: boolean
  /** The number of the object that begins with the request. */
  ch: number | undefined
  /** The request is sent once this is attached. */
  at: Bound | undefined
  sent: boolean
  settle(result: unknown, error?: SandgateError): void
}

export interface CallOptions extends Abortable {
  ch?: number | undefined
  at?: Bound
  repeat?: boolean
  /** Only for the present link: fails if there is none. */
  now?: boolean
  /** Names the request, so that the server performs it once. */
  idempotencyKey?: string
}

/**
 * One WebSocket at a time. It reconnects until it is closed or the server answers that reconnecting
 * cannot succeed.
 */
export class Connection {
  readonly #url: URL
  readonly #login: Login
  readonly #platform: Platform
  readonly #name: string
  readonly #min: number
  readonly #max: number
  readonly #onState: ((s: ConnectionState) => void) | undefined
  readonly #onSession: ((s: SessionState) => void) | undefined

  #socket: Socket | undefined // a socket that has completed hello
  #started = false
  #error: SandgateError | undefined
  #calls = new Map<number, Call>() // the oldest first
  #callBytes = 0
  #unsent: Call[] = [] // the oldest first
  #underWay = 0
  #nextID = 1
  #attachments = new Map<number, Bound>()
  #nextCh = 1
  #links = 0
  #stop = new AbortController()
  #wakeUp = () => {}
  #probe: (() => void) | undefined
  #openWaiters = new Set<() => void>()

  constructor(url: URL, login: Login, platform: Platform, name: string, backoff: Backoff, onState: ((s: ConnectionState) => void) | undefined, onSession?: (s: SessionState) => void) {
    this.#url = url
    this.#login = login
    this.#platform = platform
    this.#name = name
    this.#min = Math.max(1, backoff.min ?? 100)
    this.#max = Math.max(this.#min, backoff.max ?? 10_000)
    this.#onState = onState
    this.#onSession = onSession
  }

  /** Why it has ended; undefined until then, connected or not. */
  get error(): SandgateError | undefined {
    return this.#error
  }

  /** The number of reconnections. */
  get reconnects(): number {
    return Math.max(0, this.#links - 1)
  }

  get connected(): boolean {
    return this.#socket !== undefined
  }

  /** Starts it, if it has not started. */
  start(): void {
    if (this.#started) return
    this.#started = true
    void this.#loop()
  }

  /** Resolves once the server has answered hello. */
  async opened({ signal }: Abortable): Promise<void> {
    this.start()
    if (signal?.aborted) throw aborted(signal)
    let check = () => {}
    let abort = () => {}
    try {
      await new Promise<void>((resolve, reject) => {
        check = () => {
          if (this.#error) reject(this.#error)
          else if (this.#socket) resolve()
        }
        abort = () => reject(aborted(signal!))
        this.#openWaiters.add(check)
        signal?.addEventListener('abort', abort, { once: true })
        check()
      })
    } finally {
      this.#openWaiters.delete(check)
      signal?.removeEventListener('abort', abort)
    }
  }

  /** Connects now if it waits for the next attempt; otherwise checks that the server answers. */
  wake(): void {
    this.#wakeUp()
    this.#probe?.()
  }

  /** Ends it and everything on it. */
  close(): void {
    this.#finish(new SandgateError('canceled', 'the connection was closed'))
  }

  #tell(s: ConnectionState): void {
    for (const f of [...this.#openWaiters]) f()
    try {
      this.#onState?.(s)
    } catch {
      // an error of a listener does not affect the connection
    }
  }

  #finish(error: SandgateError): void {
    if (this.#error) return
    this.#error = error
    const socket = this.#socket
    this.#socket = undefined
    socket?.close(1000, '')
    this.#stop.abort()
    this.#wakeUp()
    const calls = [...this.#calls.values()]
    this.#calls.clear()
    this.#unsent = []
    this.#callBytes = this.#underWay = 0
    for (const c of calls) c.settle(undefined, error)
    for (const a of [...this.#attachments.values()]) a.fail(error)
    this.#tell({ state: 'closed', error })
  }

  async #loop(): Promise<void> {
    const unsubscribe = this.#platform.onWake(() => this.wake())
    let pause = this.#min
    let tries = 0
    while (!this.#error) {
      this.#tell({ state: 'connecting', tries })
      const { useful, error, final } = await this.#once()
      if (this.#error) break
      if (final) {
        this.#finish(error)
        break
      }
      if (useful) {
        pause = this.#min
        tries = 0
      }
      tries++
      // Full jitter: a thousand clients of a restarting server must not reconnect at the same
      // moment.
      const ms = Math.ceil(Math.random() * pause) + Math.min((error.retryAfter ?? 0) * 1000, this.#max)
      pause = Math.min(2 * pause, this.#max)
      this.#tell({ state: 'waiting', tries, ms, error })
      if (this.#error) break
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms)
        this.#wakeUp = () => {
          clearTimeout(timer)
          resolve()
        }
      })
      this.#wakeUp = () => {}
    }
    unsubscribe()
  }

  /** Opens one link and serves it until it ends. */
  async #once(): Promise<{ useful: boolean; error: SandgateError; final: boolean }> {
    const stop = new AbortController()
    const overall = () => stop.abort()
    this.#stop.signal.addEventListener('abort', overall, { once: true })
    const dial = setTimeout(() => stop.abort(new DOMException('', 'TimeoutError')), dialTime)
    try {
      let who
      try {
        who = await orAborted(this.#login.credentials(stop.signal), stop.signal)
      } catch (e) {
        const error = asError(e, 'unavailable')
        return { useful: false, error, final: this.#login.final(error) }
      }
      if (this.#error) return { useful: false, error: this.#error, final: true }
      return await new Promise((resolve) => this.#serve(who, stop, dial, resolve))
    } finally {
      clearTimeout(dial)
      this.#stop.signal.removeEventListener('abort', overall)
    }
  }

  #serve(
    who: { token?: string | undefined; ticket?: string | undefined }, stop: AbortController, dial: ReturnType<typeof setTimeout>,
    resolve: (r: { useful: boolean; error: SandgateError; final: boolean }) => void,
  ): void {
    let over = false
    let welcome = false
    let useful = false
    let heard = 0
    let quiet: ReturnType<typeof setTimeout> | undefined
    let socket: Socket | undefined
    const end = (error: SandgateError, final: boolean) => {
      if (over) return
      over = true
      clearTimeout(quiet)
      if (this.#socket === socket) this.#socket = undefined
      this.#probe = undefined
      // A browser may wait long for the close frame of a dead network.
      socket?.close(error.kind === 'malformed' ? 3501 : 1000, error.kind === 'malformed' ? 'malformed' : '')
      this.#lower(error)
      resolve({ useful, error, final })
    }
    stop.signal.addEventListener('abort', () => {
      const error = aborted(stop.signal)
      end(error.kind === 'deadline_exceeded' ? new SandgateError('unavailable', 'the server did not say hello in time') : error, false)
    })

    // The server pings every 25 s, but a page does not see that. The gateway itself rejects a
    // second hello, without other work.
    const ask = () => {
      clearTimeout(quiet)
      const before = heard
      const due = Date.now() + answerTime
      socket?.send(JSON.stringify({ id: this.#nextID++, op: 'hello' }))
      quiet = setTimeout(() => {
        if (heard !== before) listen()
        else if (Date.now() > due + 5000) ask() // this machine slept
        else end(new SandgateError('unavailable', 'the server does not answer'), false)
      }, answerTime)
    }
    const listen = () => {
      const before = heard
      quiet = setTimeout(() => (heard === before ? ask() : listen()), quietTime)
    }

    const message = (data: string | Uint8Array) => {
      if (over) return
      heard++
      if (welcome) {
        useful = true
        if (typeof data === 'string') this.#control(data)
        else this.#frame(data)
        return
      }
      const reply = parseReply(data)
      if (reply.error) {
        const error = fromFault(reply.error)
        return end(error, this.#final(error, !error.retryable))
      }
      if ((reply.result as { protocol?: string } | undefined)?.protocol !== subprotocol) {
        return end(new SandgateError('unsupported', `the server does not speak ${subprotocol}`), true)
      }
      welcome = true
      clearTimeout(dial)
      this.#probe = ask
      listen()
      this.#raise(socket!)
    }

    try {
      socket = this.#platform.openSocket(this.#url, who, {
        open: () => socket?.send(JSON.stringify({ id: this.#nextID++, op: 'hello', params: { client: this.#name, events: ['detached'] } })),
        message: (data) => {
          try {
            message(data)
          } catch (e) {
            useful = false
            end(asError(e, 'malformed'), false)
          }
        },
        closed: (code, reason, error) => {
          const why = error ? { error, final: false } : fromClose(code, reason)
          end(why.error, this.#final(why.error, why.final || why.error.kind === 'unsupported'))
        },
      })
    } catch (e) {
      end(asError(e, 'unavailable'), false)
    }
  }

  #final(e: SandgateError, otherwise: boolean): boolean {
    return e.kind === 'unauthenticated' || e.kind === 'permission_denied' ? this.#login.final(e) : otherwise
  }

  /** Puts a socket that has completed hello into use. */
  #raise(socket: Socket): void {
    this.#socket = socket
    this.#links++
    this.#tell({ state: 'open' })
    for (const a of [...this.#attachments.values()]) a.attach()
    this.flush()
  }

  /** Requests in progress wait for the next link, or fail. */
  #lower(cause: SandgateError): void {
    const failed: Call[] = []
    this.#unsent = []
    this.#underWay = 0
    for (const c of this.#calls.values()) {
      if (c.repeat || (!c.sent && !c.now)) {
        c.sent = false
        this.#unsent.push(c)
      } else {
        c.sent = false
        failed.push(c)
      }
    }
    for (const c of failed) this.#remove(c)
    for (const a of [...this.#attachments.values()]) a.lower()
    for (const c of failed) c.settle(undefined, unanswered(cause))
  }

  /**
   * The connection between the server and one node has ended. The channels and requests on that node
   * begin again, as after a lost connection; everything else continues.
   */
  #detached(d: Detached): void {
    const cause = fromFault(d.error)
    const channels = new Set(d.channels)
    const requests = new Set(d.requests)
    const bound = [...this.#attachments.values()].filter((a) => channels.has(a.ch))
    // The requests that are not listed were sent after the end.
    const hit = [...this.#calls.values()].filter((c) => c.sent && (requests.has(c.id) || (c.at && channels.has(c.at.ch))))
    const failed: Call[] = []
    const later = new Set<Call>()
    for (const c of hit) {
      if (c.repeat) {
        c.sent = false
        this.#underWay--
        if (!c.at) later.add(c)
      } else {
        this.#remove(c)
        if (!c.ch || !channels.has(c.ch)) failed.push(c) // otherwise its sender begins again
      }
    }
    const unsent = () => [...this.#calls.values()].filter((c) => !c.sent) // the oldest first
    this.#unsent = unsent().filter((c) => !later.has(c))
    for (const a of bound) {
      if (cause.retryable) a.lower()
      else a.fail(cause)
    }
    for (const c of failed) c.settle(undefined, unanswered(cause))
    const socket = this.#socket
    // Jitter: a thousand clients of a node that has ended must not attach at the same moment.
    setTimeout(() => {
      if (this.#socket !== socket) return // the next link begins all of it
      for (const a of bound) if (this.#attachments.get(a.ch) === a) a.attach()
      this.#unsent = unsent()
      this.flush()
    }, Math.ceil(Math.random() * this.#min) + Math.min((cause.retryAfter ?? 0) * 1000, this.#max))
  }

  #remove(c: Call): void {
    if (!this.#calls.delete(c.id)) return
    this.#callBytes -= c.body.length
    if (c.sent) this.#underWay--
  }

  /** Sends waiting requests: those of a channel once it is attached. */
  flush(): void {
    if (!this.#socket || this.#unsent.length === 0) return
    const rest: Call[] = []
    for (let i = 0; i < this.#unsent.length; i++) {
      const c = this.#unsent[i]!
      if (this.#underWay >= maxUnderWay || !this.#socket) {
        rest.push(...this.#unsent.slice(i))
        break
      }
      if (!this.#calls.has(c.id)) continue
      if (c.at && !c.at.attached) {
        rest.push(c)
        continue
      }
      c.sent = true
      this.#underWay++
      this.#socket.send(c.body)
    }
    this.#unsent = rest
  }

  /** Sends a frame, or nothing without a link: the sender learns about the loss in another way. */
  frame(b: Uint8Array): void {
    this.#socket?.send(b)
  }

  #frame(data: Uint8Array): void {
    const f = parseFrame(data)
    const a = this.#attachments.get(f.channel)
    if (f.type === frameType.records) a?.receive(f.body)
    else if (f.type === frameType.ack) a?.inputTaken(parseAck(f.body))
    // later servers may send others
  }

  #control(data: string): void {
    const reply = parseReply(data)
    if (reply.event !== undefined) {
      this.#event(reply)
      return
    }
    const c = this.#calls.get(reply.id ?? 0)
    if (!c) return
    this.#remove(c)
    if (reply.error) c.settle(undefined, fromFault(reply.error))
    else c.settle(reply.result)
    this.flush()
  }

  #event(e: Reply): void {
    const a = this.#attachments.get(e.ch ?? 0)
    if (e.event === 'error') {
      a?.inputRefused(fromFault(e.params as Fault))
    } else if (e.event === 'detached') {
      this.#detached(e.params as Detached)
    } else if (e.event === 'state') {
      try {
        this.#onSession?.(e.params as SessionState)
      } catch {
        // an error of a listener does not affect the connection
      }
    } else if (e.event === 'file' || e.event === 'presence' || e.event === 'document') {
      a?.event?.(e.event, e.params)
    } else if (e.event === 'lost') {
      const p = e.params as { session: string; reason: string; message?: string }
      const error = new SandgateError('sandbox_lost', p.message ?? `the sandbox ended: ${p.reason}`)
      for (const b of e.ch ? (a ? [a] : []) : [...this.#attachments.values()].filter((b) => b.session === p.session)) b.fail(error)
    }
  }

  /** Sends a request and waits for the reply. */
  call<T>(op: string, params: unknown, o: CallOptions = {}): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.ask<T>(op, params, o, (result, error) => (error ? reject(error) : resolve(result!)))
    })
  }

  /** Sends a request. The reply is delivered at once, before the next message is processed. */
  ask<T>(op: string, params: unknown, o: CallOptions, replied: (result: T | undefined, error?: SandgateError) => void): void {
    const refuse = (e: SandgateError) => replied(undefined, e)
    if (o.signal?.aborted) return refuse(aborted(o.signal))
    if (this.#error) return refuse(this.#error)
    if (o.now && !this.#socket) return refuse(new SandgateError('unavailable', 'there is no connection'))
    const id = this.#nextID++
    const body = JSON.stringify({
      id, op, ...(o.ch ? { ch: o.ch } : {}), ...(o.idempotencyKey ? { idempotency_key: o.idempotencyKey } : {}), params,
    })
    // A character has at most 3 bytes.
    if (body.length * 3 > limits.control && new TextEncoder().encode(body).length > limits.control) {
      return refuse(new SandgateError('too_large', `the request is over ${limits.control} bytes`))
    }
    if (this.#calls.size >= maxCalls || this.#callBytes + body.length > maxCallBytes) {
      return refuse(new SandgateError('exhausted', `${this.#calls.size} calls already wait for their replies`))
    }
    const abort = () => {
      // A call in progress keeps its place until it is answered.
      if (!c.sent) this.#remove(c)
      c.settle(undefined, aborted(o.signal!))
    }
    const c: Call = {
      id, body, repeat: o.repeat || o.idempotencyKey !== undefined, now: o.now ?? false, ch: o.now ? o.ch : undefined, at: o.at, sent: false,
      settle(result, error) {
        o.signal?.removeEventListener('abort', abort)
        c.settle = () => {}
        c.repeat = false
        replied(result as T, error)
      },
    }
    o.signal?.addEventListener('abort', abort, { once: true })
    this.#calls.set(id, c)
    this.#callBytes += body.length
    this.#unsent.push(c)
    this.start()
    this.flush()
  }

  /** Fails the calls of an attachment that has ended. */
  drop(a: Bound, error: SandgateError): void {
    this.#attachments.delete(a.ch)
    for (const c of [...this.#calls.values()]) {
      if (c.at !== a || c.sent) continue
      this.#remove(c)
      c.settle(undefined, error)
    }
    // The server's state under this number is no longer needed.
    if (a.attached) this.tell('detach', a.ch)
  }

  /** Sends a request without a reply, or nothing without a link. */
  tell(op: string, ch: number, params?: unknown): void {
    this.#socket?.send(JSON.stringify({ op, ch, params }))
  }

  /** Gives an attachment its number. */
  add<T extends Bound>(make: (ch: number) => T): T {
    if (this.#error) throw this.#error
    if (this.#attachments.size >= maxAttached) {
      throw new SandgateError('exhausted', `${maxAttached} channels are already attached on this connection`)
    }
    const a = make(this.#nextCh++)
    this.#attachments.set(a.ch, a)
    this.start()
    queueMicrotask(() => a.attach()) // after its constructor
    return a
  }
}

/** The error of a request whose reply will not come. */
function unanswered(cause: SandgateError): SandgateError {
  return new SandgateError('unavailable', 'the connection was lost before the reply; the request may or may not have been performed', { cause })
}

function parseReply(data: string | Uint8Array): Reply {
  if (typeof data !== 'string') throw new SandgateError('malformed', 'the server sent a frame where a reply was due')
  try {
    return JSON.parse(data) as Reply
  } catch (e) {
    throw new SandgateError('malformed', 'the server sent a message that is not JSON', { cause: e })
  }
}
