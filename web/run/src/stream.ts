/** One event of a run, as docs/reference/rest.md has them. */
export interface Event {
  type: string
  session?: string
  channel?: string
  cell?: number
  text?: string
  data?: Record<string, unknown>
  display_id?: unknown
  update?: boolean
  wait?: boolean
  prompt?: string
  password?: boolean
  ename?: string
  evalue?: string
  traceback?: string[]
  bytes?: number
  status?: string
  exit_code?: number
  elapsed_ms?: number
  fault?: { kind: string; message: string }
}

/** Gets a run ticket that the host's server minted. */
export type Ticket = () => string | Promise<string>

/** What went wrong before the code began, or when the connection broke. */
export class RunError extends Error {
  constructor(message: string, readonly kind: string) {
    super(message)
  }
}

// Tickets that were good, by what gives them: most are good for several runs.
const tickets = new Map<Ticket, Promise<string>>()

async function send(gateway: string, path: string, ticket: Ticket, body: object, signal?: AbortSignal): Promise<Response> {
  for (let again = false; ; again = true) {
    let secret = tickets.get(ticket)
    const fresh = !secret
    if (!secret) {
      secret = Promise.resolve().then(ticket)
      tickets.set(ticket, secret)
    }
    let res: Response
    try {
      const token = await secret.catch((e: Error) => {
        throw new RunError(e.message, 'unauthenticated')
      })
      res = await fetch(gateway + path, {
        method: 'POST', signal: signal ?? null,
        headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', Accept: 'application/x-ndjson' },
        body: JSON.stringify(body),
      })
      if (res.ok) return res
    } catch (e) {
      tickets.delete(ticket)
      // An expired ticket's origin gets no answer that it could read.
      if (signal?.aborted || e instanceof RunError) throw e
      if (fresh || again) throw new RunError('The server cannot be reached.', 'unavailable')
      continue
    }
    if (res.status === 401) tickets.delete(ticket)
    if (res.status !== 401 || fresh || again) {
      const fault = ((await res.json().catch(() => ({}))) as { error?: { kind: string; message: string } }).error
      throw new RunError(fault?.message ?? `Status ${res.status}`, fault?.kind ?? 'internal')
    }
  }
}

/** A run that goes on. */
export class Run {
  #start: Event | undefined
  readonly #abort = new AbortController()

  constructor(private readonly gateway: string, private readonly ticket: Ticket) {}

  /** Yields what comes of it; done is the last. */
  async *events(request: object): AsyncGenerator<Event> {
    const res = await send(this.gateway, '/v1/run', this.ticket, { ...request, interactive: true }, this.#abort.signal)
    const reader = res.body!.getReader()
    const decoder = new TextDecoder()
    let held = ''
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) break
        const lines = (held + decoder.decode(value, { stream: true })).split('\n')
        held = lines.pop()!
        for (const line of lines) {
          const e = JSON.parse(line) as Event
          if (e.type === 'start') this.#start = e
          if (e.type !== 'keepalive') yield e
          if (e.type === 'done') return
        }
      }
    } finally {
      this.#abort.abort()
    }
    throw new RunError('The connection broke.', 'unavailable')
  }

  input(value: string, eof = false): Promise<unknown> {
    return this.#tell('input', { cell: this.#start!.cell, value, eof })
  }

  /** Asks it to stop; a second time, or before it has begun, gives it up. */
  stop(): void {
    const start = this.#start
    if (!start) return this.#abort.abort()
    this.#start = undefined
    this.#tell('interrupt', {}, start).catch(() => this.#abort.abort())
  }

  #tell(what: string, body: object, start = this.#start!): Promise<unknown> {
    return send(this.gateway, `/v1/run/${start.session}/${what}`, this.ticket, { channel: start.channel, ...body })
  }
}
