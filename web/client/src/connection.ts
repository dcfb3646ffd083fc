import { aborted, asError, fromClose, fromFault, orAborted, SandgateError, type Fault } from './fault.js'
import { frameType, limits, parseAck, parseFrame } from './frame.js'
import type { Login } from './http.js'
import { subprotocol, type Platform, type Socket } from './socket.js'
import type { Abortable, SessionState } from './types.js'

/** Limits and times of a connection. */
const maxCalls = 4096 // calls that wait for their replies
const maxCallBytes = 64 << 20 // and their size together
const maxUnderWay = 60 // of which so many are with the server, which takes 64
const maxAttached = 256
const dialTime = 10_000 // ms: credentials, upgrade and hello together
const quietTime = 15_000 // ms without a message until the server is asked for one
const answerTime = 10_000 // ms that it has for that

export interface Backoff {
  /** The pause before the first reconnect, in ms; each further one may be twice as long. 100 if left out. */
  min?: number
  /** The longest, in ms. 10,000 if left out. There is no limit on tries. */
  max?: number
}

export type ConnectionState =
  | { state: 'connecting'; tries: number }
  | { state: 'open' }
  /** Not connected; the next try is in so many ms, or with reconnect(). */
  | { state: 'waiting'; tries: number; ms: number; error: SandgateError }
  /** For good. */
  | { state: 'closed'; error: SandgateError }

/** What has a number of its own on the connection, and is begun anew on each link. */
export interface Bound {
  readonly ch: number
  readonly session: string
  /** Whether the server knows of it on this link. */
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

interface Call {
  id: number
  body: string
  /** Sending it twice does no harm. */
  repeat: boolean
  /** It is of no use on another link. */
  now: boolean
  /** It goes out once this is attached. */
  at: Bound | undefined
  sent: boolean
  settle(result: unknown, error?: SandgateError): void
}

export interface CallOptions extends Abortable {
  ch?: number | undefined
  at?: Bound
  repeat?: boolean
  /** For this link and no other: it fails when there is none. */
  now?: boolean
}

/** One WebSocket at a time, for ever, until closed or told that it is of no use. */
export class Connection {
  readonly #url: URL
  readonly #login: Login
  readonly #platform: Platform
  readonly #name: string
  readonly #min: number
  readonly #max: number
  readonly #onState: ((s: ConnectionState) => void) | undefined
  readonly #onSession: ((s: SessionState) => void) | undefined

  #socket: Socket | undefined // one that has said hello
  #started = false
  #error: SandgateError | undefined
  #calls = new Map<number, Call>() // by age
  #callBytes = 0
  #unsent: Call[] = [] // by age
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

  /** Why it has ended; undefined while it lives, connected or not. */
  get error(): SandgateError | undefined {
    return this.#error
  }

  /** How many times it was made anew. */
  get reconnects(): number {
    return Math.max(0, this.#links - 1)
  }

  get connected(): boolean {
    return this.#socket !== undefined
  }

  /** Begins, if it has not. */
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

  /** Tries now, if it waits for the next try; otherwise asks whether the server is there. */
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
      // A listener's failure is its own.
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
      // Full jitter: a thousand clients of a server that restarts must not
      // come back in one beat.
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

  /** Makes one link and serves it until it ends. */
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
      // A browser may wait long for a goodbye that a dead network never brings.
      socket?.close(error.kind === 'malformed' ? 3501 : 1000, error.kind === 'malformed' ? 'malformed' : '')
      this.#lower(error)
      resolve({ useful, error, final })
    }
    stop.signal.addEventListener('abort', () => {
      const error = aborted(stop.signal)
      end(error.kind === 'deadline_exceeded' ? new SandgateError('unavailable', 'the server did not say hello in time') : error, false)
    })

    // The server pings every 25 s, but a page does not see that. A second
    // hello is refused by the gateway itself and costs nobody else anything.
    const ask = () => {
      clearTimeout(quiet)
      const before = heard
      const due = Date.now() + answerTime
      socket?.send(JSON.stringify({ id: this.#nextID++, op: 'hello' }))
      quiet = setTimeout(() => {
        if (heard !== before) listen()
        else if (Date.now() > due + 5000) ask() // this side slept
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
        open: () => socket?.send(JSON.stringify({ id: this.#nextID++, op: 'hello', params: { client: this.#name } })),
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

  /** Takes a socket that has said hello into use. */
  #raise(socket: Socket): void {
    this.#socket = socket
    this.#links++
    this.#tell({ state: 'open' })
    for (const a of [...this.#attachments.values()]) a.attach()
    this.flush()
  }

  /** What is under way when a link is lost waits for the next one, or fails. */
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
    for (const c of failed) {
      c.settle(undefined, new SandgateError('unavailable', 'the connection was lost before the reply came; it may or may not have been done', { cause }))
    }
  }

  #remove(c: Call): void {
    if (!this.#calls.delete(c.id)) return
    this.#callBytes -= c.body.length
    if (c.sent) this.#underWay--
  }

  /** Sends what waits and may go: calls of a channel once it is attached. */
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

  /** Sends a frame, or nothing when there is no link: whoever sends it notices the loss by other means. */
  frame(b: Uint8Array): void {
    this.#socket?.send(b)
  }

  #frame(data: Uint8Array): void {
    const f = parseFrame(data)
    const a = this.#attachments.get(f.channel)
    if (f.type === frameType.records) a?.receive(f.body)
    else if (f.type === frameType.ack) a?.inputTaken(parseAck(f.body))
    // Others may come with later servers.
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
    } else if (e.event === 'state') {
      try {
        this.#onSession?.(e.params as SessionState)
      } catch {
        // A listener's failure is its own.
      }
    } else if (e.event === 'file' || e.event === 'presence') {
      a?.event?.(e.event, e.params)
    } else if (e.event === 'lost') {
      const p = e.params as { session: string; reason: string; message?: string }
      const error = new SandgateError('sandbox_lost', p.message ?? `the sandbox ended: ${p.reason}`)
      for (const b of e.ch ? (a ? [a] : []) : [...this.#attachments.values()].filter((b) => b.session === p.session)) b.fail(error)
    }
  }

  /** Asks and waits for the reply. */
  call<T>(op: string, params: unknown, o: CallOptions = {}): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.ask<T>(op, params, o, (result, error) => (error ? reject(error) : resolve(result!)))
    })
  }

  /** Asks; the reply is told at once, before the message behind it is looked at. */
  ask<T>(op: string, params: unknown, o: CallOptions, told: (result: T | undefined, error?: SandgateError) => void): void {
    const refuse = (e: SandgateError) => told(undefined, e)
    if (o.signal?.aborted) return refuse(aborted(o.signal))
    if (this.#error) return refuse(this.#error)
    if (o.now && !this.#socket) return refuse(new SandgateError('unavailable', 'there is no connection'))
    const id = this.#nextID++
    const body = JSON.stringify({ id, op, ...(o.ch ? { ch: o.ch } : {}), params })
    // A character has at most 3 bytes.
    if (body.length * 3 > limits.control && new TextEncoder().encode(body).length > limits.control) {
      return refuse(new SandgateError('too_large', `the request is over ${limits.control} bytes`))
    }
    if (this.#calls.size >= maxCalls || this.#callBytes + body.length > maxCallBytes) {
      return refuse(new SandgateError('exhausted', `${this.#calls.size} calls wait for their replies already`))
    }
    const abort = () => {
      // One that is under way keeps its place until it is answered.
      if (!c.sent) this.#remove(c)
      c.settle(undefined, aborted(o.signal!))
    }
    const c: Call = {
      id, body, repeat: o.repeat ?? false, now: o.now ?? false, at: o.at, sent: false,
      settle(result, error) {
        o.signal?.removeEventListener('abort', abort)
        c.settle = () => {}
        c.repeat = false
        told(result as T, error)
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
    // What the server holds under this number is of no use any more.
    if (a.attached) this.tell('detach', a.ch)
  }

  /** Asks for something that has no reply, or nothing when there is no link. */
  tell(op: string, ch: number, params?: unknown): void {
    this.#socket?.send(JSON.stringify({ op, ch, params }))
  }

  /** Gives an attachment its number. */
  add<T extends Bound>(make: (ch: number) => T): T {
    if (this.#error) throw this.#error
    if (this.#attachments.size >= maxAttached) {
      throw new SandgateError('exhausted', `${maxAttached} channels are attached over this connection already`)
    }
    const a = make(this.#nextCh++)
    this.#attachments.set(a.ch, a)
    this.start()
    queueMicrotask(() => a.attach()) // once its maker is made
    return a
  }
}

function parseReply(data: string | Uint8Array): Reply {
  if (typeof data !== 'string') throw new SandgateError('malformed', 'the server sent a frame where a reply was due')
  try {
    return JSON.parse(data) as Reply
  } catch (e) {
    throw new SandgateError('malformed', 'the server sent a message that is no JSON', { cause: e })
  }
}
