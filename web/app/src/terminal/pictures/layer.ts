import type { IDisposable, IMarker, Terminal } from '@xterm/xterm'
import { number, t } from '../../language/texts'
import { cleanTitle } from '../text'
import { maxSequence, type Sequence } from './extract'
import { Inlines, kindOf, measure, type Inline, type Room, type Size } from './inline'
import { decodeSixel, maxPixels } from './sixel'

/** The maximum number of bytes of the pictures of a terminal, and of pictures. */
const maxBytes = 32_000_000
const maxPictures = 200
/** The maximum number of pixels of a file whose picture is made smaller. */
const maxSource = 50_000_000

/** A picture, and the cells that it takes. */
interface Drawn {
  canvas: HTMLCanvasElement
  name: string
  cols: number
  rows: number
  /** The pixels of the canvas that are in one cell. */
  step: { x: number; y: number }
  /** Where the cursor goes: nowhere, or to an end of the last row. */
  cursor: 'stays' | 'left' | 'right'
}

interface Picture extends Drawn {
  col: number
  alternate: boolean
  /** The line of each row; undefined for rows that are gone. */
  lines: (IMarker | undefined)[]
  /** The cells where something else was printed, row by row, and the number of others. */
  erased: Uint8Array
  left: number
}

/**
 * The pictures of a terminal. They follow their lines, and disappear where a program prints
 * something else.
 */
export class Layer {
  readonly #term: Terminal
  readonly #element = document.createElement('div')
  readonly #inlines = new Inlines()
  readonly #rendered: IDisposable
  #pictures: Picture[] = []
  #cell: Size

  constructor(term: Terminal) {
    this.#term = term
    const size = term.options.fontSize ?? 15
    this.#cell = { width: 0.6 * size, height: 1.2 * size } // until the terminal can be measured
    this.#element.className = 'pictures'
    this.#screen?.append(this.#element)
    this.#rendered = term.onRender(({ start, end }) => this.#render(start, end))
  }

  get #screen(): Element | null | undefined {
    return this.#term.element?.querySelector('.xterm-screen')
  }

  /** Draws a picture at the cursor, unless the terminal is another one when it is decoded. */
  async show(sequence: Sequence, same: () => boolean): Promise<void> {
    const room = this.#room()
    const drawn = await this.#decode(sequence, room)
    if (!same() || !drawn) return
    if (typeof drawn === 'string') return this.#write(`[${drawn}]`)
    await this.#place(drawn, same)
  }

  /** Removes all pictures. */
  clear(): void {
    for (const p of [...this.#pictures]) this.#remove(p)
  }

  dispose(): void {
    this.#rendered.dispose()
    this.clear()
    this.#element.remove()
  }

  #write(text: string): Promise<void> {
    return new Promise((resolve) => this.#term.write(text, resolve))
  }

  /** Measures the terminal. Programs learn the size of a cell in whole pixels. */
  #room(): Room {
    const { cols, rows } = this.#term
    const { width = 0, height = 0 } = this.#screen?.getBoundingClientRect() ?? {}
    if (width > 0 && height > 0) this.#cell = { width: width / cols, height: height / rows }
    const whole = (px: number) => Math.max(1, Math.round(px))
    return { cell: { width: whole(this.#cell.width), height: whole(this.#cell.height) }, cols, rows }
  }

  /** Returns the picture, a text for people, or nothing if there is nothing to show. */
  async #decode(sequence: Sequence, room: Room): Promise<Drawn | string | undefined> {
    if (sequence.kind === 'large') return tooLong()
    if (sequence.kind === 'inline') {
      const inline = this.#inlines.take(sequence.data)
      return inline === 'large' ? tooLong() : inline && fileOf(inline, room)
    }
    const pixels = decodeSixel(sequence.data)
    if (!pixels || pixels === 'large') return pixels && tooMany()
    const canvas = canvasOf(pixels.width, pixels.height)
    canvas.getContext('2d')!.putImageData(new ImageData(pixels.data, pixels.width, pixels.height), 0, 0)
    return { canvas, name: '', cursor: 'left', ...cellsOf(canvas, canvas, room) }
  }

  async #place(drawn: Drawn, same: () => boolean): Promise<void> {
    const { canvas, rows, cursor } = drawn
    const { active } = this.#term.buffer
    const col = Math.min(active.cursorX, this.#term.cols - 1)
    const cols = Math.min(drawn.cols, this.#term.cols - col)
    const row = `\x1b[${cols}X`
    await this.#write(`${cursor === 'stays' ? '\x1b7' : ''}${Array<string>(rows).fill(row).join('\x1bD')}`)
    if (!same()) return
    const picture: Picture = {
      ...drawn, cols, col, alternate: active.type === 'alternate', lines: [], erased: new Uint8Array(cols * rows), left: cols * rows,
    }
    canvas.setAttribute('role', 'img')
    const size = { width: canvas.width, height: canvas.height }
    canvas.ariaLabel = drawn.name ? t('Picture {name}, {width} by {height} pixels', { name: drawn.name, ...size }) : t('Picture, {width} by {height} pixels', size)
    const bottom = active.baseY + active.cursorY
    this.#eraseOthers(bottom - rows + 1, picture)
    this.#pictures.push(picture)
    for (let r = 0; r < rows; r++) {
      if (bottom - rows + 1 + r < 0) {
        this.#erase(picture, r, 0, cols)
        continue
      }
      const line = this.#term.registerMarker(r - rows + 1)
      picture.lines[r] = line
      line.onDispose(() => {
        picture.lines[r] = undefined
        this.#erase(picture, r, 0, cols)
      })
    }
    while (this.#pictures.length > maxPictures || this.#pictures.reduce((n, p) => n + 4 * p.canvas.width * p.canvas.height, 0) > maxBytes) this.#remove(this.#pictures[0]!)
    await this.#write(cursor === 'stays' ? '\x1b8' : cursor === 'right' ? `\x1b[${cols}C` : '')
  }

  /** Erases what a new picture covers of the others. */
  #eraseOthers(top: number, by: Picture): void {
    for (const p of [...this.#pictures]) {
      const first = topOf(p)
      if (p.alternate !== by.alternate || first === undefined) continue
      for (let r = Math.max(0, top - first); r < Math.min(p.rows, top + by.rows - first); r++) this.#erase(p, r, by.col - p.col, by.col + by.cols - p.col)
    }
  }

  /** Erases cells of a row. A picture without cells is removed. */
  #erase(p: Picture, row: number, from: number, to: number): void {
    const { step, cols } = p
    for (let c = Math.max(0, from); c < Math.min(cols, to); c++) {
      if (p.erased[row * cols + c]) continue
      p.erased[row * cols + c] = 1
      p.left--
      p.canvas.getContext('2d')!.clearRect(c * step.x, row * step.y, step.x, step.y)
    }
    if (p.left === 0) this.#remove(p)
  }

  #remove(p: Picture): void {
    if (!this.#pictures.includes(p)) return
    this.#pictures = this.#pictures.filter((other) => other !== p)
    p.canvas.remove()
    for (const line of p.lines) line?.dispose()
  }

  /** Puts the pictures to their lines, and erases cells of these rows that have other content. */
  #render(start: number, end: number): void {
    if (this.#pictures.length === 0) return
    const { active } = this.#term.buffer
    const cell = active.getNullCell()
    for (const p of [...this.#pictures]) {
      const top = topOf(p)
      if (top === undefined) continue
      const row = top - active.viewportY
      if (p.alternate !== (active.type === 'alternate') || row >= this.#term.rows || row + p.rows <= 0) {
        p.canvas.remove()
        continue
      }
      for (let y = Math.max(start, row); y <= Math.min(end, row + p.rows - 1); y++) {
        const line = active.getLine(active.viewportY + y)
        for (let c = 0; line && c < p.cols; c++) if (line.getCell(p.col + c, cell)?.getCode()) this.#erase(p, y - row, c, c + 1)
      }
      if (!this.#pictures.includes(p)) continue
      const { style } = p.canvas
      style.left = percent(p.col / this.#term.cols)
      style.top = percent(row / this.#term.rows)
      style.width = percent(p.canvas.width / p.step.x / this.#term.cols)
      style.height = percent(p.canvas.height / p.step.y / this.#term.rows)
      if (!p.canvas.isConnected) this.#element.append(p.canvas)
    }
  }
}

/** Returns the line of a picture's first row, also if that row is gone. */
function topOf(p: Picture): number | undefined {
  const r = p.lines.findIndex((line) => line && !line.isDisposed)
  return r < 0 ? undefined : p.lines[r]!.line - r
}

const percent = (part: number) => `${100 * part}%`
const tooLong = () => t('A picture of more than {n} MiB is not shown', { n: maxSequence >> 20 })
const tooMany = () => t('A picture of more than {n} pixels is not shown', { n: number(maxPixels) })

function canvasOf(width: number, height: number): HTMLCanvasElement {
  const canvas = document.createElement('canvas')
  canvas.width = width
  canvas.height = height
  return canvas
}

/** Returns the cells that a picture takes if it is shown in a size. */
function cellsOf(canvas: HTMLCanvasElement, shown: Size, { cell }: Room): Pick<Drawn, 'cols' | 'rows' | 'step'> {
  return {
    cols: Math.ceil(shown.width / cell.width), rows: Math.ceil(shown.height / cell.height),
    step: { x: (canvas.width / shown.width) * cell.width, y: (canvas.height / shown.height) * cell.height },
  }
}

/** Decodes a file. A large picture is made smaller. */
async function fileOf(inline: Inline, room: Room): Promise<Drawn | string> {
  const kind = kindOf(inline.file)
  if (!kind) return t('A picture of an unknown type is not shown')
  const pixels = kind.width * kind.height
  if (pixels > maxSource) return t('A picture of more than {n} pixels is not shown', { n: number(maxSource) })
  let bitmap: ImageBitmap
  try {
    bitmap = await createImageBitmap(new Blob([inline.file], { type: kind.type }), pixels > maxPixels ? { resizeWidth: Math.floor(kind.width * Math.sqrt(maxPixels / pixels)), resizeQuality: 'high' } : {})
  } catch {
    return t('A picture that is damaged is not shown')
  }
  const canvas = canvasOf(bitmap.width, bitmap.height)
  canvas.getContext('2d')!.drawImage(bitmap, 0, 0)
  bitmap.close()
  return { canvas, name: cleanTitle(inline.name), cursor: inline.stay ? 'stays' : 'right', ...cellsOf(canvas, measure(inline, canvas, room), room) }
}
