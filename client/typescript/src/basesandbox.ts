import type { AttachOptions } from './attachment.js'
import type { BaseClient } from './baseclient.js'
import { BaseFiles } from './basefiles.js'
import { BaseKernel, type KernelOptions } from './basekernel.js'
import type { Core } from './core.js'
import { DocumentLink, type DocumentUser } from './document.js'
import { PresenceWatch } from './presence.js'
import { BaseTerminal, openProgram, ready, type TerminalOptions } from './program.js'
import type { Abortable, ChannelInfo, Presence, SessionInfo, TerminalOpen } from './types.js'
import { Viewer } from './viewer.js'

/** A key makes a repeated open return the first one's channel. */
export interface Keyed {
  key?: string | undefined
}

/** A session, for programs that show its kernels and terminals. Sandbox has more. */
export class BaseSandbox {
  readonly id: string
  /** The last known description; see refresh. @readonly */
  info: SessionInfo
  /** The session's files. */
  readonly files: BaseFiles
  /** @internal */
  protected readonly core: Core

  /** @internal */
  constructor(core: Core, info: SessionInfo) {
    this.id = info.id
    this.info = info
    this.core = core
    this.files = new BaseFiles(core, info.id)
  }

  /** The session's name. */
  get name(): string | undefined {
    return this.info.name
  }

  /** The last known state: running, paused, hibernated, resuming or lost. */
  get state(): string {
    return this.info.state
  }

  /** The client that it uses. */
  get client(): BaseClient<BaseSandbox> {
    return this.core.client
  }

  protected get path(): string[] {
    return ['v1', 'sessions', this.id]
  }

  /** Reads the description from the server: state, expiry, use of memory and CPU. */
  async refresh(o: Abortable = {}): Promise<SessionInfo> {
    return (this.info = await this.core.ask('session.get', { session: this.id }, o))
  }

  /** Ends the session and removes everything in it. */
  async delete(o: Abortable = {}): Promise<void> {
    const { http } = this.core
    if (http.hasToken) await http.call(this.path, { method: 'DELETE', ...o })
    else await this.core.call('session.delete', { session: this.id }, o)
  }

  /** Returns its channels, oldest first. */
  async channels(o: Abortable = {}): Promise<ChannelInfo[]> {
    return (await this.core.ask('channel.list', { session: this.id }, o)).channels
  }

  /** Closes a channel and ends its programs. */
  async closeChannel(channel: string, o: Abortable = {}): Promise<void> {
    await this.core.call('channel.close', { session: this.id, channel }, o)
  }

  /**
   * Returns the kernel of a language, by name or alias, by default of the session's. All users of
   * the session share it. It is started if there is none. A key asks for a separate kernel.
   */
  async kernel(language?: string, o: KernelOptions & Keyed = {}): Promise<BaseKernel> {
    return this.attachKernel(await this.openKernel(language, o), o)
  }

  /** Opens a kernel, and returns its channel. */
  protected async openKernel(language: string | undefined, { key, signal }: Keyed & Abortable): Promise<string> {
    const params = { session: this.id, kind: 'kernel', ...(language ? { language } : {}), ...(key ? { key } : {}) }
    return (await this.core.ask('channel.open', params, { signal })).id
  }

  /** Attaches to an existing kernel. */
  async attachKernel(channel: string, o: KernelOptions = {}): Promise<BaseKernel> {
    return ready(new BaseKernel(this.core.connection, this.id, channel, o), o)
  }

  /** Opens a terminal with a shell, or with another program. */
  async terminal(p: TerminalOpen = {}, o: AttachOptions & Keyed = {}): Promise<BaseTerminal> {
    const c = await openProgram(this.core.connection, { ...p, session: this.id, kind: 'terminal', key: o.key }, o)
    const size = p.cols && p.rows ? { cols: p.cols, rows: p.rows } : undefined
    return this.attachTerminal(c.id, { ...o, size })
  }

  /** Attaches to an existing terminal; size is this viewer's. */
  async attachTerminal(channel: string, o: TerminalOptions = {}): Promise<BaseTerminal> {
    return ready(new BaseTerminal(this.core.connection, this.id, channel, o), o)
  }

  /** Reads the log of any channel. */
  async attach(channel: string, o: AttachOptions = {}): Promise<Viewer> {
    return ready(new Viewer(this.core.connection, this.id, channel, o), o)
  }

  /** Registers as present at the session, and reports who else is: now, and after each change. */
  async presence(report: (p: Presence) => void, o: Abortable & { readOnly?: boolean } = {}): Promise<PresenceWatch> {
    const { connection } = this.core
    return ready(connection.add((ch) => new PresenceWatch(connection, ch, this.id, o.readOnly ?? false, report)), o)
  }

  /**
   * Joins a document that several clients edit together, such as a notebook. client is a number
   * above 0 that no other member has.
   */
  async joinDocument(path: string, client: number, user: DocumentUser, o: Abortable = {}): Promise<DocumentLink> {
    const { connection } = this.core
    return ready(connection.add((ch) => new DocumentLink(connection, ch, this.id, path, client, user)), o)
  }
}
