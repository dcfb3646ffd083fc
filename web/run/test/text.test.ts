import { describe, expect, it } from 'vitest'
import { Text, type Span } from '../src/text.js'

function lines(...parts: [string, string?][]): string[] {
  const out: Span[][] = []
  const t = new Text((line) => out.push(line))
  for (const [text, style] of parts) t.write(text, style)
  return [...out, t.line].map((line) => line.map((s) => (s.style ? `<${s.style.trim()}>${s.text}` : s.text)).join('|'))
}

describe('the text of a program', () => {
  it('goes back to the beginning of a line, over characters, and erases', () => {
    expect(lines(['10%\r20%\r100%\nab\b\bc\x1b[K.'])).toEqual(['100%', 'c.'])
    expect(lines(['abc\r\x1b[2Kx'])).toEqual(['x'])
  })
  it('has colours, bold, and those of standard error', () => {
    expect(lines(['a\x1b[1;31mb\x1b[0mc\x1b[94md\x1b[39me'])).toEqual(['a|<b c1>b|c|<c4>d|e'])
    expect(lines(['\x1b[38;5;196mx\x1b[38;2;1;2;3my']), 'other palettes change nothing').toEqual(['xy'])
    expect(lines(['a'], ['b', ' s'])).toEqual(['a|<s>b'])
  })
  it('is the same however it is cut', () => {
    const text = 'ä\x1b[32m😀\x1b]0;title\x07 \x1b[1;3Hend\x1b[0m!'
    const whole = lines([text])
    expect(whole).toEqual(['ä|<c2>😀 end|!'])
    for (let i = 1; i < text.length; i++) if (text.charCodeAt(i) < 0xdc00 || text.charCodeAt(i) > 0xdfff) expect(lines([text.slice(0, i)], [text.slice(i)])).toEqual(whole)
  })
  it('keeps lines and sequences without an end within bounds', () => {
    expect(lines(['x'.repeat(45_000)]).map((l) => l.length)).toEqual([20_000, 20_000, 5_000])
    expect(lines(['\x1b]0;' + 'y'.repeat(10_000)], ['z'])[0]!.length).toBeLessThan(10_001)
  })
})
