import { expect, it } from 'vitest'
import { node, readable, sgr, plain } from '../src/notebook/sgr'

const [white, surface] = ['#ffffff', '#1b1e24'] // --surface, in light and dark

/** Returns WCAG's contrast of two colours. */
function contrast(a: string, b: string): number {
  const luminance = (c: string) => {
    const parts = c.startsWith('#') ? [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)) : c.match(/\d+/g)!.map(Number)
    const [r, g, bl] = parts.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)) as [number, number, number]
    return 0.2126 * r + 0.7152 * g + 0.0722 * bl
  }
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number]
  return (light + 0.05) / (dark + 0.05)
}

it('makes any colour readable, in light and dark', () => {
  for (let n = 16; n < 256; n++) {
    const { fg } = sgr(plain, `38;5;${n}`)
    const pair = readable(fg as string)
    const [light, dark] = pair.match(/rgb\([^)]*\)/g)!
    expect(contrast(light!, white), pair).toBeGreaterThanOrEqual(4.5)
    expect(contrast(dark!, surface), pair).toBeGreaterThanOrEqual(4.5)
  }
})

it('leaves readable colours, and those on a background of their own', () => {
  expect(readable('rgb(110 110 110)')).toContain('light-dark(rgb(110 110 110)')
  expect(readable('rgb(200 200 200)')).toContain(', rgb(200 200 200))')
  const colour = (params: string) => (node('x', sgr(plain, params)) as HTMLElement).style.color
  expect(colour('38;2;0;0;9;48;2;200;200;200')).toBe('rgb(0 0 9)')
})
