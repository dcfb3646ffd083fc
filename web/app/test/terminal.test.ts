import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { clock, count, parseCast, withoutIdle } from '../src/terminal/cast'
import { commandOf } from '../src/terminal/keys'
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
    for (const a of ['\x1b[?1;2c', '\x1b[>0;276;0c', '\x1b[0n', '\x1b[12;40R', '\x1b[?25;1$y', '\x1b[I', '\x1b[O', '\x1b]11;rgb:ff/ff/ff\x1b\\', '\x1bP1$r0m\x1b\\']) expect(isAnswer(a)).toBe(true)
    for (const k of ['c', '\x1b', '\x1b[A', '\x1bOA', '\x1b[1;5C', '\x1b[3~', '\r', '\x03', '\x1bf']) expect(isAnswer(k)).toBe(false)
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

const site = join(import.meta.dirname, '../dist/site')

it('begins with at most 150 kB of script, packed; the search and the graphics come when they are needed', () => {
  const chunks = JSON.parse(gunzipSync(readFileSync(join(site, '.vite/manifest.json.gz'))).toString()) as Record<string, { file: string; imports?: string[] }>
  const files = new Set<string>()
  const walk = (key: string): void => {
    if (files.has(chunks[key]!.file)) return
    files.add(chunks[key]!.file)
    chunks[key]!.imports?.forEach(walk)
  }
  walk('index.html')
  walk('src/terminal/page.tsx')
  expect([...files].reduce((n, f) => n + statSync(join(site, `${f}.gz`)).size, 0)).toBeLessThan(150_000)
})
