/** The maximum number of bytes of a sequence that draws a picture. */
export const maxSequence = 4 << 20

/** A sequence that draws a picture: sixel (DCS q), or a part of iTerm's protocol (OSC 1337). */
export type Sequence = { kind: 'sixel' | 'inline'; data: Uint8Array } | { kind: 'large' }

const ESC = 0x1b
const BEL = 0x07
const CAN = 0x18
const SUB = 0x1a
const none = new Uint8Array(0)

/** The beginning of an OSC of iTerm. */
const iterm = [...'1337;'].map((c) => c.charCodeAt(0))
/** The OSCs of iTerm that transfer files. Others, such as the folder of the shell, draw nothing. */
const files = /^(?:File|MultipartFile|FilePart)=|^FileEnd/
/** The maximum length of the parameters before the data of a sixel picture. */
const maxParameters = 32

/**
 * Takes the sequences that draw pictures out of a program's output, which may be cut at any byte.
 * As in a terminal, ESC begins a sequence wherever it is.
 */
export class Extractor {
  #held: Uint8Array = none // the bytes at the end that the next ones decide about
  #open: { kind: 'sixel' | 'inline'; parts: Uint8Array[]; size: number } | undefined

  /** Returns the bytes for the terminal and the pictures, in order. */
  cut(output: Uint8Array): (Uint8Array | Sequence)[] {
    const chunk = this.#held.length > 0 ? joined([this.#held, output]) : output
    this.#held = none
    const pieces: (Uint8Array | Sequence)[] = []
    let from = 0 // the first byte that has not been handed out
    for (let i = 0; i < chunk.length;) {
      if (!this.#open) {
        const esc = chunk.indexOf(ESC, i)
        if (esc < 0) break
        const begun = opening(chunk, esc)
        if (!begun) {
          i = esc + 1
          continue
        }
        if (esc > from) pieces.push(chunk.subarray(from, esc))
        if (begun === 'undecided') {
          this.#held = chunk.slice(esc)
          return pieces
        }
        this.#open = { kind: begun.kind, parts: [], size: 0 }
        i = from = begun.at
        continue
      }
      const end = ending(chunk, i, this.#open.kind)
      this.#add(chunk.subarray(i, end))
      if (end >= chunk.length - (chunk[end] === ESC ? 1 : 0)) {
        this.#held = chunk.slice(end)
        return pieces
      }
      if (chunk[end] !== CAN && chunk[end] !== SUB) pieces.push(...this.#whole())
      this.#open = undefined
      // A terminator belongs to the picture. Any other control is the terminal's.
      i = from = chunk[end] === BEL ? end + 1 : chunk[end] === ESC && chunk[end + 1] === 0x5c ? end + 2 : end
    }
    if (!this.#open && from < chunk.length) pieces.push(chunk.subarray(from))
    return pieces
  }

  /** Forgets a sequence that has begun. */
  reset(): void {
    this.#held = none
    this.#open = undefined
  }

  #add(data: Uint8Array): void {
    const open = this.#open!
    if (data.length === 0) return
    open.size += data.length
    if (open.size <= maxSequence) open.parts.push(data.slice())
    else open.parts.splice(1)
  }

  #whole(): Sequence[] {
    const { kind, parts, size } = this.#open!
    const data = joined(parts)
    if (kind === 'inline' && !files.test(latin(data.subarray(0, 16)))) return []
    return [size > maxSequence ? { kind: 'large' } : { kind, data }]
  }
}

/**
 * Returns the kind of the picture that begins at ESC, and where its data begins; undefined if
 * something else begins there.
 */
function opening(chunk: Uint8Array, esc: number): { kind: 'sixel' | 'inline'; at: number } | 'undecided' | undefined {
  let i = esc + 2
  switch (chunk[esc + 1]) {
    case undefined:
      return 'undecided'
    case 0x50: // P
      while ((chunk[i]! >= 0x30 && chunk[i]! <= 0x39) || chunk[i] === 0x3b) i++
      if (i - esc > maxParameters) return undefined
      return i === chunk.length ? 'undecided' : chunk[i] === 0x71 ? { kind: 'sixel', at: i + 1 } : undefined
    case 0x5d: // ]
      for (const c of iterm) {
        if (i === chunk.length) return 'undecided'
        if (chunk[i++] !== c) return undefined
      }
      return { kind: 'inline', at: i }
  }
  return undefined
}

/** Returns where the data of a picture ends: at a control that ends it, or with the chunk. */
function ending(chunk: Uint8Array, from: number, kind: 'sixel' | 'inline'): number {
  let i = from
  for (; i < chunk.length; i++) {
    const c = chunk[i]!
    if (c === ESC || c === CAN || c === SUB || (c === BEL && kind === 'inline')) break
  }
  return i
}

function joined(parts: Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0))
  let at = 0
  for (const p of parts) {
    all.set(p, at)
    at += p.length
  }
  return all
}

/** Returns bytes as text, one character each. A TextDecoder would take latin1 for Windows-1252. */
export function latin(bytes: Uint8Array): string {
  let text = ''
  for (let i = 0; i < bytes.length; i += 4096) text += String.fromCharCode(...bytes.subarray(i, i + 4096))
  return text
}
