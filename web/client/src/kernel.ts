import { Attachment, type AttachOptions, type Entry, type Position } from './attachment.js'
import type { Connection } from './connection.js'
import { Decoder, type Message } from './events.js'
import { aborted, asError, SandgateError } from './fault.js'
import { json, recordKind } from './frame.js'
import { newKey } from './key.js'
import { Output } from './output.js'
import { exitError } from './program.js'
import type {
  Abortable, CellEvent, ChannelInfo, CommContent, Completeness, Completion, ExecuteReply, Exit, HistoryEntry, Inspection, Variable,
} from './types.js'

export interface KernelOptions extends AttachOptions {
  /**
   * Is given, in order, what belongs to no cell that this object executes:
   * other clients' cells, threads that go on printing, states, restarts. The
   * next one waits for its promise; the server sends no more than a window
   * ahead. With offset 0 that is everything the kernel ever did.
   */
  other?: ((e: CellEvent) => void | Promise<void>) | undefined
}

export interface ExecuteOptions extends Abortable {
  /** Makes a repeated execute the same execution; a fresh one if left out. At most 128 bytes. */
  key?: string
  /** Without result, count or history. */
  silent?: boolean
  /** What is queued behind it runs even when it fails. */
  keep_going?: boolean
  /** The language's input functions fail at once. */
  no_input?: boolean
  /** The cell ends when a program would: docs/protocol.md. */
  program?: boolean
  /** Interrupts it after that time. */
  timeout_ms?: number
}

interface Held extends Entry {
  message?: Message | undefined
}

/** One execution and what comes of it, in order; execute_reply is the last event. */
export class Cell extends Output<CellEvent, ExecuteReply> {
  /** The idempotency key. */
  readonly key: string
  /** Resolves with the cell's number once the server keeps the code in its queue. */
  readonly queued: Promise<number>
  /** Its number in its kernel; 0 as long as that is not known. @readonly */
  number = 0
  readonly #kernel: Kernel
  readonly #decoder = new Decoder()

  /** @internal */
  constructor(kernel: Kernel, key: string, queued: Promise<number>) {
    super()
    this.#kernel = kernel
    this.key = key
    this.queued = queued
    queued.catch((e: unknown) => {
      this.fail(asError(e))
      kernel.forget(this)
    })
  }

  protected override event(e: Held): CellEvent | undefined {
    return this.#decoder.cell(e.record, e.message)
  }

  /** Answers the input_request that it waits for. */
  input(value: string, o: Abortable = {}): Promise<void> {
    return this.#kernel.input(this.number, value, o)
  }

  /** Answers the input_request that it waits for with end of file. */
  endInput(o: Abortable = {}): Promise<void> {
    return this.#kernel.input(this.number, undefined, o)
  }

  /** Throws the rest of its output away. It runs on. */
  close(): void {
    this.discard()
    this.#kernel.forget(this)
  }
}

/**
 * Executes code in one kernel. Its cells share one window: one that is neither
 * read nor closed and whose done nobody awaits holds the others up when 256 KiB
 * of its output wait.
 */
export class Kernel {
  readonly session: string
  readonly id: string
  readonly #connection: Connection
  readonly #attachment: Attachment
  readonly #decoder = new Decoder()
  readonly #other: KernelOptions['other']
  #others: Promise<void> = Promise.resolve()
  #cells = new Map<number, Cell>()
  #keys = new Map<string, Cell>()
  #unsure = new Set<Cell>() // whose end may have passed unseen
  #asking = false
  #due = false
  #recount: { end: number; cells: Cell[] } | undefined
  #counting = new AbortController()
  #error: SandgateError | undefined // why it has ended

  /** @internal */
  constructor(connection: Connection, session: string, id: string, o: KernelOptions) {
    this.session = session
    this.id = id
    this.#connection = connection
    this.#other = o.other
    const options = { ...o, ...(o.from === undefined && o.offset === undefined ? { offset: -1 } : {}) }
    this.#attachment = connection.add((ch) => new Attachment(connection, ch, session, id, options, {
      record: (e) => this.#deliver(e),
      ended: (error) => this.#end(error ?? new SandgateError('kernel_died', "the kernel's channel has ended")),
    }))
  }

  /** @internal */
  get ready(): Promise<void> {
    return this.#attachment.ready
  }

  /** The channel as it was at the last attach. */
  get info(): ChannelInfo | undefined {
    return this.#attachment.info
  }

  /** Behind the last record before which everything is rendered: what from takes. */
  get position(): Position {
    return this.#attachment.position
  }

  /**
   * Queues code. What cannot be told at once is told by the cell's done, queued
   * and events. It is sent again under its key after a reconnect, and runs
   * once. signal ends the cell here; what is queued runs on.
   */
  execute(code: string, o: ExecuteOptions = {}): Cell {
    const { signal, key = newKey(), ...more } = o
    const open = this.#keys.get(key)
    if (open) return open
    const queued = this.#call<{ cell: number; repeated?: boolean }>('execute', { ...more, key, code }, { signal, repeat: true })
    const cell: Cell = new Cell(this, key, queued.then((q) => {
      this.#bind(cell, q.cell)
      if (q.repeated) this.#doubt([cell]) // it may have ended before this object was there
      return q.cell
    }))
    if (this.#error) {
      cell.fail(this.#error)
      return cell
    }
    this.#keys.set(key, cell)
    if (signal) {
      const abort = () => {
        cell.fail(aborted(signal))
        this.forget(cell)
      }
      signal.addEventListener('abort', abort, { once: true })
      cell.onOver(() => signal.removeEventListener('abort', abort))
    }
    return cell
  }

  /** Stops the running cell and aborts the queued ones. One that has not stopped after grace_ms costs the kernel its life. */
  async interrupt(o: Abortable & { grace_ms?: number } = {}): Promise<void> {
    await this.#call('interrupt', o.grace_ms ? { grace_ms: o.grace_ms } : {}, { signal: o.signal })
  }

  /** Starts it anew; resolves when it is ready. Its variables are gone. */
  async restart(o: Abortable = {}): Promise<void> {
    await this.#call('restart', {}, o)
  }

  /** What may stand at the cursor, a position in Unicode code points (see codePoints). */
  complete(code: string, cursor: number, o: Abortable = {}): Promise<Completion> {
    return this.#ask('complete', { code, cursor }, o)
  }

  /** Documentation for what stands at the cursor. */
  inspect(code: string, cursor: number, o: Abortable & { detail?: number } = {}): Promise<Inspection> {
    return this.#ask('inspect', { code, cursor, ...(o.detail ? { detail: o.detail } : {}) }, o)
  }

  /** Whether code may be executed as it is. */
  isComplete(code: string, o: Abortable = {}): Promise<Completeness> {
    return this.#ask('is_complete', { code }, o)
  }

  #call<T>(op: string, params: unknown, o: Abortable & { repeat?: boolean }): Promise<T> {
    return this.#error ? Promise.reject(this.#error) : this.#attachment.call<T>(op, params, o)
  }

  #ask<T>(op: string, params: unknown, { signal }: Abortable): Promise<T> {
    return this.#call<T>(op, params, { signal, repeat: true })
  }

  /** Sends a message to the kernel's end of a widget. */
  async comm(msg_type: 'comm_open' | 'comm_msg' | 'comm_close', content: CommContent, { signal }: Abortable = {}): Promise<void> {
    await this.#call('comm', { msg_type, content }, { signal })
  }

  /** Detaches; the kernel goes on. */
  close(): void {
    this.#attachment.close()
  }

  /** @internal */
  async input(cell: number, value: string | undefined, { signal }: Abortable): Promise<void> {
    await this.#call('input', value === undefined ? { cell, value: '', eof: true } : { cell, value }, { signal })
  }

  /** @internal */
  forget(cell: Cell): void {
    this.#unsure.delete(cell)
    if (this.#keys.get(cell.key) === cell) this.#keys.delete(cell.key)
    if (this.#cells.get(cell.number) === cell) this.#cells.delete(cell.number)
  }

  /** Tells a cell its number. The output may have told it before the reply. */
  #bind(cell: Cell, number: number): void {
    if (this.#keys.get(cell.key) !== cell || number === 0) return
    cell.number = number
    this.#cells.set(number, cell)
  }

  #end(error: SandgateError): void {
    this.#error ??= error
    this.#counting.abort()
    const cells = [...this.#keys.values()]
    this.#keys.clear()
    this.#cells.clear()
    for (const c of cells) c.fail(error)
  }

  #deliver(e: Held): void {
    const r = e.record
    if (r.kind === recordKind.gap || r.kind === recordKind.event) {
      this.#broadcast(e)
    } else if (r.kind === recordKind.exit) {
      e.release()
      const error = exitError(json<Exit>(r.payload, 'an exit record'))
      if (error) this.#end(error)
    } else {
      this.#sort(e)
    }
    if (this.#recount && this.#attachment.received >= this.#recount.end) this.#giveUp()
  }

  /** Hands a record to its cell. */
  #sort(e: Held): void {
    const r = e.record
    let key: string | undefined
    let reply: ExecuteReply | undefined
    if (r.kind === recordKind.message && r.cell !== 0) {
      e.message = json<Message>(r.payload, 'a message')
      const { msg_type, content } = e.message
      if (msg_type === 'execute_input' || msg_type === 'execute_reply') key = content.key as string
      if (msg_type === 'execute_reply') reply = content as unknown as ExecuteReply
    }
    const cell = this.#cells.get(r.cell) ?? (key === undefined ? undefined : this.#keys.get(key))
    if (reply) queueMicrotask(() => void this.#count())
    if (!cell) {
      this.#tellOther(e)
      return
    }
    this.#bind(cell, r.cell)
    cell.push(e)
    if (reply) {
      cell.finish(reply)
      this.forget(cell)
    }
  }

  #tellOther(e: Held): void {
    const other = this.#other
    if (!other) {
      e.release()
      return
    }
    this.#others = this.#others.then(async () => {
      try {
        const event = this.#decoder.cell(e.record, e.message)
        if (event) await other(event)
      } catch {
        // A listener's failure is its own.
      } finally {
        e.release()
      }
    })
  }

  /** Gives what concerns the whole channel to all open cells. A gap may have swallowed the end of some. */
  #broadcast(e: Held): void {
    for (const c of this.#keys.values()) c.push({ ...e, release() {} })
    this.#tellOther(e)
    if (e.record.kind === recordKind.gap) this.#doubt(this.#cells.values())
  }

  /** Cells whose end may have passed unseen: in a gap, or before this object was there. */
  #doubt(cells: Iterable<Cell>): void {
    for (const c of cells) if (this.#keys.get(c.key) === c) this.#unsure.add(c)
    void this.#count()
  }

  /** Asks whether the kernel has anything to do; if not, those cells end where the log does. */
  async #count(): Promise<void> {
    this.#due = true
    if (this.#asking) return
    this.#asking = true
    try {
      while (this.#due && this.#unsure.size > 0) {
        this.#due = false
        await this.#ended([...this.#unsure])
      }
    } catch {
      // The connection's end is told by other means.
    } finally {
      this.#asking = false
    }
  }

  async #ended(cells: Cell[]): Promise<void> {
    const { channels } = await this.#connection.call<{ channels: ChannelInfo[] }>(
      'channel.list', { session: this.session }, { repeat: true, signal: this.#counting.signal })
    const channel = channels.find((c) => c.id === this.id)
    if (!channel || channel.state === 'busy' || channel.queued) return // asked again at the next reply
    this.#recount = { end: channel.end, cells: [...(this.#recount?.cells ?? []), ...cells] }
    if (this.#attachment.received >= channel.end) this.#giveUp()
  }

  #giveUp(): void {
    const cells = this.#recount?.cells ?? []
    this.#recount = undefined
    for (const c of cells) {
      c.fail(new SandgateError('slow', "the end of the cell's output is no longer there"))
      this.forget(c)
    }
  }

  /** The user's variables, at most 500. In a language with one thread this waits for the cell that runs. */
  async variables(o: Abortable = {}): Promise<Variable[]> {
    const r = await this.#ask<{ status?: string; evalue?: string; variables?: Variable[] }>('variables', {}, o)
    if (r.status === 'error') throw new SandgateError('unsupported', `the kernel answered: ${r.evalue}`)
    return r.variables ?? []
  }

  /** What it has run, oldest first, also before it was restarted. */
  async history(o: Abortable = {}): Promise<HistoryEntry[]> {
    return (await this.#ask<{ entries?: HistoryEntry[] }>('history', {}, o)).entries ?? []
  }
}
