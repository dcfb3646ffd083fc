import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { clock, count, parseCast, withoutIdle } from '../src/terminal/cast'
import { commandOf } from '../src/terminal/keys'
import { Extractor, latin, maxSequence, type Sequence } from '../src/terminal/pictures/extract'
import { Inlines, kindOf, measure, parseInline } from '../src/terminal/pictures/inline'
import { decodeSixel, maxSide, type Pixels } from '../src/terminal/pictures/sixel'
import { arrange, maxPanes, panesOf, parse, places, split, without } from '../src/terminal/layout'
import { cleanPaste, cleanTitle, clipboardText, findPlaces, isAnswer } from '../src/terminal/text'

describe('what programs and clipboards bring', () => {
  it('lets no control out of a paste but tabs and line ends', () => {
    expect(cleanPaste('a\tb\r\nc\rd\x1b[201~\x03\x7f\x9b')).toBe('a\tb\nc\nd\u241b[201~\u2403\u2421\ufffd')
  })
  it('shows a title without what turns or hides text', () => {
    expect(cleanTitle(' a\x1b\u202eb\u200b ')).toBe('ab')
    expect(cleanTitle('x'.repeat(99))).toHaveLength(80)
  })
  it('tells answers from keys', () => {
    for (const a of ['\x1b[?1;2c', '\x1b[>0;276;0c', '\x1b[0n', '\x1b[12;40R', '\x1b[?25;1$y', '\x1b[?1;0;256S', '\x1b[I', '\x1b[O', '\x1b]11;rgb:ff/ff/ff\x1b\\', '\x1bP1$r0m\x1b\\']) expect(isAnswer(a)).toBe(true)
    for (const k of ['c', '\x1b', '\x1b[A', '\x1bOA', '\x1b[1;5C', '\x1b[1;2S', '\x1b[3~', '\r', '\x03', '\x1bf']) expect(isAnswer(k)).toBe(false)
  })
  it('takes what a program puts on the clipboard and answers no question', () => {
    expect(clipboardText('c;' + btoa('hi'))).toBe('hi')
    for (const d of ['c;?', 'c;', 'c;%%%', 'c;' + 'A'.repeat(200_000)]) expect(clipboardText(d)).toBeUndefined()
  })
  it('finds places in files', () => {
    expect(findPlaces('./src/main.go:12:3: undefined')).toMatchObject([{ path: './src/main.go', line: 12, index: 0 }])
    expect(findPlaces('  File "/tmp/a b.py", line 7, in f')).toMatchObject([{ path: '/tmp/a b.py', line: 7 }])
    expect(findPlaces('at 12:30 http://x:80 ../../etc/passwd.x:1')).toEqual([])
  })
})

describe('tabs', () => {
  it('come back as they were left, without what has gone and with what is new', () => {
    expect(arrange([{ layout: { rows: true, parts: ['a', 'gone'] } }, { layout: 'b' }], ['b', 'a', 'c'])).toEqual([{ layout: 'a' }, { layout: 'b' }, { layout: 'c' }])
    const stored = [{ layout: { rows: false, parts: ['a', { rows: true, parts: ['b', 'c'] }] } }]
    expect(parse(JSON.stringify(stored))).toEqual(stored)
    for (const text of [null, '{"no": 1}', '[1]', '[{"layout":{"parts":7}}]', '[{"layout":null}]', `${'[{"layout":{"parts":'.repeat(9)}`]) expect(parse(text)).toEqual([])
    expect(panesOf(parse(JSON.stringify([{ layout: { rows: true, parts: [...'abcdefgh'] } }]))[0]!)).toHaveLength(maxPanes)
  })
  it('split in the direction that was asked for, and close', () => {
    const two = split([{ layout: 'a' }], 'a', 'b', false)
    const three = split(two, 'b', 'c', true)
    expect(places(three[0]!)).toEqual([
      { id: 'a', left: 0, top: 0, width: 50, height: 100 }, { id: 'b', left: 50, top: 0, width: 50, height: 50 }, { id: 'c', left: 50, top: 50, width: 50, height: 50 },
    ])
    expect(split(two, 'a', 'c', false)).toEqual([{ layout: { rows: false, parts: ['a', 'c', 'b'] } }])
    expect(without(three, 'a')).toEqual([{ layout: { rows: true, parts: ['b', 'c'] } }])
    expect(without(without(two, 'a'), 'b')).toEqual([])
  })
})

describe('keys', () => {
  it('are none that browsers keep to themselves', () => {
    const press = (key: string, shiftKey = false) => commandOf(new KeyboardEvent('keydown', { key, shiftKey, ctrlKey: true }))
    expect(press('Enter', true)).toBe('open')
    expect([press('='), press('+', true)]).toEqual(['larger', 'larger'])
    for (const [key, shift] of [['W', true], ['T', true], ['N', true], ['w'], ['t'], ['n'], ['PageUp'], ['PageDown'], ['Tab'], ['Q', true]] as const) expect(press(key, shift)).toBeUndefined()
  })
})

describe('a recording', () => {
  const cast = parseCast('{"version":2,"width":80,"height":24}\n[0,"o","a"]\n[10,"o","b"]\n[10.5,"r","90x30"]\n[40,"i","x"]\n[60,"o","c"]\n')
  it('is read, counted and freed of pauses', () => {
    expect(cast.events.map((e) => e.code)).toEqual(['o', 'o', 'r', 'o'])
    expect([0, 9, 10, 60].map((at) => count(cast.events, at))).toEqual([1, 1, 2, 4])
    expect(withoutIdle(cast).events.map((e) => e.at)).toEqual([0, 1, 1.5, 2.5])
    expect(clock(125.9)).toBe('2:05')
    expect(() => parseCast('{"version":3}')).toThrow('version 3')
  })
})

describe('pictures', () => {
  const bytes = (text: string) => Uint8Array.from(text, (c) => c.charCodeAt(0))
  const spoken = (p: Uint8Array | Sequence) => (p instanceof Uint8Array ? latin(p) : p.kind === 'large' ? '<large>' : `<${p.kind} ${latin(p.data)}>`)
  /** Returns what an extractor makes of output that comes in pieces, text joined. */
  const cut = (...pieces: string[]) => {
    const x = new Extractor()
    return pieces.flatMap((p) => x.cut(bytes(p))).map(spoken).join('')
  }

  it('are taken out of output, wherever it is cut', () => {
    const output = 'a\x1bP0;1q"1;1;2;2#0~\x07-\x1b\\b\x1b[1mc\x1b]1337;File=inline=1:QUJD\x07d\x1bP$qm\x1b\\e\x1b]2;title\x07'
      + '\x1b]1337;CurrentDir=/\x07f\x1b]133;A\x1b\\\x1bPq#0~\x18g\x1bPq~\x1b[mh\x1bP1;2|x\x1b\\'
    const expected = 'a<sixel "1;1;2;2#0~\x07->b\x1b[1mc<inline File=inline=1:QUJD>d\x1bP$qm\x1b\\e\x1b]2;title\x07f\x1b]133;A\x1b\\\x18g<sixel ~>\x1b[mh\x1bP1;2|x\x1b\\'
    expect(cut(output)).toBe(expected)
    for (let i = 1; i < output.length; i++) expect(cut(output.slice(0, i), output.slice(i)), `cut at ${i}`).toBe(expected)
    expect(cut(...output)).toBe(expected)
  })
  it('are left out if they are too large, with a bounded memory', () => {
    const x = new Extractor()
    expect(x.cut(bytes('a\x1bPq')).map(spoken)).toEqual(['a'])
    const part = new Uint8Array(1 << 20).fill(0x7e)
    for (let sent = 0; sent <= maxSequence; sent += part.length) expect(x.cut(part)).toEqual([])
    expect(x.cut(bytes('\x1b\\b')).map(spoken)).toEqual(['<large>', 'b'])
    expect(x.cut(bytes('c\x1bPq~')).map(spoken)).toEqual(['c'])
    x.reset()
    expect(x.cut(bytes('d')).map(spoken)).toEqual(['d'])
  })

  const rows = (p: Pixels | 'large' | undefined) => {
    const { width, height, data } = p as Pixels
    const pixels = Array.from({ length: width * height }, (_, i) => [...data.slice(4 * i, 4 * i + 4)].join())
    return Array.from({ length: height }, (_, y) => pixels.slice(y * width, (y + 1) * width))
  }
  const red = '255,0,0,255'
  const blue = '0,0,255,255'
  const clear = '0,0,0,0'
  it('in sixel are decoded: colours, repeats, returns, new rows and the announced size', () => {
    // Two colours over each other: A is bit 1, @ is bit 0.
    expect(rows(decodeSixel(bytes('#1;2;100;0;0@?@$#2;2;0;0;100AAA')))).toEqual([[red, clear, red], [blue, blue, blue]])
    expect(rows(decodeSixel(bytes('#1;2;100;0;0!3@-#1@')))).toEqual([[red, red, red], ...Array(5).fill([clear, clear, clear]), [red, clear, clear]])
    expect(rows(decodeSixel(bytes('"1;1;2;1#1;2;100;0;0!9~')))).toEqual([[red, red]])
    // Hue 0 is blue, 120 is red.
    expect(rows(decodeSixel(bytes('#1;1;0;50;100@#2;1;120;50;100@')))).toEqual([[blue, red]])
    expect(rows(decodeSixel(bytes('#1@')))).toEqual([['51,51,204,255']])
    expect(decodeSixel(bytes('"1;1#0??-'))).toBeUndefined()
  })
  it('in sixel are bounded in size and in time', () => {
    expect(decodeSixel(bytes(`!${maxSide + 1}~`))).toBe('large')
    expect(decodeSixel(bytes('-'.repeat(maxSide) + '~'))).toBe('large')
    expect(decodeSixel(bytes('"1;1;4000;4000~'))).toBe('large')
    const since = performance.now()
    expect((decodeSixel(bytes('!4000~-!4000~$'.repeat(100) + '!4000~$'.repeat(100_000))) as Pixels).width).toBe(4000)
    expect(performance.now() - since).toBeLessThan(5000)
  })

  const png = Uint8Array.from(atob('iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnWAAAAC0lEQVR4nGNgQAYAABEAAbsTCVYAAAAASUVORK5CYII='), (c) => c.charCodeAt(0))
  it('of iTerm are parsed, also in parts', () => {
    const text = `name=${btoa('a b.png')};inline=1;width=10;height=50%;preserveAspectRatio=0:${btoa(latin(png))}`
    const parsed = parseInline(text)
    expect(parsed).toMatchObject({ name: 'a b.png', width: '10', height: '50%', shape: false, stay: false })
    expect(parsed!.file).toEqual(png)
    for (const other of ['inline=0:QUJD', 'inline=1:%%%', 'inline=1', '']) expect(parseInline(other)).toBeUndefined()
    const x = new Inlines()
    const [head, data] = text.split(':')
    for (const part of [`MultipartFile=${head}`, `FilePart=${data!.slice(0, 9)}`, `FilePart=${data!.slice(9)}`]) expect(x.take(bytes(part))).toBeUndefined()
    expect(x.take(bytes('FileEnd'))).toEqual(parsed)
    expect(x.take(bytes('FileEnd'))).toBeUndefined()
    x.take(bytes('MultipartFile=inline=1'))
    for (let sent = 0; sent <= maxSequence; sent += 1 << 20) x.take(bytes(`FilePart=${'A'.repeat(1 << 20)}`))
    expect(x.take(bytes('FileEnd'))).toBe('large')
  })
  it('of iTerm have a size before they are decoded, and fit the terminal', () => {
    expect(kindOf(png)).toEqual({ type: 'image/png', width: 2, height: 3 })
    expect(kindOf(bytes('GIF89a\x05\x00\x06\x01...'))).toEqual({ type: 'image/gif', width: 5, height: 262 })
    expect(kindOf(bytes('\xff\xd8\xff\xe0\x00\x04ab\xff\xc2\x00\x11\x08\x00\x10\x00\x20...'))).toEqual({ type: 'image/jpeg', width: 32, height: 16 })
    for (const other of ['', '<svg/>', '\xff\xd8\xff\xe0', 'RIFF....WEBP']) expect(kindOf(bytes(other))).toBeUndefined()
    const room = { cell: { width: 8, height: 16 }, cols: 80, rows: 24 }
    const size = (width: string, height: string, shape = true, natural = { width: 200, height: 100 }) => {
      const m = measure({ width, height, shape }, natural, room)
      return [m.width, m.height]
    }
    expect(size('auto', 'auto')).toEqual([200, 100])
    expect(size('auto', 'auto', true, { width: 1280, height: 100 })).toEqual([640, 50])
    expect(size('10', 'auto')).toEqual([80, 40])
    expect(size('auto', '50px')).toEqual([100, 50])
    expect(size('50%', '50%')).toEqual([320, 160])
    expect(size('50%', '50%', false)).toEqual([320, 192])
    expect(size('999999', 'auto', true, { width: 1, height: 1 })).toEqual([maxSide, maxSide])
    expect(size('javascript', '-1')).toEqual([200, 100])
  })
})

const site = join(import.meta.dirname, '../dist/site')

it('begins with at most 150 kB of script, packed; the search, the graphics and the pictures come when they are needed', () => {
  const chunks = JSON.parse(gunzipSync(readFileSync(join(site, '.vite/manifest.json.gz'))).toString()) as Record<string, { file: string; imports?: string[] }>
  const files = new Set<string>()
  const walk = (key: string): void => {
    if (files.has(chunks[key]!.file)) return
    files.add(chunks[key]!.file)
    chunks[key]!.imports?.forEach(walk)
  }
  walk('index.html')
  walk('src/terminal/page.tsx')
  const size = (all: Iterable<string>) => [...all].reduce((n, f) => n + statSync(join(site, `${f}.gz`)).size, 0)
  expect(size(files)).toBeLessThan(150_000)
  expect(files).not.toContain(chunks['src/terminal/pictures/layer.ts']!.file)
  expect(size([chunks['src/terminal/pictures/layer.ts']!.file])).toBeLessThan(6_000)
})
