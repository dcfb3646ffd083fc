/** The maximum number of pixels of a picture, and of its width and height. */
export const maxPixels = 4_000_000
export const maxSide = 4096

/** A decoded picture: four bytes for each pixel. */
export interface Pixels {
  width: number
  height: number
  data: Uint8ClampedArray<ArrayBuffer>
}

/** How often each pixel can be painted, on average. Usual pictures paint each pixel once. */
const maxPaint = 8
const registers = 1024
/** The first colours of a VT340, in percent. */
const initial = [
  [0, 0, 0], [20, 20, 80], [80, 13, 13], [20, 80, 20], [80, 20, 80], [20, 80, 80], [80, 80, 20], [53, 53, 53],
  [26, 26, 26], [33, 33, 60], [60, 26, 26], [33, 60, 33], [60, 33, 60], [33, 60, 60], [60, 60, 33], [80, 80, 80],
] as const

/** The commands in the data of a sixel picture. */
interface Commands {
  /** The size that the program has announced. */
  size(width: number, height: number): void
  colour(register: number, definition: number[]): void
  /** Paints columns of six pixels: bit 0 is the top. It returns false to stop. */
  paint(x: number, top: number, columns: number, bits: number): boolean
}

/**
 * Decodes the data of a sixel picture; undefined if it is empty. Pixels that are not painted are
 * transparent.
 */
export function decodeSixel(bytes: Uint8Array): Pixels | 'large' | undefined {
  let announced = { width: 0, height: 0 }
  let width = 0
  let height = 0
  const fits = read(bytes, {
    size: (w, h) => (announced = { width: w, height: h }),
    colour() {},
    paint(x, top, columns, bits) {
      if (bits !== 0) {
        width = Math.max(width, x + columns)
        height = Math.max(height, top + 32 - Math.clz32(bits))
      }
      return x + columns <= maxSide && top < maxSide
    },
  })
  if (announced.width > 0) width = announced.width
  if (announced.height > 0) height = announced.height
  if (!fits || width > maxSide || height > maxSide || width * height > maxPixels) return 'large'
  if (width === 0 || height === 0) return undefined

  const pixels = new Uint32Array(width * height)
  const palette = new Uint32Array(registers)
  initial.forEach(([r, g, b], i) => (palette[i] = rgb(r, g, b)))
  let colour = palette[0]!
  let left = maxPaint * pixels.length
  read(bytes, {
    size() {},
    colour(register, [space, a = 0, b = 0, c = 0]) {
      if (space === 2) palette[register] = rgb(a, b, c)
      else if (space === 1) palette[register] = hls(a, b, c)
      colour = palette[register]!
    },
    paint(x, top, columns, bits) {
      const end = Math.min(x + columns, width)
      for (let y = top; bits !== 0 && y < height; y++, bits >>= 1) {
        if ((bits & 1) === 0 || x >= end) continue
        pixels.fill(colour, y * width + x, y * width + end)
        left -= end - x
      }
      return left > 0
    },
  })
  return { width, height, data: new Uint8ClampedArray(pixels.buffer) }
}

/** Reads the commands. Returns false if paint has stopped it. */
function read(bytes: Uint8Array, on: Commands): boolean {
  let i = 0
  let x = 0
  let top = 0
  const number = () => {
    let n = 0
    for (; bytes[i]! >= 0x30 && bytes[i]! <= 0x39; i++) n = Math.min(10 * n + bytes[i]! - 0x30, 1_000_000)
    return n
  }
  const numbers = () => {
    const all = [number()]
    while (bytes[i] === 0x3b) {
      i++
      const n = number()
      if (all.length < 5) all.push(n)
    }
    return all
  }
  while (i < bytes.length) {
    const c = bytes[i++]!
    let columns = 1
    let sixel = c
    switch (c) {
      case 0x21: // ! repeats the next sixel
        columns = Math.max(1, number())
        sixel = bytes[i]!
        if (!isSixel(sixel)) continue
        i++
        break
      case 0x22: { // " announces the size, after the shape of a pixel
        const [, , width = 0, height = 0] = numbers()
        on.size(width, height)
        continue
      }
      case 0x23: { // # selects or defines a colour
        const [register, ...definition] = numbers()
        on.colour(register! % registers, definition)
        continue
      }
      case 0x24: // $ returns to the left
        x = 0
        continue
      case 0x2d: // - begins the next six rows
        x = 0
        top += 6
        continue
    }
    if (!isSixel(sixel)) continue
    if (!on.paint(x, top, columns, sixel - 0x3f)) return false
    x += columns
  }
  return true
}

const isSixel = (c: number | undefined): c is number => c !== undefined && c >= 0x3f && c <= 0x7e

/** Returns a pixel of a colour in percent. */
function rgb(r: number, g: number, b: number): number {
  const byte = (percent: number) => Math.round((Math.min(percent, 100) * 255) / 100)
  return ((255 << 24) | (byte(b) << 16) | (byte(g) << 8) | byte(r)) >>> 0
}

/** Returns a pixel of a hue in degrees, from blue, and a lightness and saturation in percent. */
function hls(hue: number, lightness: number, saturation: number): number {
  const l = Math.min(lightness, 100) / 100
  const spread = (Math.min(saturation, 100) / 100) * Math.min(l, 1 - l)
  const part = (n: number) => {
    const k = (n + (hue + 240) / 30) % 12
    return 100 * (l - spread * Math.max(-1, Math.min(k - 3, 9 - k, 1)))
  }
  return rgb(part(0), part(8), part(4))
}
