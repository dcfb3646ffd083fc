/** A piece of text in one style; style is a list of classes. */
export interface Span {
  text: string
  style: string
}

/** The maximum number of characters of a line. Further ones go to the next line. */
const maxLine = 20_000

const token = /\x1b(?:\[([0-9;:?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])|./gsu
const unfinished = /\x1b(?:\[[0-9;:? -/]*|\][^\x07\x1b]*\x1b?|[ -/]*)?$/

/**
 * The lines of a program's text. Carriage returns, backspaces, colours and "erase to the end of the
 * line" work as in a terminal. All other cursor movements are left out.
 */
export class Text {
  #line: [string, string][] = []
  #at = 0
  #style = ''
  #held = ''
  readonly #done: (line: Span[]) => void

  /** done receives each line when it can no longer change. */
  constructor(done: (line: Span[]) => void) {
    this.#done = done
  }

  /** Takes output of the program. style is added to the style of the text. */
  write(text: string, style = ''): void {
    text = this.#held + text
    this.#held = unfinished.exec(text)?.[0].slice(0, 200) ?? ''
    if (this.#held) text = text.slice(0, -this.#held.length)
    for (const [c, params, final] of text.matchAll(token)) {
      if (final === 'm') this.#colour(params!)
      else if (final === 'K') this.#line.length = params === '2' ? 0 : Math.min(this.#at, this.#line.length)
      else if (c === '\n') this.end()
      else if (c === '\r') this.#at = 0
      else if (c === '\b') this.#at = Math.max(this.#at - 1, 0)
      else if (c >= ' ' || c === '\t') {
        if (this.#at >= maxLine) this.end()
        while (this.#line.length < this.#at) this.#line.push([' ', ''])
        this.#line[this.#at++] = [c, style + this.#style]
      }
    }
  }

  /** Ends the line. */
  end(): void {
    this.#done(this.line)
    this.#line = []
    this.#at = 0
  }

  /** The last line, which may still change. */
  get line(): Span[] {
    const out: Span[] = []
    for (const [text, style] of this.#line) {
      const last = out.at(-1)
      if (last?.style === style) last.text += text
      else out.push({ text, style })
    }
    return out
  }

  #colour(params: string): void {
    const codes = params.split(/[;:]/).map(Number)
    const drop = (what: RegExp) => {
      this.#style = this.#style.replace(what, '')
    }
    for (let i = 0; i < codes.length; i++) {
      const n = codes[i]!
      if (n === 0) this.#style = ''
      else if (n === 1) this.#style += ' b'
      else if (n === 22) drop(/ b/g)
      else if (n === 38 || n === 48) i += codes[i + 1] === 5 ? 2 : 4
      else if (n > 29 && n < 98 && (n < 40 || n > 89)) {
        drop(/ c./)
        if (n % 10 < 8) this.#style += ` c${n % 10}`
      }
    }
  }
}
