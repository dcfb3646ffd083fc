import type { Attachment } from './attachment.js'
import { aborted, SandgateError } from './fault.js'
import { encodeInput, inputFlag, limits } from './frame.js'

/** The largest size of a frame's data, unless it is a paste, in bytes. */
const maxPart = 64 << 10
/** Limits of unconfirmed input. */
const maxAhead = 256 << 10 // bytes at the server
const maxFrames = 64
/** Bytes that may wait here, unless it is a single write. */
const maxWaiting = 16 << 20

interface Part {
  /** From 1 on; 0 until it is sent. */
  sequence: number
  data: Uint8Array
  flags: number
  sent: boolean
  last: boolean
  settled(e?: SandgateError): void
}

/**
 * The input of a program: in order, without missing or repeated parts. Parts are numbered. The
 * server confirms each part that the program has accepted, and reports after a reconnection how far
 * it got, so that the rest is sent again. After a rejection no further input is accepted, because
 * bytes would be missing.
 */
export class Input {
  readonly #attachment: Attachment
  #sequence = 0
  #parts: Part[] = []
  #waiting = 0
  #refused: SandgateError | undefined
  #up = false // whether the sent parts are on a connected link

  constructor(attachment: Attachment) {
    this.#attachment = attachment
  }

  write(data: Uint8Array, flags: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const refused = this.#refusal()
      if (refused) return this.#over(flags) ? resolve() : reject(refused)
      if (signal?.aborted) return reject(aborted(signal))
      if (this.#parts.length > 0 && this.#waiting + data.length > maxWaiting) {
        return reject(new SandgateError('exhausted', `${this.#waiting} bytes wait for the program to read them`))
      }
      let settled = (e?: SandgateError) => {
        settled = () => {}
        signal?.removeEventListener('abort', abort)
        if (e) reject(e)
        else resolve()
      }
      const mine = new Set<Part>()
      const abort = () => {
        // Unsent parts are dropped. The result of sent ones is not reported.
        const dropped = this.#parts.filter((p) => mine.has(p) && p.sequence === 0)
        for (const p of dropped) this.#waiting -= p.data.length
        this.#parts = this.#parts.filter((p) => !dropped.includes(p))
        settled(aborted(signal!))
      }
      signal?.addEventListener('abort', abort, { once: true })
      const copy = data.slice()
      const size = flags === inputFlag.paste ? limits.input : maxPart
      for (let at = 0; at < copy.length || (at === 0 && flags === inputFlag.end); at += size) {
        const data = copy.subarray(at, at + size)
        const part: Part = { sequence: 0, data, flags, sent: false, last: at + data.length >= copy.length, settled: (e) => settled(e) }
        mine.add(part)
        this.#parts.push(part)
        this.#waiting += data.length
      }
      if (mine.size === 0) return settled()
      this.#pump()
    })
  }

  /** Called when the attachment has changed. */
  changed(): void {
    const a = this.#attachment
    while (this.#parts[0] && this.#parts[0].sequence > 0 && this.#parts[0].sequence <= a.taken) {
      const p = this.#parts.shift()!
      this.#waiting -= p.data.length
      if (p.last) p.settled()
    }
    const refused = this.#refusal()
    if (refused) {
      const failed = this.#parts
      this.#parts = []
      this.#waiting = 0
      for (const p of failed) p.settled(this.#over(p.flags) ? undefined : refused)
      return
    }
    if (a.attached && !this.#up) for (const p of this.#parts) p.sent = false
    this.#up = a.attached
    this.#pump()
  }

  /** Whether input ends that has no reader any more: the program ended first, which is no error. */
  #over(flags: number): boolean {
    return flags === inputFlag.end && this.#attachment.exited
  }

  #refusal(): SandgateError | undefined {
    const a = this.#attachment
    if (a.exited) return new SandgateError('conflict', 'the program has ended')
    return (this.#refused ??= a.error ?? a.refused)
  }

  #pump(): void {
    const a = this.#attachment
    if (!a.attached) return
    let ahead = 0
    let frames = 0
    for (const p of this.#parts) {
      if (!p.sent) {
        if (frames >= maxFrames || (frames > 0 && ahead + p.data.length > maxAhead)) return
        p.sent = true
        if (p.sequence === 0) p.sequence = ++this.#sequence
        a.frame(encodeInput(a.ch, p.sequence, p.data, p.flags))
      }
      ahead += p.data.length
      frames++
    }
  }
}
