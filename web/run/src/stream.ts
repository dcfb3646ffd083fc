/** One event of a run, as in docs/reference/rest.md. */
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
  files?: { path: string; mime: string; url?: string; content?: string }[]
  status?: string
  exit_code?: number
  elapsed_ms?: number
  fault?: { kind: string; message: string }
}

/** Returns a run ticket that the page's server issued. */
export type Ticket = () => string | Promise<string>

/** An error before the code began, or when the connection broke. */
export class RunError extends Error {
  constructor(message: string, readonly kind: string) {
    super(message)
  }
}

// Valid tickets, by the function that returned them. Most tickets are valid for several runs.
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
      // The page cannot read the response for an expired ticket, because the origin is not allowed
      // any more.
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

/** A run under way. */
export class Run {
  #start: Event | undefined
  readonly #abort = new AbortController()

  constructor(private readonly gateway: string, private readonly ticket: Ticket) {}

  /** Yields the events; done is the last one. */
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
    return this.#tell('input', { value, eof })
  }

  /** Asks the run to stop. A second call, or a call before it has begun, aborts it. */
  stop(): void {
    const start = this.#start
    if (!start) return this.#abort.abort()
    this.#start = undefined
    this.#tell('interrupt', {}, start).catch(() => this.#abort.abort())
  }

  #tell(what: string, body: object, start = this.#start!): Promise<unknown> {
    return send(this.gateway, `/v1/run/${start.session}/${what}`, this.ticket, { channel: start.channel, cell: start.cell, ...body })
  }
}
