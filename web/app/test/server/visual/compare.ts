// Compares how a page looks with how it looked, and draws the difference.
import { square, type Description, type Element } from './describe.js'
import type { Picture } from './png.js'

/** By how many pixels an edge may differ, because sizes are rounded. */
const nearPixels = 1
/** By how much the mean colour of a square may differ, of 63. */
const nearColour = 2

type Box = Element['box']

export interface Difference {
  text: string
  /** Where it was, and where it is. */
  before?: Box
  after?: Box
}

const placed = ([x, y, width, height]: Box): string => `${width}x${height} at ${x},${y}`

/** Returns the differences, elements first. */
export function compare(before: Description, after: Description): Difference[] {
  if (before.width !== after.width || before.height !== after.height) return [{ text: `the page has ${after.width}x${after.height} pixels, and had ${before.width}x${before.height}` }]
  return [...elements(before.elements, after.elements), ...squares(before, after)]
}

function elements(before: Element[], after: Element[]): Difference[] {
  const left = new Map<string, Element[]>()
  for (const e of after) left.set(e.name, [...(left.get(e.name) ?? []), e])
  const out: Difference[] = []
  for (const e of before) {
    const now = left.get(e.name)?.shift()
    if (!now) {
      out.push({ text: `${e.name}: is missing, was ${placed(e.box)}`, before: e.box })
      continue
    }
    if (e.box.some((v, i) => Math.abs(v - now.box[i]!) > nearPixels)) out.push({ text: `${e.name}: is ${placed(now.box)}, was ${placed(e.box)}`, before: e.box, after: now.box })
    if (e.look !== now.look) out.push({ text: `${e.name}: looks like ${now.look}, was ${e.look}`, before: e.box, after: now.box })
  }
  for (const e of [...left.values()].flat()) out.push({ text: `${e.name}: is new, ${placed(e.box)}`, after: e.box })
  return out
}

function squares(before: Description, after: Description): Difference[] {
  const out: Difference[] = []
  before.grid.forEach((row, y) => row.forEach((was, x) => {
    const now = after.grid[y]![x]!
    if (was.every((v, c) => Math.abs(v - now[c]!) <= nearColour)) return
    const colour = (v: number[]) => `rgb(${v.map((n) => n * 4).join(' ')})`
    out.push({ text: `the square at ${x * square},${y * square}: the mean colour is ${colour(now)}, was ${colour(was)}`, after: [x * square, y * square, square, square] })
  }))
  return out
}

/** Returns the picture with frames: blue where things were, red where they are. The rest is pale. */
export function draw(picture: Picture, differences: Difference[]): Picture {
  const { width, height } = picture
  const data = picture.data.map((v, i) => (i % 4 === 3 ? 255 : 160 + v * 0.37))
  const frame = ([left, top, w, h]: Box, colour: number[]) => {
    const dot = (x: number, y: number) => {
      if (x >= 0 && y >= 0 && x < width && y < height) data.set(colour, (y * width + x) * 4)
    }
    for (let i = 0; i < 2; i++) {
      for (let x = left; x < left + w; x++) for (const y of [top + i, top + h - 1 - i]) dot(x, y)
      for (let y = top; y < top + h; y++) for (const x of [left + i, left + w - 1 - i]) dot(x, y)
    }
  }
  for (const d of differences) {
    if (d.before) frame(d.before, [30, 90, 255])
    if (d.after) frame(d.after, [230, 30, 30])
  }
  return { width, height, data }
}
