// Describes how a page looks, as text that is compared and committed in place of a picture.
import type { Page } from 'playwright-core'
import { readPNG, type Picture } from './png.js'

/** The part of a named element that can be seen, in pixels, with its colours and its font. */
export interface Element {
  name: string
  box: [x: number, y: number, width: number, height: number]
  look: string
}

export interface Description {
  width: number
  height: number
  elements: Element[]
  /** The mean colour of each square of the picture, row by row: red, green and blue from 0 to 63. */
  grid: number[][][]
}

/** The side of a square in pixels. */
export const square = 32

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-'

/** Returns the description of a page, and its picture. */
export async function describe(page: Page): Promise<{ description: Description; picture: Picture }> {
  const elements = await page.evaluate(look)
  const picture = readPNG(await page.screenshot({ animations: 'disabled', caret: 'hide' }))
  return { description: { width: picture.width, height: picture.height, elements, grid: gridOf(picture) }, picture }
}

function gridOf({ width, height, data }: Picture): number[][][] {
  const rows: number[][][] = []
  for (let top = 0; top < height; top += square) {
    const row: number[][] = []
    for (let left = 0; left < width; left += square) {
      const sum = [0, 0, 0]
      const [right, bottom] = [Math.min(left + square, width), Math.min(top + square, height)]
      for (let y = top; y < bottom; y++) {
        for (let x = left; x < right; x++) for (let c = 0; c < 3; c++) sum[c]! += data[(y * width + x) * 4 + c]!
      }
      row.push(sum.map((s) => Math.min(63, Math.floor(s / ((right - left) * (bottom - top)) / 4))))
    }
    rows.push(row)
  }
  return rows
}

/** Runs in the page: lists the elements that can be seen, in their order. */
function look(): Element[] {
  const wanted = 'a[href], button, input, select, textarea, summary, h1, h2, h3, h4, p, li, label, kbd, dt, dd, td, th, main, nav, header, aside, dialog, table, img, iframe, pre, code-run, [role], .badge, .card, .cell, .gutter, .cell-main, .cell-status, .source, .output, .out-text, .out-rich, .out-error, .session, .tile, .xterm-screen'
  const short = (colour: string) => colour.replace(/rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)/g, (_, r: string, g: string, b: string, a?: string) =>
    `#${[r, g, b].map((n) => Number(n).toString(16).padStart(2, '0')).join('')}${a === undefined ? '' : `/${a}`}`)
  const visible = (e: globalThis.Element): Element['box'] | undefined => {
    const r = e.getBoundingClientRect()
    let [left, top, right, bottom] = [Math.max(0, r.left), Math.max(0, r.top), Math.min(innerWidth, r.right), Math.min(innerHeight, r.bottom)]
    const over = e.closest('[popover], dialog')
    for (let at = e.parentElement; at && at !== document.documentElement && e !== over; at = at.parentElement) {
      if (!/visible/.test(getComputedStyle(at).overflow)) {
        const b = at.getBoundingClientRect()
        ;[left, top, right, bottom] = [Math.max(left, b.left), Math.max(top, b.top), Math.min(right, b.right), Math.min(bottom, b.bottom)]
      }
      if (at === over) break
    }
    return right - left < 1 || bottom - top < 1 ? undefined : [Math.round(left), Math.round(top), Math.round(right - left), Math.round(bottom - top)]
  }
  const all = (root: ParentNode): globalThis.Element[] => [...root.querySelectorAll('*')].flatMap((e) => [...(e.matches(wanted) ? [e] : []), ...(e.shadowRoot ? all(e.shadowRoot) : [])])
  return all(document).flatMap((e) => {
    if (!e.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return []
    const box = visible(e)
    if (!box) return []
    const style = getComputedStyle(e)
    const text = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent).join('').trim() || (e.matches('button, a, h1, h2, h3, [role=tab], [role=menuitem]') ? (e as HTMLElement).innerText ?? '' : '')
    const name = (e.getAttribute('aria-label') ?? text).replace(/\s+/g, ' ').trim().slice(0, 40)
    const kind = e.getAttribute('role') ?? e.localName
    const border = style.borderTopWidth === '0px' ? '' : ` border ${short(style.borderTopColor)}`
    const fill = style.backgroundColor === 'rgba(0, 0, 0, 0)' ? '' : ` on ${short(style.backgroundColor)}`
    return [{ name: `${kind} ${JSON.stringify(name || (e.classList[0] ?? ''))}`, box, look: `${short(style.color)}${fill}${border} ${style.fontSize} ${style.fontWeight}` }]
  })
}

export function format(d: Description): string {
  const grid = d.grid.map((row) => {
    const words: string[] = []
    for (let i = 0; i < row.length;) {
      const word = row[i]!.map((n) => digits[n]).join('')
      let n = 1
      while (i + n < row.length && row[i + n]!.every((v, c) => v === row[i]![c])) n++
      words.push(n > 1 ? `${word}*${n}` : word)
      i += n
    }
    return words.join(' ')
  })
  return [`size ${d.width} ${d.height}`, ...d.elements.map((e) => `${e.box.join(' ')} ${e.name} ${e.look}`), 'grid', ...grid, ''].join('\n')
}

export function parse(text: string): Description {
  const lines = text.trimEnd().split('\n')
  const [, width, height] = lines[0]!.split(' ').map(Number)
  const end = lines.indexOf('grid')
  const elements = lines.slice(1, end).map((line): Element => {
    const m = /^(-?\d+) (-?\d+) (\d+) (\d+) (\S+ "(?:[^"\\]|\\.)*") (.*)$/.exec(line)!
    return { name: m[5]!, box: [Number(m[1]), Number(m[2]), Number(m[3]), Number(m[4])], look: m[6]! }
  })
  const grid = lines.slice(end + 1).map((line) => line.split(' ').flatMap((word) => {
    const [colour, n] = word.split('*')
    return Array.from({ length: Number(n ?? 1) }, () => [...colour!].map((c) => digits.indexOf(c)))
  }))
  return { width: width!, height: height!, elements, grid }
}
