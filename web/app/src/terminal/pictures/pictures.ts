import type { IDisposable, Terminal } from '@xterm/xterm'
import { Extractor, type Sequence } from './extract'
import type { Layer } from './layer'

/** The maximum size of a picture for programs that ask, in pixels: its width and height. */
const maxAsked = 2000
const colours = 256

/**
 * Writes a program's output to a terminal, with its pictures: sixel, and iTerm's protocol. xterm's
 * own addon decodes them with WebAssembly, which the page's policy does not allow. The code that
 * draws is loaded with the first picture.
 */
export class Pictures {
  readonly #term: Terminal
  readonly #extractor = new Extractor()
  readonly #handlers: IDisposable[]
  #layer: Layer | undefined
  #last: Promise<void> = Promise.resolve()
  #generation = 0

  constructor(term: Terminal) {
    this.#term = term
    // Programs look here for the size of a cell, and whether the terminal shows pictures.
    term.options.windowOptions = { getWinSizePixels: true, getCellSizePixels: true, getWinSizeChars: true }
    const answer = (text: string) => {
      term.input(text, false)
      return true
    }
    this.#handlers = [
      term.parser.registerCsiHandler({ final: 'c' }, ([kind]) => (kind ? true : answer('\x1b[?62;4;9;22c'))),
      term.parser.registerCsiHandler({ prefix: '?', final: 'S' }, ([item, action]) => {
        const reads = action === 1 || action === 4
        if (item === 1 && reads) return answer(`\x1b[?1;0;${colours}S`)
        if (item === 2 && reads) return answer(`\x1b[?2;0;${maxAsked};${maxAsked}S`)
        return answer(`\x1b[?${Number(item) || 0};${item === 1 || item === 2 ? 2 : 1}S`)
      }),
      term.parser.registerEscHandler({ final: 'c' }, () => {
        this.#layer?.clear()
        return false
      }),
    ]
  }

  /** Resolves when the output is on the screen. */
  write(output: string | Uint8Array): Promise<void> {
    const bytes = typeof output === 'string' ? new TextEncoder().encode(output) : output
    return this.after(() => this.#put(bytes))
  }

  /** Does something when everything before is on the screen, unless the terminal is reset. */
  after(action: () => void | Promise<void>): Promise<void> {
    const generation = this.#generation
    const done = this.#last.then(() => (generation === this.#generation ? action() : undefined))
    this.#last = done.catch(() => {})
    return done
  }

  /** Resets the terminal. Output that is not on the screen yet is dropped. */
  reset(): void {
    this.#generation++
    this.#extractor.reset()
    this.#layer?.clear()
    this.#term.reset()
  }

  dispose(): void {
    this.#generation++
    for (const h of this.#handlers) h.dispose()
    this.#layer?.dispose()
  }

  async #put(bytes: Uint8Array): Promise<void> {
    const generation = this.#generation
    for (const piece of this.#extractor.cut(bytes)) {
      if (generation !== this.#generation) return
      if (piece instanceof Uint8Array) await new Promise<void>((resolve) => this.#term.write(piece, resolve))
      else await this.#draw(piece, () => generation === this.#generation)
    }
  }

  async #draw(sequence: Sequence, same: () => boolean): Promise<void> {
    try {
      if (!this.#layer) {
        const { Layer } = await import('./layer')
        if (!same()) return
        this.#layer = new Layer(this.#term)
      }
      await this.#layer.show(sequence, same)
    } catch (e) {
      console.warn('a picture was not shown', e) // the text after it is
    }
  }
}
