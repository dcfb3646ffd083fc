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
 * What ended a channel from outside: sandbox_lost when its sandbox ended,
 * not_found when it was closed; undefined when the program ended by itself.
 */
export function exitError(e: Exit): SandgateError | undefined {
  if (e.code >= 0) return undefined
  if (e.reason === 'closed') return new SandgateError('not_found', 'the channel was closed')
  return new SandgateError('sandbox_lost', e.reason === 'memory' ? 'the sandbox ran out of memory' : `the sandbox ended: ${e.reason}`)
}

export interface TerminalOptions extends AttachOptions {
  /** What this viewer's terminal measures. */
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

  /** What this viewer's terminal measures. */
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

  /** Behind the last event that was read: what from takes. */
  get position(): Position {
    return this.handed ?? this.attachment.position
  }

  /**
   * Writes to its input and resolves once the sandbox has taken all of it, so
   * that a program that does not read holds back who awaits this. A lost
   * connection neither loses nor doubles a byte.
   */
  write(data: string | Uint8Array, o: Abortable = {}): Promise<void> {
    return this.input.write(bytes(data), 0, o.signal)
  }

  /**
   * Keeps up with a program that is faster than whoever reads: beyond so many bytes it goes on near the end, behind a gap. A terminal
   * is restored behind it to the state that it has there.
   */
  follow({ drop = false, ...f }: Follow): void {
    this.#drop = drop
    this.attachment.follow(f)
  }

  /** Sends a signal, such as SIGINT, to it and its children. It does not wait behind input. */
  async signal(name: string, o: Abortable = {}): Promise<void> {
    await this.attachment.call('signal', { signal: name }, o)
  }

  /** Detaches; the program goes on. */
  close(): void {
    this.discard()
    this.attachment.close()
  }
}

/** A process. stdout and stderr come apart; exit is the last event. */
export class Process extends Program {
  /** Gives it the end of its input. */
  end(o: Abortable = {}): Promise<void> {
    return this.input.write(new Uint8Array(0), inputFlag.end, o.signal)
  }
}

/** A terminal: what it shows comes as stdout, with escape sequences. */
export class Terminal extends Program {
  #size: { cols: number; rows: number } | undefined

  /** @internal */
  constructor(connection: Connection, session: string, id: string, o: TerminalOptions) {
    super(connection, session, id, o)
    this.#size = o.size
  }

  /** Types text that was pasted: the server makes it harmless, and tells the program that it was pasted if it wants to know. */
  paste(text: string, o: Abortable = {}): Promise<void> {
    return this.input.write(bytes(text), inputFlag.paste, o.signal)
  }

  /** Tells it this viewer's size, now and after each reconnect. */
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
