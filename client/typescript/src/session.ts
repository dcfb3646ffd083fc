import { BaseSandbox } from './basesandbox.js'
import { Changes } from './changes.js'
import type { Core } from './core.js'
import { seconds, wholeSeconds, type Duration } from './duration.js'
import { asError } from './fault.js'
import { Files } from './files.js'
import { Services } from './services.js'
import type {
  Abortable, NewPortLink, PortInfo, PortLink, PortURL, ProcessInfo, SeriesPoint, SessionInfo,
  SessionUpdate, ShareLink, ShareLinkInfo,
} from './types.js'

/** The longest wait for a port in one request, in seconds. */
const maxWait = 300

export interface PortLinkOptions extends Abortable {
  /** Everybody who has the address may use it. Otherwise a visitor needs credentials. */
  public?: boolean | undefined
  /** The time until it expires. Never by default. */
  expires?: Duration | undefined
  /** Visitors of a public link must enter it. */
  password?: string | undefined
  /** How long a request waits for a program to listen, at most 2 min. */
  wait?: Duration | undefined
  /** Origins of other pages whose scripts may use it. */
  origins?: string[] | undefined
  /** Origins of pages that may show it in a frame. */
  frameAncestors?: string[] | undefined
  /** Text for people. */
  label?: string | undefined
}

/** The description of a session, its life, its channels and its ports. */
export abstract class Session extends BaseSandbox {
  /** The session's files. */
  override readonly files: Files
  /** The session's services. */
  readonly services: Services
  /** @internal */
  protected readonly changes: Changes

  /** @internal */
  constructor(core: Core, info: SessionInfo) {
    super(core, info)
    this.changes = new Changes(core.connection, info.id)
    this.files = new Files(core, info.id, this.changes)
    this.services = new Services(core, info.id)
  }

  /** Returns all of its processes, including those that its programs started. */
  async processes(o: Abortable = {}): Promise<ProcessInfo[]> {
    return (await this.core.ask('process.list', { session: this.id }, o)).processes
  }

  /** Sends a signal to one process of the user's. */
  async signal(pid: number, signal = 'SIGTERM', o: Abortable = {}): Promise<void> {
    await this.core.call('process.signal', { session: this.id, pid, signal }, o)
  }

  // Ports

  /** The use of the session in each minute of the last day, oldest first. */
  async series(o: { from_ms?: number; to_ms?: number } & Abortable = {}): Promise<SeriesPoint[]> {
    const { from_ms, to_ms, ...rest } = o
    return (await this.core.ask('session.series', { session: this.id, from_ms, to_ms }, rest)).points
  }

  /** The TCP ports that programs in it listen on. */
  async ports(o: Abortable = {}): Promise<PortInfo[]> {
    return (await this.core.ask('port.list', { session: this.id }, o)).ports
  }

  /** Waits until a program listens on a TCP port; by default a minute. */
  async waitPort(port: number, o: Abortable & { timeout?: Duration | undefined } = {}): Promise<PortInfo> {
    let left = seconds(o.timeout ?? 60)
    for (;;) {
      const part = Math.min(left, maxWait)
      try {
        const params = { session: this.id, port, seconds: Math.max(1, Math.round(part)) }
        return await this.core.ask('port.wait', params, o)
      } catch (e) {
        left -= part
        if (left <= 0 || o.signal?.aborted || asError(e).kind !== 'deadline_exceeded') throw e
      }
    }
  }

  /**
   * Creates a preview link: an address at which others reach a port. It stays the same while the
   * session is hibernated or moves. A request to it resumes the session.
   */
  portLink(port: number, o: PortLinkOptions = {}): Promise<NewPortLink> {
    return this.core.http.create([...this.path, 'ports', String(port), 'links'], {
      visibility: o.public ? 'public' : 'private', expires_seconds: wholeSeconds(o.expires, 'expires'),
      password: o.password, wait_seconds: wholeSeconds(o.wait, 'wait'), origins: o.origins,
      frame_ancestors: o.frameAncestors, label: o.label,
    }, o)
  }

  /** Returns the address of a new preview link. */
  async url(port: number, o: PortLinkOptions = {}): Promise<string> {
    return (await this.portLink(port, o)).url!
  }

  /** Returns the valid preview links, oldest first. */
  async portLinks({ signal }: Abortable = {}): Promise<PortLink[]> {
    const params = { id: this.id }
    return (await this.core.request('GET /v1/sessions/{id}/ports/links', { params, signal })).links
  }

  /** Revokes a preview link, and cuts the connections through it. */
  async deletePortLink(link: string, { signal }: Abortable = {}): Promise<void> {
    const params = { id: this.id, link }
    await this.core.request('DELETE /v1/sessions/{id}/ports/links/{link}', { params, signal })
  }

  /**
   * Returns the address at which programs with a token reach a port over HTTP. The rest of the path
   * goes to the program.
   */
  portUrl(port: number): string {
    return this.core.http.endpoint([...this.path, 'ports', String(port)], {}, true).href
  }

  /**
   * Returns an address that opens a port in a browser, once and soon; with embed also in a frame of
   * another site.
   */
  async browserUrl(port: number, o: Abortable & { embed?: boolean } = {}): Promise<string> {
    const { signal, ...more } = o
    const { url } = await this.core.http.call<PortURL>([...this.path, 'ports'], { method: 'POST', json: { port, ...more }, signal })
    return url.startsWith('/') ? this.core.http.base.href.replace(/\/$/, '') + url : url
  }

  // Life

  /** Freezes it in memory. Work in it resumes it. */
  async pause(o: Abortable = {}): Promise<SessionInfo> {
    return (this.info = await this.core.call('session.pause', { session: this.id }, o))
  }

  /**
   * Writes it to disk, where it uses no memory. Work in it resumes it; with suspend only resume does,
   * and other work in it is a conflict until then.
   */
  async hibernate(o: Abortable & { suspend?: boolean } = {}): Promise<SessionInfo> {
    const p = { session: this.id, ...(o.suspend ? { suspend: true } : {}) }
    return (this.info = await this.core.call('session.hibernate', p, o))
  }

  /** Resumes it when it is paused, hibernated or suspended. */
  async resume(o: Abortable = {}): Promise<SessionInfo> {
    return (this.info = await this.core.ask('session.resume', { session: this.id }, o))
  }

  /** Changes its name, its labels, its policy or its lifetime. */
  async update(p: SessionUpdate, o: Abortable = {}): Promise<SessionInfo> {
    return (this.info = await this.core.ask('session.update', { session: this.id, ...p }, o))
  }

  /** Makes it count as busy for some time from now. */
  async keepalive(duration: Duration, o: Abortable = {}): Promise<SessionInfo> {
    const params = { session: this.id, seconds: wholeSeconds(duration, 'duration') }
    return (this.info = await this.core.ask('session.keepalive', params, o))
  }

  // Sharing

  /** Creates a share link, with which others can watch the session and do nothing else. */
  share(o: Abortable & { expires?: Duration | undefined } = {}): Promise<ShareLink> {
    return this.core.http.create([...this.path, 'links'], { expires_seconds: wholeSeconds(o.expires ?? '1h', 'expires') }, o)
  }

  /** Returns the valid share links, oldest first. */
  async shares({ signal }: Abortable = {}): Promise<ShareLinkInfo[]> {
    return (await this.core.request('GET /v1/sessions/{id}/links', { params: { id: this.id }, signal })).links
  }

  /** Revokes a share link. */
  async unshare(link: string, o: Abortable = {}): Promise<void> {
    await this.core.http.call([...this.path, 'links', link], { method: 'DELETE', ...o })
  }

  /** Returns the output that a channel's log still has, as plain text. */
  async text(channel: string, o: Abortable & { cell?: number } = {}): Promise<string> {
    const res = await this.core.http.send([...this.path, 'channels', channel, 'text'], { query: { cell: o.cell }, signal: o.signal })
    return res.text()
  }

  /** Returns the output that a channel's log still has, as an asciicast of version 2. */
  async recording(channel: string, o: Abortable & { cell?: number } = {}): Promise<Uint8Array> {
    const res = await this.core.http.send([...this.path, 'channels', channel, 'cast'], { query: { cell: o.cell }, signal: o.signal })
    return new Uint8Array(await res.arrayBuffer())
  }
}
