import { Guard, type Checked } from './guard'
import { references, type Part } from './state'

/** The number of messages of a frame that the server has not accepted yet. */
const maxOpen = 32
/**
 * The time in milliseconds after which a frame hears that a message was accepted. A model waits for
 * that before it sends its next value, so that no drag of a slider exceeds the rate.
 */
const pace = 20

/** waiting for the model, shown, closed by the program, without a kernel, or stopped by this page. */
export type WidgetState = 'waiting' | 'live' | 'closed' | 'gone' | 'stopped'

/** The page's side of a frame. */
export interface Peer {
  post(message: unknown, transfer?: Transferable[]): void
  state(s: WidgetState): void
}

type Send = Extract<Checked, { kind: 'send' }>

interface Host {
  want(m: Member, id: string): void
  send(m: Member, id: string, data: Send['data'], buffers: Uint8Array[]): Promise<void>
  left(m: Member): void
}

/**
 * A frame that shows one model and those that it refers to. It gets the states and messages of no
 * others, and sends to no others.
 */
export class Member {
  readonly #root: string
  readonly #peer: Peer
  readonly #host: Host
  readonly #readOnly: boolean
  readonly #guard = new Guard()
  /** The models that the frame may have: its own, and those that states name which it was sent. */
  readonly #granted: Set<string>
  readonly #asked = new Set<string>()
  readonly #held = new Set<string>()
  #open = 0
  #ended = false

  constructor(root: string, peer: Peer, host: Host, readOnly: boolean) {
    this.#root = root
    this.#peer = peer
    this.#host = host
    this.#readOnly = readOnly
    this.#granted = new Set([root])
    peer.state('waiting')
  }

  has(id: string): boolean {
    return this.#held.has(id)
  }

  get held(): Iterable<string> {
    return this.#held
  }

  /** The models that the frame has asked for and has not got. */
  get waiting(): string[] {
    return [...this.#asked].filter((id) => !this.#held.has(id))
  }

  /** Handles a message of the frame. Everything in it is untrusted. */
  heard(message: unknown): void {
    if (this.#ended) return
    const m = this.#guard.check(message, Date.now())
    if (m.kind === 'want') this.#want(m.id)
    else if (m.kind === 'send') this.#send(m)
    else this.#refused(m)
  }

  #want(id: string): void {
    if (!this.#granted.has(id)) return this.#refused(this.#guard.refuse('the frame does not show this model', { id }))
    if (this.#asked.has(id)) return
    this.#asked.add(id)
    this.#host.want(this, id)
  }

  #send(m: Send): void {
    const no = (why: string) => this.#refused(this.#guard.refuse(why, { n: m.n, id: m.id }))
    if (!this.#held.has(m.id)) return no('the frame does not show this model')
    if (this.#readOnly) return no('the viewer may not change anything')
    if (this.#open >= maxOpen) return no('too many messages wait')
    this.#open++
    void this.#deliver(m).finally(() => this.#open--)
  }

  async #deliver(m: Send): Promise<void> {
    const paced = new Promise((resolve) => setTimeout(resolve, pace))
    let refused: string | undefined
    try {
      await this.#host.send(this, m.id, m.data, m.buffers)
    } catch (e) {
      refused = (e as Error).message
    }
    await paced
    this.#post({ done: m.n, ...(refused === undefined ? {} : { refused }) })
  }

  #refused(m: Checked): void {
    if (m.kind === 'stop') this.end('stopped')
    else if (m.kind === 'refused') this.#post({ refused: m.why, ...(m.n === undefined ? {} : { done: m.n }), ...(m.id === undefined ? {} : { id: m.id }) })
  }

  /** The whole state of a model is known. */
  found(id: string, m: Part, decode: (buffers: string[]) => ArrayBuffer[]): void {
    if (!this.#asked.has(id) || this.#held.has(id)) return
    this.#held.add(id)
    this.#grant(m.state)
    const buffers = decode(m.buffers)
    this.#post({ model: { id, state: m.state, paths: m.paths, buffers } }, buffers)
    if (id === this.#root) this.#peer.state('live')
  }

  message(id: string, data: { state?: Record<string, unknown> }, decode: () => ArrayBuffer[]): void {
    if (!this.#held.has(id)) return
    this.#grant(data)
    const buffers = decode()
    this.#post({ message: { id, data, buffers } }, buffers)
  }

  #grant(value: unknown): void {
    for (const id of references(value)) this.#granted.add(id)
  }

  /** Lets the frame carry out a link between models. */
  link(id: string): void {
    this.#granted.add(id)
    this.#post({ link: id })
  }

  /** The kernel has closed a model, or does not know it. Returns true if that ends the frame. */
  lost(id: string, known: boolean): boolean {
    if (!this.#asked.has(id)) return false
    this.#asked.delete(id)
    this.#held.delete(id)
    this.#post({ closed: id })
    if (id !== this.#root) return false
    this.end(known ? 'closed' : 'gone')
    return true
  }

  end(s: WidgetState): void {
    if (this.#ended) return
    this.#ended = true
    this.#peer.state(s)
    this.#host.left(this)
  }

  /** The frame was removed. */
  leave(): void {
    if (this.#ended) return
    this.#ended = true
    this.#host.left(this)
  }

  #post(message: unknown, transfer: Transferable[] = []): void {
    if (!this.#ended) this.#peer.post(message, transfer)
  }
}
