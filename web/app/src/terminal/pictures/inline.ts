import { latin, maxSequence } from './extract'
import { maxSide } from './sixel'

/** A picture in iTerm's protocol: a file, and the size with which the program wants to see it. */
export interface Inline {
  name: string
  /** A number of cells, pixels (10px) or percent (10%) of the terminal, or auto. */
  width: string
  height: string
  /** Whether the picture keeps its shape. */
  shape: boolean
  /** Whether the cursor stays where it is. */
  stay: boolean
  file: Uint8Array<ArrayBuffer>
}

export interface Size {
  width: number
  height: number
}

/** Reads the OSCs of iTerm's protocol, in which a file may have several parts. */
export class Inlines {
  #parts: string[] | undefined
  #size = 0

  /** Returns the picture that a sequence completes; large if it has too many bytes. */
  take(sequence: Uint8Array): Inline | 'large' | undefined {
    const text = latin(sequence)
    if (text.startsWith('File=')) return parseInline(text.slice(5))
    if (text.startsWith('MultipartFile=')) {
      this.#parts = [`${text.slice(14)}:`]
      this.#size = 0
      return undefined
    }
    if (!this.#parts) return undefined
    if (text.startsWith('FilePart=')) {
      this.#size += text.length - 9
      if (this.#size <= maxSequence) this.#parts.push(text.slice(9))
      return undefined
    }
    const whole = this.#parts.join('')
    this.#parts = undefined
    return this.#size > maxSequence ? 'large' : parseInline(whole)
  }
}

/** Parses the arguments of a file and its content; undefined if it is not to be shown. */
export function parseInline(text: string): Inline | undefined {
  const colon = text.indexOf(':')
  const given = new Map(text.slice(0, Math.max(colon, 0)).split(';').map((pair) => {
    const at = pair.indexOf('=')
    return [pair.slice(0, at), pair.slice(at + 1)] as const
  }))
  const file = decoded(text.slice(colon + 1))
  if (colon < 0 || given.get('inline') !== '1' || !file) return undefined
  const name = decoded(given.get('name') ?? '')
  return {
    name: name ? new TextDecoder().decode(name) : '',
    width: given.get('width') ?? 'auto', height: given.get('height') ?? 'auto',
    shape: given.get('preserveAspectRatio') !== '0', stay: given.get('doNotMoveCursor') === '1', file,
  }
}

function decoded(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))
  } catch {
    return undefined
  }
}

/** Returns the type and size of a PNG, GIF or JPEG from its first bytes, without decoding it. */
export function kindOf(file: Uint8Array): (Size & { type: string }) | undefined {
  const v = new DataView(file.buffer, file.byteOffset, file.byteLength)
  const head = latin(file.subarray(0, 8))
  if (head === '\x89PNG\r\n\x1a\n' && file.length >= 24) return { type: 'image/png', width: v.getUint32(16), height: v.getUint32(20) }
  if (/^GIF8[79]a/.test(head) && file.length >= 10) return { type: 'image/gif', width: v.getUint16(6, true), height: v.getUint16(8, true) }
  if (!head.startsWith('\xff\xd8')) return undefined
  for (let i = 2; i + 9 <= file.length && file[i] === 0xff;) {
    const marker = file[i + 1]!
    // The frame has the size. C4, C8 and CC are other tables.
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) return { type: 'image/jpeg', width: v.getUint16(i + 7), height: v.getUint16(i + 5) }
    i += marker === 0xff ? 1 : 2 + v.getUint16(i + 2)
  }
  return undefined
}

/** The size of a cell, and of the terminal in cells. */
export interface Room {
  cell: Size
  cols: number
  rows: number
}

/**
 * Returns the size of a picture in whole pixels, as the program wants it. Without a wish, a picture
 * that is wider than the terminal is made to fit. No side is larger than maxSide.
 */
export function measure(i: Pick<Inline, 'width' | 'height' | 'shape'>, natural: Size, room: Room): Size {
  const { width, height } = wish(i, natural, room)
  const scale = Math.min(1, maxSide / width, maxSide / height)
  const whole = (px: number) => Math.max(1, Math.round(px * scale))
  return { width: whole(width), height: whole(height) }
}

function wish(i: Pick<Inline, 'width' | 'height' | 'shape'>, natural: Size, { cell, cols, rows }: Room): Size {
  const wanted = (text: string, size: number, most: number): number | undefined => {
    const [, digits, unit] = /^(\d{1,6})(px|%)?$/.exec(text) ?? []
    if (!digits || Number(digits) === 0) return undefined
    return unit === 'px' ? Number(digits) : unit === '%' ? (Number(digits) * most) / 100 : Number(digits) * size
  }
  const most = cols * cell.width
  const width = wanted(i.width, cell.width, most)
  const height = wanted(i.height, cell.height, rows * cell.height)
  const shape = natural.height / natural.width
  if (width !== undefined && height !== undefined) {
    if (!i.shape) return { width, height }
    const fitting = Math.min(width, height / shape)
    return { width: fitting, height: fitting * shape }
  }
  const w = width ?? (height === undefined ? Math.min(natural.width, most) : height / shape)
  return { width: w, height: height ?? w * shape }
}
