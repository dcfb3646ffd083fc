import type { Connection } from './connection.js'
import { put, type FileContent } from './files.js'
import type { Http } from './http.js'
import type { Platform } from './socket.js'
import type { Abortable, Lease, SnapshotInfo, TemplateInfo, VolumeInfo } from './types.js'

/** What outlives sessions, and what sessions are made from. */

export class Volumes {
  readonly #connection: Connection

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Makes a folder that outlives sessions. createSession with its name in volumes gives it to a session. */
  create(name: string, o: Abortable & { max_bytes?: number } = {}): Promise<VolumeInfo> {
    const { signal, ...more } = o
    return this.#connection.call('volume.create', { name, ...more }, { signal })
  }

  /** The caller's, by name. */
  async list(o: Abortable = {}): Promise<VolumeInfo[]> {
    return (await this.#connection.call<{ volumes: VolumeInfo[] }>('volume.list', {}, { ...o, repeat: true })).volumes
  }

  /** One, measured now. */
  get(name: string, o: Abortable = {}): Promise<VolumeInfo> {
    return this.#connection.call('volume.get', { name }, { ...o, repeat: true })
  }

  /** Removes one that no session has, and all that is in it. */
  async delete(name: string, o: Abortable = {}): Promise<void> {
    await this.#connection.call('volume.delete', { name }, o)
  }

  /** Takes its lease, or with a token renews it: a conflict while somebody else has it, or when it is over. */
  lease(name: string, o: Abortable & { holder?: string; ttl_seconds?: number; token?: number } = {}): Promise<Lease> {
    const { signal, ...more } = o
    return this.#connection.call('volume.lease', { name, ...more }, { signal, repeat: o.token !== undefined })
  }

  /** Gives a lease back. */
  async release(name: string, token: number, o: Abortable = {}): Promise<void> {
    await this.#connection.call('volume.release', { name, token }, o)
  }
}

export class Snapshots {
  readonly #connection: Connection

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** The caller's, newest first. createSession with one's id or name in snapshot goes on from it. */
  async list(o: Abortable = {}): Promise<SnapshotInfo[]> {
    return (await this.#connection.call<{ snapshots: SnapshotInfo[] }>('snapshot.list', {}, { ...o, repeat: true })).snapshots
  }

  /** One, by its id or name. */
  get(snapshot: string, o: Abortable = {}): Promise<SnapshotInfo> {
    return this.#connection.call('snapshot.get', { snapshot }, { ...o, repeat: true })
  }

  /** Removes one; sessions that began with it go on. */
  async delete(snapshot: string, o: Abortable = {}): Promise<void> {
    await this.#connection.call('snapshot.delete', { snapshot }, o)
  }
}

export class Templates {
  readonly #connection: Connection
  readonly #http: Http
  readonly #platform: Platform

  /** @internal */
  constructor(connection: Connection, http: Http, platform: Platform) {
    this.#connection = connection
    this.#http = http
    this.#platform = platform
  }

  /**
   * Stores a template's tar, which begins with template.json, in place of one
   * of its name. It is built behind the answer: get says how that goes.
   */
  async build(name: string, tar: FileContent, o: Abortable & { onProgress?: (sent: number, total: number | undefined) => void } = {}): Promise<TemplateInfo> {
    return put(this.#http, this.#platform, this.#http.endpoint(['v1', 'templates', name]), { 'Content-Type': 'application/x-tar' }, tar, o)
  }

  /** The caller's, by name. */
  async list(o: Abortable = {}): Promise<TemplateInfo[]> {
    return (await this.#connection.call<{ templates: TemplateInfo[] }>('template.list', {}, { ...o, repeat: true })).templates
  }

  /** One, with what its build has printed. */
  get(name: string, o: Abortable = {}): Promise<TemplateInfo> {
    return this.#connection.call('template.get', { name }, { ...o, repeat: true })
  }

  /** Removes one; its sessions go on. */
  async delete(name: string, o: Abortable = {}): Promise<void> {
    await this.#connection.call('template.delete', { name }, o)
  }
}
