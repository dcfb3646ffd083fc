import { Attachment, type AttachOptions, type Entry, type Position } from './attachment.js'
import type { Connection } from './connection.js'
import { Decoder, type Message } from './events.js'
import { aborted, asError, SandgateError } from './fault.js'
import { json, recordKind, type LogRecord } from './frame.js'
import { newKey } from './key.js'
import { Output } from './output.js'
import { exitError } from './program.js'
import type {
  Abortable, CellEvent, ChannelInfo, CommContent, Completeness, Completion, ExecuteReply, Exit, HistoryEntry, Inspection, Variable,
} from './types.js'

export interface KernelOptions extends AttachOptions {
  /**
   * Gets, in order, the events that belong to none of this object's cells: other clients' cells,
   * threads that still print, states, restarts. The next event waits for its promise, and the
   * server sends at most a window ahead. With offset 0 it gets the whole log of the kernel.
   */
  other?: ((e: CellEvent) => void | Promise<void>) | undefined
}

export interface ExecuteOptions extends Abortable {
  /**
   * Idempotency key: a repeated execute with the same key runs nothing. Default a new key. At most
   * 128 bytes.
   */
  key?: string
  /** Without a result, an execution count or a history entry. */
  silent?: boolean
  /** Cells that are queued after it run even when it fails. */
  keep_going?: boolean
  /** The language's input functions fail at once. */
  no_input?: boolean
  /** The cell ends when a program would end: docs/protocol.md. */
  program?: boolean
  /** Time in milliseconds after which the cell is interrupted. */
  timeout_ms?: number
}

interface Held extends Entry {
  message?: Message | undefined
}

/** One execution and its events, in order; execute_reply is the last one. */
export class Cell extends Output<CellEvent, ExecuteReply> {
  /** The idempotency key. */
  readonly key: string
  /** Resolves with the cell's number once the server has queued the code. */
  readonly queued: Promise<number>
  /** Its number in its kernel; 0 while it is unknown. @readonly */
  number = 0
  #request: number | undefined
  readonly #kernel: BaseKernel
  readonly #decoder = new Decoder()

  /** @internal */
  constructor(kernel: BaseKernel, key: string, queued: Promise<number>) {
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
    const out = this.#decoder.cell(e.record, e.message)
    if (out?.type === 'input_request') this.#request = out.request
    return out
  }

  /** Answers the cell's input_request. */
  input(value: string, o: Abortable = {}): Promise<void> {
    return this.#kernel.input(this.number, value, o, this.#request)
  }

  /** Answers the cell's input_request with end of file. */
  endInput(o: Abortable = {}): Promise<void> {
    return this.#kernel.input(this.number, undefined, o, this.#request)
  }

  /** Discards the rest of its output. The cell continues to run. */
  close(): void {
    this.discard()
    this.#kernel.forget(this)
  }
}

/**
 * Executes code in one kernel. Its cells share one window: a cell that is neither read nor closed,
 * and whose done is not awaited, blocks the others when 256 KiB of its output wait.
 */
export class BaseKernel {
  readonly session: string
  readonly id: string
  readonly #connection: Connection
  readonly #attachment: Attachment
  readonly #decoder = new Decoder()
  readonly #other: KernelOptions['other']
  #others: Promise<void> = Promise.resolve()
  #cells = new Map<number, Cell>()
  #keys = new Map<string, Cell>()
  #unsure = new Map<Cell, SandgateError>() // cells whose end may never arrive, and why
  #asking = false
  #due = false
  #recount: { end: number; cells: Map<Cell, SandgateError> } | undefined
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

  /** The position before which everything is rendered, for from in a later view. */
  get position(): Position {
    return this.#attachment.position
  }

  /** Why this view has ended; undefined until then. */
  get error(): SandgateError | undefined {
    return this.#error
  }

  /**
   * Queues code. Errors are reported by the cell's done, queued and events. After a reconnection
   * the client sends it again under its key, and it runs once. signal ends the cell object; queued
   * code still runs.
   */
  execute(code: string, o: ExecuteOptions = {}): Cell {
    const { signal, key = newKey(), ...more } = o
    const open = this.#keys.get(key)
    if (open) return open
    const queued = this.#call<{ cell: number; repeated?: boolean }>('execute', { ...more, key, code }, { signal, repeat: true })
    const cell: Cell = new Cell(this, key, queued.then((q) => {
      this.#bind(cell, q.cell)
      if (q.repeated) this.#doubt([cell], missed()) // it may have ended before this object existed
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

  /**
   * Stops the running cell and aborts the queued ones. With cell, the number of a cell, it stops or
   * aborts only that one. A cell that has not stopped after grace_ms causes the kernel to be killed.
   */
  async interrupt(o: Abortable & { grace_ms?: number; cell?: number } = {}): Promise<void> {
    const { signal, grace_ms, cell } = o
    await this.#call('interrupt', { ...(grace_ms ? { grace_ms } : {}), ...(cell ? { cell } : {}) }, { signal })
  }

  /** Restarts the kernel; resolves when it is ready. Its variables are lost. */
  async restart(o: Abortable = {}): Promise<void> {
    await this.#call('restart', {}, o)
  }

  /**
   * Returns completions at the cursor, a position in Unicode code points (see codePoints). about has
   * the other cells of a notebook: docs/protocol.md.
   */
  complete(code: string, cursor: number, o: Abortable & { about?: Record<string, unknown> } = {}): Promise<Completion> {
    return this.#ask('complete', { code, cursor, ...(o.about ? { about: o.about } : {}) }, o)
  }

  /**
   * Returns documentation for the name at the cursor. With about, it returns what docs/protocol.md
   * lists: rows of a table, or an answer about the code.
   */
  inspect(code: string, cursor: number, o: Abortable & { detail?: number; about?: Record<string, unknown> } = {}): Promise<Inspection> {
    return this.#ask('inspect', { code, cursor, ...(o.detail ? { detail: o.detail } : {}), ...(o.about ? { about: o.about } : {}) }, o)
  }

  /** Returns whether code is complete. */
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

  /** Detaches; the kernel continues. */
  close(): void {
    this.#attachment.close()
  }

  /** @internal */
  async input(cell: number, value: string | undefined, { signal }: Abortable, request?: number): Promise<void> {
    const end = value === undefined ? { eof: true } : {}
    // An answer that names its request can be sent again: the server recognises the repeat.
    await this.#call('input', { cell, request, value: value ?? '', ...end }, { signal, repeat: request !== undefined })
  }

  /** @internal */
  forget(cell: Cell): void {
    this.#unsure.delete(cell)
    if (this.#keys.get(cell.key) === cell) this.#keys.delete(cell.key)
    if (this.#cells.get(cell.number) === cell) this.#cells.delete(cell.number)
  }

  /** Sets the number of a cell. The output may have set it before the reply. */
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

  /** Passes a record to its cell. */
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
    let cell = this.#cells.get(r.cell)
    if (key !== undefined) {
      // After a take-over a number can be given again: the key decides.
      if (cell && cell.key !== key) this.#cells.delete(r.cell)
      cell = this.#keys.get(key)
    }
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
        // an error of a listener is ignored
      } finally {
        e.release()
      }
    })
  }

  /**
   * Passes a record that concerns the whole channel to all open cells. A gap may have contained the
   * end of some.
   */
  #broadcast(e: Held): void {
    for (const c of this.#keys.values()) c.push({ ...e, release() {} })
    this.#tellOther(e)
    if (e.record.kind === recordKind.gap) this.#doubt(this.#cells.values(), missed())
    else if (takenOver(e.record)) this.#doubt(this.#cells.values(), lost())
  }

  /**
   * Marks cells whose end may never arrive: it was in a gap, or before this object existed, or the
   * copy that continues the session does not have the cell. They get the error if the kernel is idle.
   */
  #doubt(cells: Iterable<Cell>, error: SandgateError): void {
    for (const c of cells) if (this.#keys.get(c.key) === c) this.#unsure.set(c, error)
    void this.#count()
  }

  /** Asks whether the kernel is idle. If it is, those cells end where the log ends. */
  async #count(): Promise<void> {
    this.#due = true
    if (this.#asking) return
    this.#asking = true
    try {
      while (this.#due && this.#unsure.size > 0) {
        this.#due = false
        await this.#ended(new Map(this.#unsure))
      }
    } catch {
      // the end of the connection is reported in another way
    } finally {
      this.#asking = false
    }
  }

  async #ended(cells: Map<Cell, SandgateError>): Promise<void> {
    const { channels } = await this.#connection.call<{ channels: ChannelInfo[] }>(
      'channel.list', { session: this.session }, { repeat: true, signal: this.#counting.signal })
    const channel = channels.find((c) => c.id === this.id)
    if (!channel || channel.state === 'busy' || channel.queued) return // asked again at the next reply
    this.#recount = { end: channel.end, cells: new Map([...(this.#recount?.cells ?? []), ...cells]) }
    if (this.#attachment.received >= channel.end) this.#giveUp()
  }

  #giveUp(): void {
    const cells = this.#recount?.cells ?? []
    this.#recount = undefined
    for (const [c, error] of cells) {
      c.fail(error)
      this.forget(c)
    }
  }

  /**
   * Returns the user's variables, at most 500. In a language with one thread it waits for the
   * running cell.
   */
  async variables(o: Abortable = {}): Promise<Variable[]> {
    const r = await this.#ask<{ status?: string; evalue?: string; variables?: Variable[] }>('variables', {}, o)
    if (r.status === 'error') throw new SandgateError('unsupported', `the kernel answered: ${r.evalue}`)
    return r.variables ?? []
  }

  /**
   * Returns the code that the kernel has run, oldest first, including code that ran before a restart.
   */
  async history(o: Abortable = {}): Promise<HistoryEntry[]> {
    return (await this.#ask<{ entries?: HistoryEntry[] }>('history', {}, o)).entries ?? []
  }
}

/** The error of a cell whose end is no longer in the log. */
function missed(): SandgateError {
  return new SandgateError('slow', "the end of the cell's output is no longer there")
}

/** The error of a cell that the copy of a failed node's session does not have. */
function lost(): SandgateError {
  return new SandgateError('sandbox_lost',
    "the session's node has failed, and the copy that continues does not have this cell")
}

/** Reports whether a record says that another node continues the session from a copy. */
function takenOver(r: LogRecord): boolean {
  if (r.kind !== recordKind.event) return false
  return json<{ event?: string }>(r.payload, 'an event record').event === 'taken_over'
}
