import { Attachment, type AttachOptions, type Entry, type Position } from './attachment.js'
import type { Connection } from './connection.js'
import { Decoder } from './events.js'
import { SandgateError } from './fault.js'
import { json, recordKind } from './frame.js'
import { Input } from './input.js'
import { Output } from './output.js'
import type { Abortable, ChannelInfo, Exit, ProgramEvent } from './types.js'

/**
 * What ended a channel from outside: sandbox_lost when its sandbox ended,
 * not_found when it was closed; undefined when the program ended by itself.
 */
export function exitError(e: Exit): SandgateError | undefined {
  if (e.code >= 0) return undefined
  if (e.reason === 'closed') return new SandgateError('not_found', 'the channel was closed')
  return new SandgateError('sandbox_lost', e.reason === 'memory' ? 'the sandbox ran out of memory' : `the sandbox ended: ${e.reason}`)
}

/** A program with its output and input: a process or a terminal. */
export abstract class Program extends Output<ProgramEvent, Exit> {
  readonly session: string
  readonly id: string
  protected readonly attachment: Attachment
  readonly #connection: Connection
  readonly #decoder = new Decoder()
  readonly #input: Input

  /** @internal */
  constructor(connection: Connection, session: string, id: string, o: AttachOptions, strict: boolean) {
    super()
    this.session = session
    this.id = id
    this.#connection = connection
    this.attachment = connection.add((ch) => new Attachment(connection, ch, session, id, o, {
      record: (e) => this.#record(e),
      ended: (error) => (error ? this.fail(error) : this.finish(this.info?.exit ?? { code: -1, reason: 'unknown' })),
      changed: () => this.changed(),
    }))
    this.#input = new Input(this.attachment, strict)
  }

  #record(e: Entry): void {
    this.push(e)
    if (e.record.kind === recordKind.exit) this.finish(json<Exit>(e.record.payload, 'an exit record'))
  }

  protected changed(): void {
    this.#input?.changed()
  }

  protected override event(e: Entry): ProgramEvent | undefined {
    return this.#decoder.program(e.record)
  }

  /** @internal */
  get ready(): Promise<void> {
    return this.attachment.ready
  }

  /** The channel as it was at the last attach. */
  get info(): ChannelInfo | undefined {
    return this.attachment.info
  }

  /** Behind the last event that was read: what from takes. */
  get position(): Position {
    return this.handed ?? this.attachment.position
  }

  /**
   * Writes to its input and resolves once the program's pipe has taken all of
   * it, so that a program that does not read holds back who awaits this.
   */
  write(data: string | Uint8Array, o: Abortable = {}): Promise<void> {
    return this.#input.write(typeof data === 'string' ? new TextEncoder().encode(data) : data, false, o.signal)
  }

  /** Gives it the end of its input. */
  end(o: Abortable = {}): Promise<void> {
    return this.#input.write(new Uint8Array(0), true, o.signal)
  }

  /** Sends a signal, such as SIGINT, to it and its children. */
  async signal(name: string, o: Abortable = {}): Promise<void> {
    // Over an attachment of its own: on this one it would wait behind input
    // that the program does not read.
    const side = this.#connection.add((ch) => new Attachment(
      this.#connection, ch, this.session, this.id, { offset: -1, window: 1 }, { record: (e) => e.release(), ended() {} }))
    try {
      await side.call('signal', { signal: name }, o)
    } finally {
      side.close()
    }
  }

  /** Detaches; the program goes on. */
  close(): void {
    this.discard()
    this.attachment.close()
  }
}

/** A process. stdout and stderr come apart; exit is the last event. */
export class Process extends Program {
  /** @internal */
  constructor(connection: Connection, session: string, id: string, o: AttachOptions) {
    super(connection, session, id, o, true)
  }
}

/** A terminal: what it shows comes as stdout, with escape sequences. */
export class Terminal extends Program {
  #size: { cols: number; rows: number } | undefined
  #told = true

  /** @internal */
  constructor(connection: Connection, session: string, id: string, o: AttachOptions & { size?: { cols: number; rows: number } | undefined }) {
    super(connection, session, id, o, false)
    this.#size = o.size
    this.#told = false
  }

  /** Tells it this viewer's size, now and after each reconnect. */
  async resize(cols: number, rows: number, o: Abortable = {}): Promise<void> {
    this.#size = { cols, rows }
    this.#told = true
    await this.attachment.call('resize', { cols, rows }, { ...o, repeat: true })
  }

  protected override changed(): void {
    super.changed()
    if (!this.attachment.attached) {
      this.#told = false
    } else if (!this.#told && this.#size) {
      this.#told = true
      this.attachment.call('resize', this.#size).catch(() => {})
    }
  }
}
