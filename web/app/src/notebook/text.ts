import { plural, t } from '../language/texts'
import { draw } from './frames'
import { node, plain, sequence, sgr, withErr, type Look } from './sgr'

/** The number of lines of a block that is drawn once and then left unchanged. */
const blockLines = 500
/** The number of lines at the end that a program can still change. */
const mutableLines = 100
/** The maximum number of characters of a line. Further ones are counted. */
const maxLine = 20_000
/**
 * The limit of lines and characters beside the first block. When it is reached, the oldest are
 * dropped.
 */
const maxLines = 200_000
const maxChars = 16 << 20

interface Run {
  text: string
  look: Look
}

class Line {
  runs: Run[] = []
  length = 0
  cut = 0
}

interface Block {
  el: HTMLElement
  lines: Line[]
  chars: number
}

/**
 * Text as a terminal's last lines show it: carriage returns, backspaces, cursor movement up and
 * down, erasing, colours. It is drawn as blocks of 500 lines, which the browser skips while they
 * are out of sight. Only the last block changes. Search and selection find all of it.
 */
export class TextView {
  readonly el: HTMLElement
  /** The number of lines that were dropped because there were too many. */
  dropped = 0
  #frozen: Block[] = []
  #chars = 0
  #lineCount = 0
  #tail: Line[] = [new Line()]
  #tailEl: HTMLElement
  #row = 0
  #col = 0
  #look = plain
  #rest = '' // the beginning of an incomplete sequence
  #added: Run[] = [] // runs added since the last drawing
  #rewrite = false
  /** Downloads the output including omitted parts, from the log. */
  download: (() => void) | undefined
  #note: HTMLElement | undefined
  #noteText: HTMLElement | undefined

  constructor() {
    this.el = document.createElement('div')
    this.el.className = 'text'
    this.#tailEl = this.#blockEl()
    this.el.append(this.#tailEl)
  }

  get lines(): number {
    return this.#lineCount + this.#tail.length - (this.#tail.at(-1)!.length === 0 ? 1 : 0)
  }

  #blockEl(): HTMLElement {
    const el = document.createElement('div')
    el.className = 'block'
    return el
  }

  write(text: string, err = false): void {
    this.#look = withErr(this.#look, err)
    if (this.#rest) {
      text = this.#rest + text
      this.#rest = ''
    }
    let at = 0
    // eslint-disable-next-line no-control-regex
    const control = /[\x00-\x08\n-\x1f\x7f\x9b]/g
    for (;;) {
      control.lastIndex = at
      const m = control.exec(text)
      this.#put(m ? text.slice(at, m.index) : text.slice(at))
      if (!m) break
      at = m.index + 1
      const c = m[0]
      if (c === '\n') this.#newline()
      else if (c === '\r') this.#col = 0
      else if (c === '\b') this.#col = Math.max(0, this.#col - 1)
      else if (c === '\x1b' || c === '\x9b') {
        const end = this.#escape(text, m.index)
        if (end < 0) {
          // A sequence that does not end is not a sequence.
          if (text.length - m.index < 4096) this.#rest = text.slice(m.index)
          break
        }
        at = end
      }
    }
    draw(this.#draw)
  }

  /**
   * Applies the sequence at from and returns the index after it, or −1 when its end has not arrived
   * yet.
   */
  #escape(text: string, from: number): number {
    const csi = text[from] === '\x9b' ? from + 1 : text[from + 1] === '[' ? from + 2 : -1
    if (csi > 0) {
      let end = csi
      while (end < text.length && !/[@-~]/.test(text[end]!)) end++
      if (end === text.length) return -1
      this.#csi(text.slice(csi, end), text[end]!)
      return end + 1
    }
    const kind = text[from + 1]
    if (kind === undefined) return -1
    if (kind === ']' || kind === 'P' || kind === '_' || kind === '^') { // strings that end with BEL or ST
      for (let i = from + 2; i < text.length; i++) {
        if (text[i] === '\x07') return i + 1
        if (text[i] === '\x1b') return i + 1 < text.length ? (text[i + 1] === '\\' ? i + 2 : i) : -1
      }
      return -1
    }
    return from + 2 + (kind === '(' || kind === ')' ? 1 : 0)
  }

  #csi(params: string, final: string): void {
    const n = Math.max(1, Number.parseInt(params, 10) || 1)
    const mode = Number.parseInt(params, 10) || 0
    switch (final) {
      case 'm':
        if (/^[\d;:]*$/.test(params)) this.#look = sgr(this.#look, params)
        break
      case 'A':
        this.#row = Math.max(0, this.#row - n)
        break
      case 'F':
        this.#row = Math.max(0, this.#row - n)
        this.#col = 0
        break
      case 'B': case 'E':
        this.#row = Math.min(this.#tail.length - 1, this.#row + n)
        if (final === 'E') this.#col = 0
        break
      case 'C':
        this.#col = Math.min(maxLine, this.#col + n)
        break
      case 'D':
        this.#col = Math.max(0, this.#col - n)
        break
      case 'G':
        this.#col = Math.min(maxLine, n - 1)
        break
      case 'K': {
        const line = this.#tail[this.#row]!
        if (mode === 0) this.#cut(line, this.#col)
        else if (mode === 2) this.#cut(line, 0)
        else this.#overwrite(line, 0, ' '.repeat(Math.min(this.#col + 1, line.length)))
        this.#rewrite = true
        break
      }
      case 'J':
        if (mode === 2 || mode === 3) this.clear()
        else if (mode === 0) {
          this.#cut(this.#tail[this.#row]!, this.#col)
          this.#tail.length = this.#row + 1
          this.#rewrite = true
        }
        break
    }
  }

  #put(text: string): void {
    if (text === '') return
    const line = this.#tail[this.#row]!
    if (this.#col + text.length > maxLine) {
      const room = Math.max(0, maxLine - this.#col)
      line.cut += text.length - room
      text = text.slice(0, room)
      this.#rewrite = true
      if (text === '') return
    }
    if (this.#col > line.length) {
      const pad = ' '.repeat(this.#col - line.length)
      this.#append(line, { text: pad, look: plain })
    }
    if (this.#col === line.length) this.#append(line, { text, look: this.#look })
    else {
      this.#overwrite(line, this.#col, text)
      this.#rewrite = true
    }
    this.#col += text.length
  }

  #append(line: Line, run: Run): void {
    const last = line.runs.at(-1)
    if (last && last.look === run.look) last.text += run.text
    else line.runs.push({ ...run })
    line.length += run.text.length
    this.#chars += run.text.length
    if (this.#row === this.#tail.length - 1) this.#add(run)
    else this.#rewrite = true
  }

  #add(run: Run): void {
    if (this.#rewrite) return
    const last = this.#added.at(-1)
    if (last && last.look === run.look) last.text += run.text
    else this.#added.push({ ...run })
  }

  #overwrite(line: Line, col: number, text: string): void {
    const before = slice(line.runs, 0, col)
    const after = slice(line.runs, col + text.length, line.length)
    line.runs = [...before, { text, look: this.#look }, ...after]
    const length = Math.max(line.length, col + text.length)
    this.#chars += length - line.length
    line.length = length
  }

  #cut(line: Line, col: number): void {
    if (col >= line.length) return
    line.runs = slice(line.runs, 0, col)
    this.#chars -= line.length - col
    line.length = col
    line.cut = 0
  }

  #newline(): void {
    this.#col = 0
    this.#row++
    if (this.#row < this.#tail.length) return
    this.#tail.push(new Line())
    this.#chars++
    this.#add({ text: '\n', look: plain })
    if (this.#tail.length > blockLines + mutableLines) this.#freeze()
  }

  #freeze(): void {
    this.#block(blockLines)
    while (this.#frozen.length > 2 && (this.#lineCount > maxLines || this.#chars > maxChars)) this.#drop()
  }

  /** Makes a block of the first changeable lines. */
  #block(count: number): void {
    const lines = this.#tail.splice(0, count)
    this.#row -= lines.length
    const el = this.#blockEl()
    el.append(...nodes(lines))
    el.style.containIntrinsicBlockSize = `auto ${lines.length * 1.45}em`
    this.el.insertBefore(el, this.#tailEl)
    const chars = lines.reduce((n, l) => n + l.length + 1, 0)
    this.#frozen.push({ el, lines, chars })
    this.#lineCount += lines.length
    this.#rewrite = true
  }

  /** Leaves out the second block. */
  #drop(): void {
    const [gone] = this.#frozen.splice(1, 1)
    gone!.el.remove()
    this.#lineCount -= gone!.lines.length
    this.#chars -= gone!.chars
    this.#leaveOut(gone!.lines.length)
  }

  /** Leaves out lines that were not drawn, and all after the first block. */
  skip(lines: number): void {
    if (lines === 0) return
    if (this.#tail.length > 1 && this.#tail.at(-1)!.length === 0) this.#tail.pop()
    if (this.lines > 0) this.#block(this.#tail.length)
    this.#tail = [new Line()]
    this.#row = this.#col = 0
    while (this.#frozen.length > 1) this.#drop()
    this.#leaveOut(lines)
    this.#rewrite = true
    draw(this.#draw)
  }

  #leaveOut(lines: number): void {
    this.dropped += lines
    if (!this.#note) {
      this.#note = document.createElement('div')
      this.#note.className = 'left-out'
      this.#noteText = document.createElement('span')
      this.#note.append(this.#noteText)
      if (this.download) {
        const all = document.createElement('button')
        all.type = 'button'
        all.className = 'button quiet'
        all.textContent = t('Download all output')
        all.addEventListener('click', this.download)
        this.#note.append(all)
      }
      if (this.#frozen[0]) this.#frozen[0].el.after(this.#note)
      else this.el.prepend(this.#note)
    }
    this.#noteText!.textContent = plural(this.dropped, '… 1 line left out …', '… {n} lines left out …')
  }

  readonly #draw = (): void => {
    if (this.#rewrite) {
      this.#tailEl.replaceChildren(...nodes(this.#tail))
      this.#rewrite = false
    } else {
      for (const r of this.#added) {
        const last = this.#tailEl.lastChild
        if (r.look === plain && last instanceof Text) last.appendData(r.text)
        else this.#tailEl.append(node(r.text, r.look))
      }
    }
    this.#added = []
  }

  clear(): void {
    for (const b of this.#frozen) b.el.remove()
    this.#note?.remove()
    this.#note = undefined
    this.#frozen = []
    this.#tail = [new Line()]
    this.#row = this.#col = this.#chars = this.#lineCount = this.dropped = 0
    this.#rewrite = true
    draw(this.#draw)
  }

  /**
   * Returns the content as parts of standard output and standard error with their colours. For long
   * text it returns the first and the last half of limit.
   */
  parts(limit = 1 << 20): { name: 'stdout' | 'stderr'; text: string }[] {
    const parts: { name: 'stdout' | 'stderr'; text: string }[] = []
    let look = plain
    const say = (text: string, l: Look) => {
      const name = l.err ? 'stderr' : 'stdout'
      let last = parts.at(-1)
      if (!last || last.name !== name) {
        if (last && sequence(look)) last.text += '\x1b[0m'
        parts.push((last = { name, text: '' }))
        look = plain
      }
      if (sequence(l) !== sequence(look)) {
        last.text += (sequence(look) ? '\x1b[0m' : '') + sequence(l)
        look = l
      }
      last.text += text
    }
    const all = [...this.#frozen.flatMap((b) => b.lines), ...this.#tail]
    let skip = { from: all.length, to: all.length }
    if (this.#chars > limit) {
      let [head, tail, i, j] = [0, 0, 0, all.length]
      while (i < j && head + all[i]!.length < limit / 2) head += all[i++]!.length + 1
      while (j > i && tail + all[j - 1]!.length < limit / 2) tail += all[--j]!.length + 1
      skip = { from: i, to: j }
    }
    const left = skip.to - skip.from + this.dropped
    all.forEach((line, i) => {
      if (i >= skip.from && i < skip.to) return
      if (i === skip.to && left > 0) say(leftOut(left), plain)
      for (const r of line.runs) say(r.text, r.look)
      if (line.cut) say(' …', line.runs.at(-1)?.look ?? plain)
      const err = line.runs.at(-1)?.look.err ?? parts.at(-1)?.name === 'stderr'
      if (i < all.length - 1) say('\n', withErr(plain, err))
    })
    const last = parts.at(-1)
    if (last && sequence(look)) last.text += '\x1b[0m'
    return parts
  }
}

/** The words for lines that the file lacks. They are English, as all pages must save the same. */
const leftOut = (lines: number) => `… ${lines.toLocaleString('en')} lines left out …\n`

function slice(runs: Run[], from: number, to: number): Run[] {
  const out: Run[] = []
  let at = 0
  for (const r of runs) {
    const text = r.text.slice(Math.max(0, from - at), Math.max(0, to - at))
    if (text) out.push({ text, look: r.look })
    at += r.text.length
  }
  return out
}

/** Returns the nodes for lines. Neighbours with the same look are one node. */
function nodes(lines: Line[]): Node[] {
  const runs: Run[] = []
  const say = (text: string, look: Look) => {
    const last = runs.at(-1)
    if (last && last.look === look) last.text += text
    else runs.push({ text, look })
  }
  lines.forEach((l, i) => {
    for (const r of l.runs) say(r.text, r.look)
    if (l.cut) say(` ${plural(l.cut, '… 1 character left out', '… {n} characters left out')}`, plain)
    if (i < lines.length - 1) say('\n', plain)
  })
  return runs.map((r) => node(r.text, r.look))
}
