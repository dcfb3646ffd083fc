import type { AttachOptions } from './attachment.js'
import type { Connection } from './connection.js'
import { orAborted } from './fault.js'
import { download, upload, type Download, type FileContent, type UploadOptions } from './files.js'
import type { Http } from './http.js'
import { Kernel, type KernelOptions } from './kernel.js'
import { newKey } from './key.js'
import { Process, Terminal, type TerminalOptions } from './program.js'
import type { Platform } from './socket.js'
import type { Abortable, ChannelInfo, FileInfo, ProgramStart, SessionInfo, TerminalOpen } from './types.js'
import { Viewer } from './viewer.js'

/** Makes a repeated open return the channel that the first one made. */
export interface Keyed {
  key?: string | undefined
}

/** What a user holds and comes back to; it outlives connections and pages. */
export class Session {
  readonly id: string
  /** As it was when it was asked for last; see refresh. @readonly */
  info: SessionInfo
  readonly #connection: Connection
  readonly #http: Http
  readonly #platform: Platform

  /** @internal */
  constructor(info: SessionInfo, connection: Connection, http: Http, platform: Platform) {
    this.id = info.id
    this.info = info
    this.#connection = connection
    this.#http = http
    this.#platform = platform
  }

  async refresh(o: Abortable = {}): Promise<SessionInfo> {
    this.info = await this.#connection.call<SessionInfo>('session.get', { session: this.id }, { ...o, repeat: true })
    return this.info
  }

  /** Ends it and removes all that is in it. */
  async delete(o: Abortable = {}): Promise<void> {
    if (this.#http.hasToken) await this.#http.call(['v1', 'sessions', this.id], { method: 'DELETE', ...o })
    else await this.#connection.call('session.delete', { session: this.id }, o)
  }

  /** Its channels, oldest first. */
  async channels(o: Abortable = {}): Promise<ChannelInfo[]> {
    return (await this.#connection.call<{ channels: ChannelInfo[] }>('channel.list', { session: this.id }, { ...o, repeat: true })).channels
  }

  /** Ends a channel and what runs in it. */
  async closeChannel(id: string, o: Abortable = {}): Promise<void> {
    await this.#connection.call('channel.close', { session: this.id, channel: id }, o)
  }

  /**
   * The session's kernel of a language, which is made if there is none; of its
   * own language if left out. With a key, the kernel of that key.
   */
  async openKernel(language?: string, o: KernelOptions & Keyed = {}): Promise<Kernel> {
    const { key, ...more } = o
    const wanted = language ?? this.info.language
    if (!key) {
      const open = (await this.channels(o)).find((c) => c.kind === 'kernel' && c.language === wanted && c.state !== 'exited')
      if (open) return this.kernel(open.id, more)
    }
    // Two pages that ask at the same time get the same one.
    const c = await this.#open({ kind: 'kernel', language: wanted, key: key ?? `kernel-${wanted}` }, o)
    return this.kernel(c.id, more)
  }

  /** A kernel that is there. */
  async kernel(channel: string, o: KernelOptions = {}): Promise<Kernel> {
    return ready(new Kernel(this.#connection, this.id, channel, o), o)
  }

  /** Starts a program and follows it from its first byte. */
  async start(p: ProgramStart, o: AttachOptions & Keyed = {}): Promise<Process> {
    const c = await this.#open({ ...p, kind: 'process', key: o.key }, o)
    return this.process(c.id, o)
  }

  /** A program that is there. Input that other clients send at the same time mixes with this one's. */
  async process(channel: string, o: AttachOptions = {}): Promise<Process> {
    return ready(new Process(this.#connection, this.id, channel, o), o)
  }

  /** Opens a terminal with a shell, or another program. */
  async openTerminal(p: TerminalOpen = {}, o: AttachOptions & Keyed = {}): Promise<Terminal> {
    const c = await this.#open({ ...p, kind: 'terminal', key: o.key }, o)
    const size = p.cols && p.rows ? { cols: p.cols, rows: p.rows } : undefined
    return this.terminal(c.id, { ...o, size })
  }

  /** A terminal that is there; size is this viewer's. */
  async terminal(channel: string, o: TerminalOptions = {}): Promise<Terminal> {
    return ready(new Terminal(this.#connection, this.id, channel, o), o)
  }

  /** The log of any channel. */
  async attach(channel: string, o: AttachOptions = {}): Promise<Viewer> {
    return ready(new Viewer(this.#connection, this.id, channel, o), o)
  }

  /** Writes a file, whole or not at all. Paths are relative to the user's home unless absolute. */
  upload(path: string, content: FileContent, o: UploadOptions = {}): Promise<FileInfo> {
    return upload(this.#http, this.#platform, this.id, path, content, o)
  }

  /** Reads a file. */
  download(path: string, o: Abortable = {}): Promise<Download> {
    return download(this.#http, this.id, path, o)
  }

  /** What a path is. */
  stat(path: string, o: Abortable = {}): Promise<FileInfo> {
    return this.#connection.call('file.stat', { session: this.id, path }, { ...o, repeat: true })
  }

  #open(p: Record<string, unknown> & Keyed, { signal }: Abortable): Promise<ChannelInfo> {
    return this.#connection.call('channel.open', { ...p, session: this.id, key: p.key ?? newKey() }, { signal, repeat: true })
  }
}

/** Waits for the first attach; signal then ends the view whenever it is aborted. */
async function ready<T extends { ready: Promise<void>; close(): void }>(view: T, { signal }: Abortable): Promise<T> {
  const attached = orAborted(view.ready, signal)
  const close = () => view.close()
  if (signal?.aborted) close()
  signal?.addEventListener('abort', close, { once: true })
  await attached
  return view
}
