/** The look of text. Equal looks are one object, so that they can be compared. */
export interface Look {
  bold?: boolean
  dim?: boolean
  italic?: boolean
  underline?: boolean
  strike?: boolean
  inverse?: boolean
  /** 0 to 15, or a CSS colour. */
  fg?: number | string
  bg?: number | string
  /** Whether it was written to standard error. */
  err?: boolean
}

const looks = new Map<string, Look>()
export const plain: Look = intern({})

function intern(l: Look): Look {
  const key = JSON.stringify([l.bold, l.dim, l.italic, l.underline, l.strike, l.inverse, l.fg, l.bg, l.err])
  const known = looks.get(key)
  if (known) return known
  if (looks.size > 4096) looks.clear() // the program uses many colours
  const fresh = Object.freeze(JSON.parse(JSON.stringify(l)) as Look)
  looks.set(key, fresh)
  return fresh
}

export function withErr(l: Look, err: boolean): Look {
  return !!l.err === err ? l : intern({ ...l, err: err || undefined })
}

/** Applies the parameters of a CSI … m. */
export function sgr(from: Look, params: string): Look {
  const p = params.replaceAll(':', ';').split(';').map((s) => (s === '' ? 0 : Number(s)))
  let l: Look = { ...from }
  for (let i = 0; i < p.length; i++) {
    const n = p[i]!
    if (n === 0) l = from.err ? { err: true } : {}
    else if (n === 1) l.bold = true
    else if (n === 2) l.dim = true
    else if (n === 3) l.italic = true
    else if (n === 4) l.underline = true
    else if (n === 7) l.inverse = true
    else if (n === 9) l.strike = true
    else if (n === 22) l.bold = l.dim = undefined
    else if (n === 23) l.italic = undefined
    else if (n === 24) l.underline = undefined
    else if (n === 27) l.inverse = undefined
    else if (n === 29) l.strike = undefined
    else if (n >= 30 && n <= 37) l.fg = n - 30
    else if (n >= 90 && n <= 97) l.fg = n - 82
    else if (n === 39) l.fg = undefined
    else if (n >= 40 && n <= 47) l.bg = n - 40
    else if (n >= 100 && n <= 107) l.bg = n - 92
    else if (n === 49) l.bg = undefined
    else if (n === 38 || n === 48) {
      let colour: number | string | undefined
      if (p[i + 1] === 5) {
        colour = palette(p[i + 2] ?? 0)
        i += 2
      } else if (p[i + 1] === 2) {
        colour = `rgb(${byte(p[i + 2])} ${byte(p[i + 3])} ${byte(p[i + 4])})`
        i += 4
      }
      if (n === 38) l.fg = colour
      else l.bg = colour
    }
  }
  return intern(l)
}

const byte = (n: number | undefined) => Math.min(255, Math.max(0, Math.trunc(n || 0)))

function palette(n: number): number | string {
  n = byte(n)
  if (n < 16) return n
  if (n > 231) return `rgb(${Array(3).fill(8 + (n - 232) * 10).join(' ')})`
  const c = (v: number) => (v ? 55 + v * 40 : 0)
  n -= 16
  return `rgb(${c(Math.trunc(n / 36))} ${c(Math.trunc(n / 6) % 6)} ${c(n % 6)})`
}

// The maximum luminance of text on the light surface and its minimum on the dark one (with a
// luminance of at most 0.013), for a contrast of 4.5 to 1 (WCAG 2.2, 1.4.3).
const darkest = 1.05 / 4.5 - 0.05
const lightest = 0.063 * 4.5 - 0.05

function luminance(rgb: number[]): number {
  const [r, g, b] = rgb.map((v) => (v <= 10 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4)) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

const pairs = new Map<string, string>()

/** Mixes a program's colour with as much black or white as needed to read it. */
export function readable(colour: string): string {
  const known = pairs.get(colour)
  if (known) return known
  const rgb = colour.slice(4, -1).split(' ').map(Number)
  const mix = (towards: number, enough: (l: number) => boolean) => {
    for (let i = 0; ; i++) {
      const mixed = rgb.map((v) => Math.round(v + ((towards - v) * i) / 20))
      if (i === 20 || enough(luminance(mixed))) return `rgb(${mixed.join(' ')})`
    }
  }
  const pair = `light-dark(${mix(0, (l) => l <= darkest)}, ${mix(255, (l) => l >= lightest)})`
  if (pairs.size > 4096) pairs.clear() // like looks above
  pairs.set(colour, pair)
  return pair
}

/** Returns the sequence that sets a look after a reset, for saving. */
export function sequence(l: Look): string {
  const p: (number | string)[] = []
  if (l.bold) p.push(1)
  if (l.dim) p.push(2)
  if (l.italic) p.push(3)
  if (l.underline) p.push(4)
  if (l.inverse) p.push(7)
  if (l.strike) p.push(9)
  const colour = (c: number | string | undefined, base: number) => {
    if (typeof c === 'number') p.push(c < 8 ? base + c : base + 52 + c)
    else if (c) p.push(base + 8, 2, ...c.slice(4, -1).split(' '))
  }
  colour(l.fg, 30)
  colour(l.bg, 40)
  return p.length ? `\x1b[${p.join(';')}m` : ''
}

/** Returns the node that shows text in a look. */
export function node(text: string, l: Look): Node {
  if (l === plain) return document.createTextNode(text)
  const span = document.createElement('span')
  span.textContent = text
  let { fg, bg } = l
  if (l.inverse) [fg, bg] = [bg ?? 'var(--surface)', fg ?? 'var(--ink)']
  const css = (c: number | string) => (typeof c === 'number' ? `var(--ansi-${c})` : c)
  if (fg !== undefined) span.style.color = typeof l.fg === 'string' && bg === undefined ? readable(l.fg) : css(fg)
  if (bg !== undefined) {
    span.style.background = css(bg)
    // The page's own colours are readable on its surface, and the surface colour is readable on
    // them. Other colours may not be.
    if (fg === undefined || typeof bg === 'number') span.style.color = 'var(--surface)'
  }
  if (l.bold) span.style.fontWeight = '650'
  if (l.dim) span.style.opacity = '0.75'
  if (l.italic) span.style.fontStyle = 'italic'
  if (l.underline || l.strike) span.style.textDecoration = `${l.underline ? 'underline ' : ''}${l.strike ? 'line-through' : ''}`
  if (l.err) span.className = 'err'
  return span
}

/** Returns the nodes of text with its colours. */
export function coloured(line: string): Node[] {
  const out: Node[] = []
  let look = plain
  for (const part of line.split(/(\x1b\[[\d;:]*m)/)) {
    const m = /^\x1b\[([\d;:]*)m$/.exec(part)
    if (m) look = sgr(look, m[1]!)
    else if (part) out.push(node(part, look))
  }
  return out
}
