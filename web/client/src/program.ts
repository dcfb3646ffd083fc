import { Attachment, type AttachOptions, type Entry, type Follow, type Position } from './attachment.js'
import type { Connection } from './connection.js'
import { Decoder } from './events.js'
import { SandgateError } from './fault.js'
import { inputFlag, json, recordKind } from './frame.js'
import { Input } from './input.js'
import { newKey } from './key.js'
import { Output } from './output.js'
import type { Abortable, ChannelInfo, Exit, ProgramEvent } from './types.js'

/**
 * The error of a channel that was ended from outside: sandbox_lost if its sandbox ended, not_found
 * if it was closed; undefined if the program ended by itself.
 */
export function exitError(e: Exit): SandgateError | undefined {
  if (e.code >= 0) return undefined
  if (e.reason === 'closed') return new SandgateError('not_found', 'the channel was closed')
  return new SandgateError('sandbox_lost', e.reason === 'memory' ? 'the sandbox ran out of memory' : `the sandbox ended: ${e.reason}`)
}

export interface TerminalOptions extends AttachOptions {
  /** The size of this viewer's terminal. */
  size?: { cols: number; rows: number } | undefined
}

/** A program with its output and input: a process or a terminal. */
export abstract class Program extends Output<ProgramEvent, Exit> {
  readonly session: string
  readonly id: string
  protected readonly attachment: Attachment
  protected readonly input: Input
  readonly #decoder = new Decoder()
  readonly #writer = newKey()
  #drop = false

  /** @internal */
  constructor(connection: Connection, session: string, id: string, o: AttachOptions) {
    super()
    this.session = session
    this.id = id
    this.attachment = connection.add((ch) => new Attachment(connection, ch, session, id, o, {
      record: (e) => this.#record(e),
      ended: (error) => (error ? this.fail(error) : this.finish(this.info?.exit ?? { code: -1, reason: 'unknown' })),
      changed: () => this.input.changed(),
    }, () => ({ writer: this.#writer, ...this.size() })))
    this.input = new Input(this.attachment)
  }

  #record(e: Entry): void {
    this.push(this.#drop && e.record.kind === recordKind.gap ? this.overtake(e) : e)
    if (e.record.kind === recordKind.exit) this.finish(json<Exit>(e.record.payload, 'an exit record'))
  }

  /** Returns the size of this viewer's terminal. */
  protected size(): { cols: number; rows: number } | undefined {
    return undefined
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

  /** The position after the last event that was read, for from in a later view. */
  get position(): Position {
    return this.handed ?? this.attachment.position
  }

  /**
   * Writes to the program's input and resolves once the sandbox has accepted all of it. A program
   * that does not read makes the caller wait. A lost connection neither loses nor repeats a byte.
   */
  write(data: string | Uint8Array, o: Abortable = {}): Promise<void> {
    return this.input.write(bytes(data), 0, o.signal)
  }

  /**
   * Keeps up with a program that prints faster than the viewer reads: beyond a distance it skips
   * ahead and gets a gap. A terminal is restored to its state after the gap.
   */
  follow({ drop = false, ...f }: Follow): void {
    this.#drop = drop
    this.attachment.follow(f)
  }

  /**
   * Sends a signal, such as SIGINT, to the program and its children. It does not wait for input.
   */
  async signal(name: string, o: Abortable = {}): Promise<void> {
    await this.attachment.call('signal', { signal: name }, o)
  }

  /** Detaches; the program continues. */
  close(): void {
    this.discard()
    this.attachment.close()
  }
}

/** A process. stdout and stderr are separate; exit is the last event. */
export class Process extends Program {
  /** Closes the program's input. */
  end(o: Abortable = {}): Promise<void> {
    return this.input.write(new Uint8Array(0), inputFlag.end, o.signal)
  }
}

/** A terminal: its output is stdout events with escape sequences. */
export class Terminal extends Program {
  #size: { cols: number; rows: number } | undefined

  /** @internal */
  constructor(connection: Connection, session: string, id: string, o: TerminalOptions) {
    super(connection, session, id, o)
    this.#size = o.size
  }

  /**
   * Pastes text: the server replaces control characters by visible symbols, and adds brackets if
   * the program wants them.
   */
  paste(text: string, o: Abortable = {}): Promise<void> {
    return this.input.write(bytes(text), inputFlag.paste, o.signal)
  }

  /** Sends this viewer's size, now and after each reconnection. */
  async resize(cols: number, rows: number, o: Abortable = {}): Promise<void> {
    this.#size = { cols, rows }
    await this.attachment.call('resize', this.#size, { ...o, repeat: true })
  }

  protected override size(): { cols: number; rows: number } | undefined {
    return this.#size
  }
}

function bytes(data: string | Uint8Array): Uint8Array {
  return typeof data === 'string' ? new TextEncoder().encode(data) : data
}
