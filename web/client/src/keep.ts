import type { Connection } from './connection.js'
import { put, type FileContent } from './files.js'
import type { Http } from './http.js'
import type { Platform } from './socket.js'
import type { Abortable, Lease, SnapshotInfo, TemplateInfo, VolumeInfo } from './types.js'

/** Objects that outlive sessions, and from which sessions are made. */

export class Volumes {
  readonly #connection: Connection

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection
  }

  /**
   * Creates a folder that outlives sessions. createSession with its name in volumes mounts it in a
   * session.
   */
  create(name: string, o: Abortable & { max_bytes?: number } = {}): Promise<VolumeInfo> {
    const { signal, ...more } = o
    return this.#connection.call('volume.create', { name, ...more }, { signal })
  }

  /** Returns the caller's volumes, by name. */
  async list(o: Abortable = {}): Promise<VolumeInfo[]> {
    return (await this.#connection.call<{ volumes: VolumeInfo[] }>('volume.list', {}, { ...o, repeat: true })).volumes
  }

  /** Returns one volume, measured now. */
  get(name: string, o: Abortable = {}): Promise<VolumeInfo> {
    return this.#connection.call('volume.get', { name }, { ...o, repeat: true })
  }

  /** Removes a volume that no session uses, with its content. */
  async delete(name: string, o: Abortable = {}): Promise<void> {
    await this.#connection.call('volume.delete', { name }, o)
  }

  /**
   * Takes the lease of a volume or, with a token, renews it. Fails with conflict while another
   * holder has it, or when it has expired.
   */
  lease(name: string, o: Abortable & { holder?: string; ttl_seconds?: number; token?: number } = {}): Promise<Lease> {
    const { signal, ...more } = o
    return this.#connection.call('volume.lease', { name, ...more }, { signal, repeat: o.token !== undefined })
  }

  /** Releases a lease. */
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

  /**
   * Returns the caller's snapshots, newest first. createSession with the id or name of one in
   * snapshot starts from it.
   */
  async list(o: Abortable = {}): Promise<SnapshotInfo[]> {
    return (await this.#connection.call<{ snapshots: SnapshotInfo[] }>('snapshot.list', {}, { ...o, repeat: true })).snapshots
  }

  /** Returns one snapshot, by its id or name. */
  get(snapshot: string, o: Abortable = {}): Promise<SnapshotInfo> {
    return this.#connection.call('snapshot.get', { snapshot }, { ...o, repeat: true })
  }

  /** Removes a snapshot; sessions that started from it continue. */
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
   * Stores a template's tar, which begins with template.json, and replaces an existing one of the
   * same name. The build follows the response; get reports its progress.
   */
  async build(name: string, tar: FileContent, o: Abortable & { onProgress?: (sent: number, total: number | undefined) => void } = {}): Promise<TemplateInfo> {
    return put(this.#http, this.#platform, this.#http.endpoint(['v1', 'templates', name]), { 'Content-Type': 'application/x-tar' }, tar, o)
  }

  /** Returns the caller's templates, by name. */
  async list(o: Abortable = {}): Promise<TemplateInfo[]> {
    return (await this.#connection.call<{ templates: TemplateInfo[] }>('template.list', {}, { ...o, repeat: true })).templates
  }

  /** Returns one template, with the output of its build. */
  get(name: string, o: Abortable = {}): Promise<TemplateInfo> {
    return this.#connection.call('template.get', { name }, { ...o, repeat: true })
  }

  /** Removes a template; its sessions continue. */
  async delete(name: string, o: Abortable = {}): Promise<void> {
    await this.#connection.call('template.delete', { name }, o)
  }
}
