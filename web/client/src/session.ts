import type { AttachOptions } from './attachment.js'
import type { Connection } from './connection.js'
import { orAborted } from './fault.js'
import { download, downloadTree, upload, uploadTree, type Download, type DownloadOptions, type FileContent, type UploadOptions } from './files.js'
import { FileWatch } from './filewatch.js'
import type { Http } from './http.js'
import { Kernel, type KernelOptions } from './kernel.js'
import { newKey } from './key.js'
import { Process, Terminal, type TerminalOptions } from './program.js'
import { PresenceWatch } from './presence.js'
import type { Platform } from './socket.js'
import type {
  Abortable, ChannelInfo, FileInfo, PortInfo, PortURL, Presence, ProcessInfo, ProgramStart, SessionInfo, SessionUpdate, SnapshotInfo, TerminalOpen, TreeInfo,
} from './types.js'
import { Viewer } from './viewer.js'

/** A key makes a repeated open return the first one's channel. */
export interface Keyed {
  key?: string | undefined
}

/** A user's session. It outlives connections and pages. */
export class Session {
  readonly id: string
  /** The last known description; see refresh. @readonly */
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

  /** Ends the session and removes everything in it. */
  async delete(o: Abortable = {}): Promise<void> {
    if (this.#http.hasToken) await this.#http.call(['v1', 'sessions', this.id], { method: 'DELETE', ...o })
    else await this.#connection.call('session.delete', { session: this.id }, o)
  }

  /** Returns its channels, oldest first. */
  async channels(o: Abortable = {}): Promise<ChannelInfo[]> {
    return (await this.#connection.call<{ channels: ChannelInfo[] }>('channel.list', { session: this.id }, { ...o, repeat: true })).channels
  }

  /** Closes a channel and ends its programs. */
  async closeChannel(id: string, o: Abortable = {}): Promise<void> {
    await this.#connection.call('channel.close', { session: this.id, channel: id }, o)
  }

  /**
   * Returns the session's kernel of a language, by default of its own language. It is started if
   * there is none. With a key, the kernel of that key.
   */
  async openKernel(language?: string, o: KernelOptions & Keyed = {}): Promise<Kernel> {
    const { key, ...more } = o
    const wanted = language ?? this.info.language
    if (!key) {
      const open = (await this.channels(o)).find((c) => c.kind === 'kernel' && c.language === wanted && c.state !== 'exited')
      if (open) return this.kernel(open.id, more)
    }
    // Two pages that ask at the same time get the same kernel.
    const c = await this.#open({ kind: 'kernel', language: wanted, key: key ?? `kernel-${wanted}` }, o)
    return this.kernel(c.id, more)
  }

  /** Attaches to an existing kernel. */
  async kernel(channel: string, o: KernelOptions = {}): Promise<Kernel> {
    return ready(new Kernel(this.#connection, this.id, channel, o), o)
  }

  /** Starts a program and follows its output from the first byte. */
  async start(p: ProgramStart, o: AttachOptions & Keyed = {}): Promise<Process> {
    const c = await this.#open({ ...p, kind: 'process', key: o.key }, o)
    return this.process(c.id, o)
  }

  /** Attaches to an existing process. Input that several clients send at the same time is mixed. */
  async process(channel: string, o: AttachOptions = {}): Promise<Process> {
    return ready(new Process(this.#connection, this.id, channel, o), o)
  }

  /** Opens a terminal with a shell, or another program. */
  async openTerminal(p: TerminalOpen = {}, o: AttachOptions & Keyed = {}): Promise<Terminal> {
    const c = await this.#open({ ...p, kind: 'terminal', key: o.key }, o)
    const size = p.cols && p.rows ? { cols: p.cols, rows: p.rows } : undefined
    return this.terminal(c.id, { ...o, size })
  }

  /** Attaches to an existing terminal; size is this viewer's. */
  async terminal(channel: string, o: TerminalOptions = {}): Promise<Terminal> {
    return ready(new Terminal(this.#connection, this.id, channel, o), o)
  }

  /** Reads the log of any channel. */
  async attach(channel: string, o: AttachOptions = {}): Promise<Viewer> {
    return ready(new Viewer(this.#connection, this.id, channel, o), o)
  }

  /**
   * Writes a file, completely or not at all. Paths are relative to the user's home unless absolute.
   */
  upload(path: string, content: FileContent, o: UploadOptions = {}): Promise<FileInfo> {
    return upload(this.#http, this.#platform, this.id, path, content, o)
  }

  /** Reads a file, or a part of it. */
  download(path: string, o: DownloadOptions = {}): Promise<Download> {
    return download(this.#http, this.id, path, o)
  }

  /** Describes a path. */
  stat(path: string, o: Abortable = {}): Promise<FileInfo> {
    return this.#connection.call('file.stat', { session: this.id, path }, { ...o, repeat: true })
  }

  /**
   * Iterates over the entries of a folder, sorted by the bytes of their names. Pages are loaded as
   * needed.
   */
  async *list(path: string, o: Abortable = {}): AsyncGenerator<FileInfo, void, void> {
    let after: string | undefined
    do {
      const page: { entries: FileInfo[]; next?: string } = await this.#connection.call('file.list', { session: this.id, path, after }, { ...o, repeat: true })
      yield* page.entries
      after = page.next
    } while (after)
  }

  /** Creates a folder and its parents. */
  mkdir(path: string, o: Abortable = {}): Promise<FileInfo> {
    return this.#connection.call('file.mkdir', { session: this.id, path }, o)
  }

  /** Moves a file or a folder. An existing destination is only replaced with overwrite. */
  move(path: string, to: string, o: Abortable & { overwrite?: boolean } = {}): Promise<FileInfo> {
    const { signal, ...more } = o
    return this.#connection.call('file.move', { session: this.id, path, to, ...more }, { signal })
  }

  /** Copies a file, or a folder with its content. */
  copy(path: string, to: string, o: Abortable & { overwrite?: boolean } = {}): Promise<FileInfo> {
    const { signal, ...more } = o
    return this.#connection.call('file.copy', { session: this.id, path, to, ...more }, { signal })
  }

  /** Removes a file, a link or a folder. A folder that is not empty needs recursive. */
  async remove(path: string, o: Abortable & { recursive?: boolean } = {}): Promise<void> {
    const { signal, ...more } = o
    await this.#connection.call('file.remove', { session: this.id, path, ...more }, { signal })
  }

  /**
   * Unpacks a tar archive into a folder. Each file appears completely or not at all. After an
   * error, the files before it exist.
   */
  uploadTree(path: string, tar: FileContent, o: UploadOptions = {}): Promise<TreeInfo> {
    return uploadTree(this.#http, this.#platform, this.id, path, tar, o)
  }

  /** Reads a folder with its content as an archive. */
  downloadTree(path: string, form: 'tar' | 'zip' = 'tar', o: Abortable = {}): Promise<Download> {
    return downloadTree(this.#http, this.id, path, form, o)
  }

  /** Reports changes in a folder, or of a file. */
  async watch(path: string, o: Abortable & { recursive?: boolean } = {}): Promise<FileWatch> {
    return ready(this.#connection.add((ch) => new FileWatch(this.#connection, ch, { session: this.id, path, recursive: o.recursive ?? false })), o)
  }

  /** Registers as present at the session, and reports who else is: now, and after each change. */
  async presence(tell: (p: Presence) => void, o: Abortable & { readOnly?: boolean } = {}): Promise<PresenceWatch> {
    return ready(this.#connection.add((ch) => new PresenceWatch(this.#connection, ch, this.id, o.readOnly ?? false, tell)), o)
  }

  /**
   * Makes copies of the session, in which all its programs continue. Either all are made, or none.
   */
  async fork(o: Abortable & { count?: number; name?: string; lifetime_seconds?: number } = {}): Promise<Session[]> {
    const { signal, ...more } = o
    const { sessions } = await this.#connection.call<{ sessions: SessionInfo[] }>('session.fork', { session: this.id, ...more }, { signal })
    return sessions.map((info) => new Session(info, this.#connection, this.#http, this.#platform))
  }

  /**
   * Saves its present state, from which createSession with snapshot can start. The session
   * continues.
   */
  snapshot(o: Abortable & { name?: string; expires_seconds?: number } = {}): Promise<SnapshotInfo> {
    const { signal, ...more } = o
    return this.#connection.call('session.snapshot', { session: this.id, ...more }, { signal })
  }

  /** Freezes it in memory. Work in it resumes it. */
  async pause(o: Abortable = {}): Promise<SessionInfo> {
    return (this.info = await this.#connection.call<SessionInfo>('session.pause', { session: this.id }, o))
  }

  /** Writes it to disk, where it uses no memory. Work in it resumes it. */
  async hibernate(o: Abortable = {}): Promise<SessionInfo> {
    return (this.info = await this.#connection.call<SessionInfo>('session.hibernate', { session: this.id }, o))
  }

  /** Resumes it, as any work in it would. */
  async resume(o: Abortable = {}): Promise<SessionInfo> {
    return (this.info = await this.#connection.call<SessionInfo>('session.resume', { session: this.id }, { ...o, repeat: true }))
  }

  /** Changes its name, its policy or its lifetime. */
  async update(p: SessionUpdate, o: Abortable = {}): Promise<SessionInfo> {
    return (this.info = await this.#connection.call<SessionInfo>('session.update', { session: this.id, ...p }, { ...o, repeat: true }))
  }

  /** Makes it count as busy for some seconds from now. */
  async keepAlive(seconds: number, o: Abortable = {}): Promise<SessionInfo> {
    return (this.info = await this.#connection.call<SessionInfo>('session.keepalive', { session: this.id, seconds }, { ...o, repeat: true }))
  }

  /** Returns all of its processes, including those that its programs started. */
  async processes(o: Abortable = {}): Promise<ProcessInfo[]> {
    return (await this.#connection.call<{ processes: ProcessInfo[] }>('process.list', { session: this.id }, { ...o, repeat: true })).processes
  }

  /** Sends a signal, such as SIGTERM, to one process of the user's. */
  async signal(pid: number, signal: string, o: Abortable = {}): Promise<void> {
    await this.#connection.call('process.signal', { session: this.id, pid, signal }, o)
  }

  /** The TCP ports that programs in it listen on. */
  async ports(o: Abortable = {}): Promise<PortInfo[]> {
    return (await this.#connection.call<{ ports: PortInfo[] }>('port.list', { session: this.id }, { ...o, repeat: true })).ports
  }

  /**
   * Returns an address that opens a port in a browser, once and soon; with embed also in a frame of
   * another site.
   */
  async openPort(port: number, o: Abortable & { embed?: boolean } = {}): Promise<PortURL> {
    const { signal, ...more } = o
    const u = await this.#http.call<PortURL>(['v1', 'sessions', this.id, 'ports'], { method: 'POST', json: { port, ...more }, signal })
    return { ...u, url: u.url.startsWith('/') ? this.#http.base.href.replace(/\/$/, '') + u.url : u.url }
  }

  /**
   * Returns the address at which programs with a token reach a port over HTTP. The rest of the path
   * goes to the program.
   */
  portAddress(port: number): string {
    return this.#http.endpoint(['v1', 'sessions', this.id, 'ports', String(port)], {}, true).href
  }

  #open(p: Record<string, unknown> & Keyed, { signal }: Abortable): Promise<ChannelInfo> {
    return this.#connection.call('channel.open', { ...p, session: this.id, key: p.key ?? newKey() }, { signal, repeat: true })
  }
}

/** Waits for the first attach; after that, aborting signal ends the view. */
async function ready<T extends { ready: Promise<void>; close(): void }>(view: T, { signal }: Abortable): Promise<T> {
  const attached = orAborted(view.ready, signal)
  const close = () => view.close()
  if (signal?.aborted) close()
  signal?.addEventListener('abort', close, { once: true })
  await attached
  return view
}
