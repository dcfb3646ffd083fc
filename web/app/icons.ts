import { crc32, deflateSync } from 'node:zlib'

type Colour = [red: number, green: number, blue: number]
const teal: Colour = [0x0b, 0x6e, 0x6e]
const sand: Colour = [0xf4, 0xe3, 0xbf]

/** The colour of src/icon.svg at a place in its square of 32; undefined outside of its corners. */
function colourAt(x: number, y: number, full: boolean): Colour | undefined {
  const corner = Math.hypot(Math.max(7 - x, x - 25, 0), Math.max(7 - y, y - 25, 0))
  if (!full && corner > 7) return undefined
  const arch = (radius: number) => Math.abs(x - 16) <= radius && y <= 25 && (y >= 14 || Math.hypot(x - 16, y - 14) <= radius)
  const gate = arch(9) && !arch(4)
  const person = Math.abs(x - 16) <= 2 && y <= 25 && y >= 16 + Math.abs(x - 16)
  return gate || person ? sand : teal
}

/** Returns the icon as PNG. A maskable one fills its square, with the picture in its middle. */
export function icon(size: number, maskable = false): Buffer {
  const samples = 4
  const rows = Buffer.alloc(size * (1 + 4 * size))
  const place = (at: number) => (maskable ? 16 + (at * 32 / size - 16) / 0.75 : at * 32 / size)
  for (let py = 0; py < size; py++) {
    for (let px = 0; px < size; px++) {
      const sum = [0, 0, 0, 0]
      for (let i = 0; i < samples * samples; i++) {
        const c = colourAt(place(px + ((i % samples) + 0.5) / samples), place(py + (Math.floor(i / samples) + 0.5) / samples), maskable)
        if (c) [...c, 1].forEach((v, k) => (sum[k]! += v))
      }
      const n = sum[3]!
      const at = py * (1 + 4 * size) + 1 + 4 * px
      for (let k = 0; k < 3; k++) rows[at + k] = n ? Math.round(sum[k]! / n) : 0
      rows[at + 3] = Math.round((255 * n) / (samples * samples))
    }
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(size, 0)
  head.writeUInt32BE(size, 4)
  head.set([8, 6, 0, 0, 0], 8)
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', deflateSync(rows, { level: 9 })), chunk('IEND', Buffer.alloc(0))])
}

function chunk(type: string, data: Buffer): Buffer {
  const out = Buffer.alloc(12 + data.length)
  out.writeUInt32BE(data.length, 0)
  out.write(type, 4, 'latin1')
  data.copy(out, 8)
  out.writeUInt32BE(crc32(out.subarray(4, 8 + data.length)), 8 + data.length)
  return out
}
