import type { CellEvent, CommContent, Kernel, SandgateError } from '@sandgate/client/base'
import { draw } from '../frames'
import { base64 } from '../rich'
import { Captured, Captures } from './captured'
import { Echoes } from './echo'
import { toBase64 } from './encode'
import { Links } from './links'
import { Member, type Peer } from './member'
import { merge, partOf, statesOf, whole, without, type Model, type Part } from './state'

/** The limits of the states that a page keeps. Others can be requested from the kernel again. */
const maxModels = 10_000
const maxBytes = 128 << 20
/** The pause after which the outputs of an Output widget are sent to the kernel, in milliseconds. */
const saveAfter = 400
/** Errors after which the kernel has no widgets. */
const ends: ReadonlySet<string> = new Set(['kernel_died', 'sandbox_lost', 'not_found', 'conflict'])

/** The functions of a kernel that its widgets use. */
export interface Line {
  readOnly: boolean
  /** Resolves with the kernel once the notebook has found it. Starts none. */
  kernel(): Promise<Kernel | undefined>
  idle(): boolean
  /** Passes on everything in the kernel's log, from its beginning. */
  replay(to: (e: CellEvent) => void): Promise<void>
}

export type CommEvent = Extract<CellEvent, { type: 'comm_open' | 'comm_msg' | 'comm_close' }>

export function isComm(e: CellEvent): e is CommEvent {
  return e.type === 'comm_open' || e.type === 'comm_msg' || e.type === 'comm_close'
}

interface Entry extends Model {
  /** The approximate size. */
  bytes: number
  echoes: Echoes
  captured?: Captured | undefined
}

/** A message of a frame was not sent. The reason is for the frame's console. */
class Refused extends Error {}

/** All widgets of a kernel: the states of their models, and the frames that show them. */
export class WidgetHost {
  readonly #line: Line
  readonly #models = new Map<string, Entry>()
  readonly #members = new Set<Member>()
  readonly #captures = new Captures()
  readonly #links = new Links()
  #bytes = 0
  #fetching: Promise<void> | undefined
  #replaying = false
  readonly #unsaved = new Set<string>()
  readonly #due = new Set<string>()
  /** Models that the program closed. */
  readonly #dead = new Set<string>()
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(line: Line) {
    this.#line = line
  }

  get readOnly(): boolean {
    return this.#line.readOnly
  }

  // --- from the kernel ---

  /**
   * Handles an event of the kernel's log. Returns true if it is a widget's, so that no cell shows it.
   */
  receive(e: CellEvent): boolean {
    if (isComm(e)) {
      this.#capture(e, this.#captures)
      if (!this.#replaying) this.#comm(e)
      return true
    }
    if (e.type === 'gap') {
      void this.#missed().catch(() => {})
      return false
    }
    const id = this.#captures.of(e.cell)
    if (id === undefined) return false
    if (this.#replaying) return new Captured([]).add(e)
    return this.#output(id, e)
  }

  /** The kernel has ended or was restarted: it knows none of the models any more. */
  gone(): void {
    this.#models.clear()
    this.#captures.clear()
    this.#links.clear()
    this.#unsaved.clear()
    this.#dead.clear()
    this.#bytes = 0
    for (const m of [...this.#members]) m.end('gone')
    this.#members.clear()
  }

  #capture(e: CommEvent, captures: Captures): void {
    const state = e.type === 'comm_close' ? { msg_id: '' } : partOf(e)?.state
    if (state) captures.update(e.comm_id, state)
  }

  #comm(e: CommEvent): void {
    if (e.type === 'comm_close') return this.#closed(e.comm_id)
    if (e.type === 'comm_msg' && e.data?.method === 'update_states') return this.#states(e)
    if (e.type === 'comm_msg' && e.data?.method === 'custom') return this.#deliver(e.comm_id, { method: 'custom', content: e.data.content }, e.buffers ?? [])
    const part = partOf(e)
    if (!part) return
    if (e.type === 'comm_msg' && e.data?.method === 'echo_update') this.#echo(e.comm_id, part)
    else this.#update(e.comm_id, part)
  }

  /** A viewer has changed the model. */
  #echo(id: string, part: Part): void {
    const known = this.#models.get(id)
    const old = known?.echoes.old(part.state, Date.now()) ?? new Set()
    // This page has the same output in its own log.
    if (known?.captured) old.add('outputs')
    const fresh = without(part, old)
    if (Object.keys(fresh.state).length > 0) this.#update(id, fresh)
  }

  #update(id: string, part: Part): void {
    const known = this.#models.get(id)
    const m = known ?? this.#fresh(id)
    if (m.complete) {
      if (m.captured && 'outputs' in part.state) m.captured = new Captured(part.state.outputs)
      this.#keep(m, part)
      this.#deliver(id, { method: 'update', state: part.state, buffer_paths: part.paths }, part.buffers)
      return
    }
    m.complete = whole(part.state)
    if (m.complete) {
      // Parts that arrived before the whole state are newer.
      const later = { state: m.state, paths: m.paths, buffers: m.buffers }
      this.#keep(m, part)
      this.#keep(m, later)
      if (m.captured) {
        m.captured.before(part.state.outputs)
        this.#keep(m, { state: { outputs: m.captured.outputs }, paths: [], buffers: [] })
      }
      this.#links.add(id, m.state)
      for (const member of this.#members) member.found(id, m, decode)
      this.#links.assign(this.#members)
    } else this.#keep(m, part)
    this.#tidy()
  }

  #fresh(id: string): Entry {
    const m: Entry = { state: {}, paths: [], buffers: [], complete: false, bytes: 0, echoes: new Echoes() }
    this.#models.set(id, m)
    this.#dead.delete(id)
    return m
  }

  #keep(m: Entry, part: Part): void {
    const before = m.bytes
    const replaced = Object.fromEntries(Object.entries(m.state).filter(([k]) => Object.hasOwn(part.state, k)))
    const had = m.buffers.reduce((n, b) => n + b.length, 0)
    Object.assign(m, merge(m, part))
    m.bytes += JSON.stringify(part.state).length - JSON.stringify(replaced).length + m.buffers.reduce((n, b) => n + b.length, 0) - had
    this.#bytes += m.bytes - before
  }

  /** Sends a message to the frames that have the model. */
  #deliver(id: string, data: { method: string; state?: Record<string, unknown>; [k: string]: unknown }, buffers: string[], except?: Member): void {
    for (const m of this.#members) if (m !== except) m.message(id, data, () => decode(buffers))
    this.#links.assign(this.#members)
  }

  #closed(id: string): void {
    const m = this.#models.get(id)
    if (m?.complete) {
      this.#dead.add(id)
      if (this.#dead.size > maxModels) this.#dead.delete(this.#dead.values().next().value!)
    }
    this.#drop(id)
    this.#links.remove(id)
    for (const member of [...this.#members]) if (member.lost(id, !!m?.complete)) this.#members.delete(member)
  }

  /** Keeps the answer to request_states, unless a newer state is known. */
  #states(e: CommContent): void {
    for (const [id, part] of statesOf(e)) if (!this.#models.get(id)?.complete) this.#update(id, part)
  }

  /** Some messages were lost. The states of the shown models are requested again. */
  async #missed(): Promise<void> {
    const held = new Set([...this.#members].flatMap((m) => [...m.held]))
    for (const id of this.#models.keys()) if (!held.has(id)) this.#drop(id)
    if (this.#line.readOnly || held.size === 0) return
    const kernel = await this.#line.kernel()
    for (const id of held) await kernel?.comm('comm_msg', { comm_id: id, data: { method: 'request_state' } })
  }

  #tidy(): void {
    if (this.#models.size <= maxModels && this.#bytes <= maxBytes) return
    for (const [id, m] of this.#models) {
      if (this.#models.size <= maxModels && this.#bytes <= maxBytes) return
      if (m.captured || [...this.#members].some((x) => x.has(id))) continue
      this.#drop(id)
    }
  }

  #drop(id: string): void {
    this.#bytes -= this.#models.get(id)?.bytes ?? 0
    this.#models.delete(id)
  }

  // --- Output widgets ---

  #output(id: string, e: CellEvent): boolean {
    const m = this.#models.get(id) ?? this.#fresh(id)
    m.captured ??= new Captured(m.state.outputs)
    if (!m.captured.add(e)) return false
    this.#unsaved.add(id)
    this.#save()
    if (this.#due.has(id)) return true
    this.#due.add(id)
    draw(() => this.#show(id))
    return true
  }

  #show(id: string): void {
    this.#due.delete(id)
    const m = this.#models.get(id)
    if (!m?.captured || !m.complete) return
    const part = { state: { outputs: m.captured.outputs }, paths: [], buffers: [] }
    this.#keep(m, part)
    this.#deliver(id, { method: 'update', state: part.state, buffer_paths: [] }, [])
  }

  #save(): void {
    if (!this.#line.readOnly) this.#timer ??= setTimeout(() => void this.#store(), saveAfter)
  }

  /** Sends the outputs to the kernel, where programs read them and other pages find them. */
  async #store(): Promise<void> {
    this.#timer = undefined
    if (this.#unsaved.size === 0) return
    if (!this.#line.idle()) return this.#save()
    const ids = [...this.#unsaved]
    this.#unsaved.clear()
    const kernel = await this.#line.kernel()
    for (const id of ids) {
      const m = this.#models.get(id)
      if (!m?.complete || !m.captured) continue
      await kernel?.comm('comm_msg', { comm_id: id, data: { method: 'update', state: { outputs: m.captured.outputs }, buffer_paths: [] } }).catch(() => {})
    }
  }

  // --- frames ---

  /** Adds a frame that shows the model with this id. */
  join(root: string, peer: Peer): Member {
    const member = new Member(root, peer, {
      want: (m, id) => this.#give(m, id),
      send: (m, id, data, buffers) => this.#send(m, id, data, buffers),
      left: (m) => {
        this.#members.delete(m)
        this.#links.left(m)
        this.#links.assign(this.#members)
      },
    }, this.#line.readOnly)
    this.#members.add(member)
    return member
  }

  #give(member: Member, id: string): void {
    const m = this.#models.get(id)
    if (m?.complete) {
      member.found(id, m, decode)
      this.#links.assign(this.#members)
    } else if (this.#dead.has(id)) member.lost(id, true)
    else this.#fetching ??= this.#fetch().finally(() => (this.#fetching = undefined))
  }

  async #send(from: Member, id: string, data: { method: 'update' | 'custom'; state?: Record<string, unknown>; [k: string]: unknown }, buffers: Uint8Array[]): Promise<void> {
    const m = this.#models.get(id)
    if (!m?.complete) throw new Refused('the model is closed')
    const kernel = await this.#line.kernel()
    if (!kernel) throw new Refused('the kernel is gone')
    const encoded = buffers.map(toBase64)
    if (data.method === 'update') {
      const part: Part = { state: data.state!, paths: data.buffer_paths as Part['paths'], buffers: encoded }
      this.#keep(m, part)
      m.echoes.sent(part.state, Date.now())
      // The other frames of this page need not wait for the kernel, which may be busy.
      this.#deliver(id, { method: 'update', state: part.state, buffer_paths: part.paths }, encoded, from)
    }
    try {
      await kernel.comm('comm_msg', { comm_id: id, data, ...(encoded.length > 0 ? { buffers: encoded } : {}) })
    } catch (e) {
      if (ends.has((e as SandgateError).kind)) this.gone()
      throw e
    }
  }

  /** Requests the states of all models that frames wait for. */
  async #fetch(): Promise<void> {
    const kernel = await this.#line.kernel()
    if (!kernel) return this.gone()
    try {
      if (this.#line.readOnly) await this.#read()
      else await this.#ask(kernel)
    } catch {
      this.gone()
    }
  }

  async #ask(kernel: Kernel): Promise<void> {
    const control = `sandgate-${crypto.randomUUID()}`
    await kernel.comm('comm_open', { comm_id: control, target_name: 'jupyter.widget.control', data: {}, metadata: { version: '1.0.0' } })
    await kernel.comm('comm_msg', { comm_id: control, data: { method: 'request_states' } })
    await kernel.comm('comm_close', { comm_id: control, data: {} })
    // The answer to this comes after the states. Without it they are requested one by one.
    await kernel.isComplete('').catch(() => {})
    for (const id of this.#wanted()) await kernel.comm('comm_msg', { comm_id: id, data: { method: 'request_state' } })
  }

  #wanted(): Set<string> {
    return new Set([...this.#members].flatMap((m) => m.waiting).filter((id) => !this.#models.get(id)?.complete))
  }

  /** A viewer cannot request states, and finds them in the log. */
  async #read(): Promise<void> {
    if (this.#replaying) {
      for (const id of this.#wanted()) this.#closed(id)
      return
    }
    this.#replaying = true
    const captures = new Captures()
    await this.#line.replay((e) => {
      if (isComm(e)) {
        this.#capture(e, captures)
        this.#comm(e)
        return
      }
      const id = captures.of(e.cell)
      if (id !== undefined) this.#output(id, e)
    })
  }
}

function decode(buffers: string[]): ArrayBuffer[] {
  return buffers.map((b) => {
    try {
      return base64(b).buffer
    } catch {
      return new ArrayBuffer(0)
    }
  })
}

