// Tests the comparison of pages with their references, without pages.
import { expect, it } from 'vitest'
import { compare, draw } from './server/visual/compare'
import { format, parse, type Description } from './server/visual/describe'
import { readPNG, writePNG } from './server/visual/png'

const page = (o: Partial<Description> = {}): Description => ({
  width: 64, height: 32, elements: [{ name: 'button "Say \\"hi\\""', box: [1, 2, 30, 20], look: '#000000 on #ffffff 13px 400' }, { name: 'td "1"', box: [40, 2, 9, 9], look: '#000000 13px 400' }, { name: 'td "1"', box: [40, 12, 9, 9], look: '#000000 13px 400' }],
  grid: [[[63, 63, 63], [1, 2, 3]]], ...o,
})

it('writes a description as text, and reads it again', () => {
  expect(parse(format(page()))).toEqual(page())
  expect(format(page({ grid: [[[63, 63, 63], [63, 63, 63]]] }))).toContain('\n---*2\n')
})

it('reports what has moved, changed, gone and come, and tolerates rounding', () => {
  const now = page()
  now.elements[0] = { ...now.elements[0]!, box: [2, 1, 31, 20] }
  now.grid = [[[61, 63, 63], [3, 2, 5]]]
  expect(compare(page(), now)).toEqual([])
  now.elements[0] = { ...now.elements[0], box: [7, 2, 30, 20], look: '#000001 on #ffffff 13px 400' }
  now.elements[2] = { ...now.elements[2]!, name: 'td "2"' }
  now.grid[0]![1] = [6, 2, 3]
  expect(compare(page(), now).map((d) => d.text)).toEqual([
    'button "Say \\"hi\\"": is 30x20 at 7,2, was 30x20 at 1,2',
    'button "Say \\"hi\\"": looks like #000001 on #ffffff 13px 400, was #000000 on #ffffff 13px 400',
    'td "1": is missing, was 9x9 at 40,12',
    'td "2": is new, 9x9 at 40,12',
    'the square at 32,0: the mean colour is rgb(24 8 12), was rgb(4 8 12)',
  ])
})

it('draws frames where things were and are', () => {
  const white = { width: 40, height: 30, data: new Uint8Array(4800).fill(255) }
  const drawn = readPNG(writePNG(draw(white, [{ text: '', before: [2, 2, 10, 10], after: [20, 2, 10, 10] }])))
  const at = (x: number, y: number) => [...drawn.data.subarray((y * 40 + x) * 4, (y * 40 + x) * 4 + 3)]
  expect([drawn.width, drawn.height, at(2, 5), at(20, 5), at(6, 6)]).toEqual([40, 30, [30, 90, 255], [230, 30, 30], [254, 254, 254]])
})
