import { Connection, type Backoff, type ConnectionState } from './connection.js'
import type { SandgateError } from './fault.js'
import { Http, Login, type Secret } from './http.js'
import { Snapshots, Templates, Volumes } from './keep.js'
import { run } from './run.js'
import { Session } from './session.js'
import type { Platform } from './socket.js'
import type { Abortable, Description, RunEvent, RunRequest, SessionCreate, SessionInfo, SessionState } from './types.js'

export interface Options {
  /** Such as http://127.0.0.1:8080. A token in its fragment (#token=…) is used. */
  url: string | URL
  /** A token, or a function that returns a token for each request and each connection. */
  token?: Secret | undefined
  /**
   * Instead of a token, only for the WebSocket: a function that returns a ticket for each
   * connection.
   */
  ticket?: Secret | undefined
  /** The name of this client. */
  name?: string | undefined
  backoff?: Backoff | undefined
  /** Called when the state of the connection changes. */
  onState?: ((s: ConnectionState) => void) | undefined
  /**
   * Called when the state of an attached session changes: hibernated, resuming with its progress,
   * running. Once for each view.
   */
  onSession?: ((s: SessionState) => void) | undefined
}

/** A client of one server: HTTP for single requests, one WebSocket for everything that streams. */
export class Sandgate {
  readonly #http: Http
  readonly #connection: Connection
  readonly #platform: Platform
  /** Folders that outlive sessions. */
  readonly volumes: Volumes
  /** Saved states of sessions, from which others can start. */
  readonly snapshots: Snapshots
  /** The templates of sessions. */
  readonly templates: Templates

  constructor(o: Options, platform: Platform) {
    this.#platform = platform
    this.#http = new Http(o.url, o.token)
    const url = this.#http.endpoint(['v1', 'ws'])
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    this.#connection = new Connection(url, new Login(this.#http, platform, o.ticket), platform, o.name ?? platform.name, o.backoff ?? {}, o.onState, o.onSession)
    this.volumes = new Volumes(this.#connection)
    this.snapshots = new Snapshots(this.#connection)
    this.templates = new Templates(this.#connection, this.#http, platform)
  }

  /** The server's address, without the token. */
  get url(): string {
    return this.#http.base.href
  }

  /** Creates a session. */
  async createSession(p: SessionCreate & Abortable = {}): Promise<Session> {
    const { signal, ...params } = p
    return this.#session(this.#http.hasToken
      ? await this.#http.call<SessionInfo>(['v1', 'sessions'], { method: 'POST', json: params, signal })
      : await this.#connection.call<SessionInfo>('session.create', params, { signal }))
  }

  /** Returns an existing session. */
  async session(id: string, o: Abortable = {}): Promise<Session> {
    return this.#session(this.#http.hasToken
      ? await this.#http.call<SessionInfo>(['v1', 'sessions', id], o)
      : await this.#connection.call<SessionInfo>('session.get', { session: id }, { ...o, repeat: true }))
  }

  /** Returns the caller's sessions, newest first. */
  async sessions(o: Abortable = {}): Promise<Session[]> {
    const { sessions } = this.#http.hasToken
      ? await this.#http.call<{ sessions: SessionInfo[] }>(['v1', 'sessions'], o)
      : await this.#connection.call<{ sessions: SessionInfo[] }>('session.list', {}, { ...o, repeat: true })
    return sessions.map((info) => this.#session(info))
  }

  #session(info: SessionInfo): Session {
    return new Session(info, this.#connection, this.#http, this.#platform)
  }

  /** Runs code once, without keeping a session. Leaving the loop ends the run. */
  run(request: RunRequest, o: Abortable = {}): AsyncGenerator<RunEvent, void, void> {
    return run(this.#http, request, o)
  }

  /** Returns what the server offers, and the scopes of these credentials. */
  describe(o: Abortable = {}): Promise<Description> {
    return this.#http.call(['v1'], o)
  }

  /**
   * Opens the WebSocket now, and not when it is first needed; resolves when the server has
   * answered.
   */
  connect(o: Abortable = {}): Promise<void> {
    return this.#connection.opened(o)
  }

  /** Reconnects now, and not after the pause. */
  reconnect(): void {
    this.#connection.wake()
  }

  /** The number of reconnections of the WebSocket. */
  get reconnects(): number {
    return this.#connection.reconnects
  }

  /** Why the WebSocket has ended permanently; undefined until then, connected or not. */
  get error(): SandgateError | undefined {
    return this.#connection.error
  }

  /** Ends the WebSocket with everything on it. Sessions continue. */
  close(): void {
    this.#connection.close()
  }
}
