// Reads and writes PNG files: 8 bits, RGB or RGBA, as Chromium makes them.
import { crc32, deflateSync, inflateSync } from 'node:zlib'

export interface Picture {
  width: number
  height: number
  /** Four bytes a pixel. */
  data: Uint8Array
}

export function readPNG(file: Buffer): Picture {
  let width = 0
  let height = 0
  let channels = 0
  const parts: Buffer[] = []
  for (let at = 8; at < file.length;) {
    const size = file.readUInt32BE(at)
    const kind = file.toString('latin1', at + 4, at + 8)
    const body = file.subarray(at + 8, at + 8 + size)
    if (kind === 'IHDR') {
      width = body.readUInt32BE(0)
      height = body.readUInt32BE(4)
      channels = { 2: 3, 6: 4 }[body[9]!] ?? 0
      if (body[8] !== 8 || !channels || body[12] !== 0) throw new Error('the picture has another format')
    } else if (kind === 'IDAT') parts.push(body)
    at += 12 + size
  }
  const raw = inflateSync(Buffer.concat(parts))
  const row = width * channels
  const data = new Uint8Array(width * height * 4)
  let before = new Uint8Array(row)
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (row + 1)]!
    const line = new Uint8Array(raw.subarray(y * (row + 1) + 1, (y + 1) * (row + 1)))
    for (let i = 0; i < row; i++) {
      const left = i < channels ? 0 : line[i - channels]!
      const up = before[i]!
      const corner = i < channels ? 0 : before[i - channels]!
      line[i] = line[i]! + (filter === 1 ? left : filter === 2 ? up : filter === 3 ? (left + up) >> 1 : filter === 4 ? paeth(left, up, corner) : 0)
    }
    for (let x = 0; x < width; x++) {
      for (let c = 0; c < 4; c++) data[(y * width + x) * 4 + c] = c < channels ? line[x * channels + c]! : 255
    }
    before = line
  }
  return { width, height, data }
}

function paeth(a: number, b: number, c: number): number {
  const p = a + b - c
  const [pa, pb, pc] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)]
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c
}

export function writePNG({ width, height, data }: Picture): Buffer {
  const raw = Buffer.alloc(height * (width * 4 + 1))
  for (let y = 0; y < height; y++) raw.set(data.subarray(y * width * 4, (y + 1) * width * 4), y * (width * 4 + 1) + 1)
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 6, 0, 0, 0], 8)
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', deflateSync(raw)), chunk('IEND', Buffer.alloc(0))])
}

function chunk(kind: string, body: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(kind, 'latin1'), body])
  const [size, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  size.writeUInt32BE(body.length)
  sum.writeUInt32BE(crc32(named))
  return Buffer.concat([size, named, sum])
}
