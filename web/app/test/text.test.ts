import { beforeEach, describe, expect, it, vi } from 'vitest'
import { german } from '../src/language/de/index'
import { english, language } from '../src/language/texts'
import { drawn } from '../src/notebook/frames'
import { TextView } from '../src/notebook/text'

let view: TextView
beforeEach(() => {
  view = new TextView()
})
const saved = () => view.parts().map((p) => p.text).join('')

describe('text as a terminal shows it', () => {
  it.each([
    ['a carriage return writes over', 'abc\rX', 'Xbc'],
    ['a progress bar stays one line', '10%\r50%\r100%\ndone\n', '100%\ndone\n'],
    ['a backspace goes back', 'abc\b\bX', 'aXc'],
    ['CSI K erases to the end', 'abcdef\r\x1b[Kxy', 'xy'],
    ['CSI 2K erases the line', 'abc\x1b[2K\rz', 'z'],
    ['CSI A goes up: two bars', 'a 1\nb 1\n\x1b[2A\ra 2\nb 2\n', 'a 2\nb 2\n'],
    ['CSI J erases below', 'a\nb\nc\x1b[2A\r\x1b[J', ''],
    ['CSI 2J clears', 'old\n\x1b[2J\x1b[Hnew', 'new'],
    ['titles and links are no text', '\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\', 'ab'],
    ['tabs stay', 'a\tb', 'a\tb'],
    ['other controls go', 'a\x00\x07b', 'ab'],
  ])('%s', (_, text, want) => {
    view.write(text)
    expect(saved()).toBe(want)
  })

  it('keeps every split of a sequence', () => {
    const text = 'one\x1b[31mred\x1b[0m\r\n\x1b]0;t\x1b\\two\x1b[1A\rX'
    for (let i = 0; i <= text.length; i++) {
      const v = new TextView()
      v.write(text.slice(0, i))
      v.write(text.slice(i))
      expect(v.parts(), `split at ${i}`).toEqual([{ name: 'stdout', text: 'Xne\x1b[31mred\x1b[0m\ntwo' }])
    }
  })

  it('tells standard error from standard output, and keeps colours', () => {
    view.write('a\n')
    view.write('\x1b[1;31mbad\x1b[0m\n', true)
    view.write('b\n')
    expect(view.parts()).toEqual([
      { name: 'stdout', text: 'a\n' }, { name: 'stderr', text: '\x1b[1;31mbad\x1b[0m\n' }, { name: 'stdout', text: 'b\n' },
    ])
  })

  it('draws what it saves, in blocks, and never as HTML', async () => {
    for (let i = 0; i < 2000; i++) view.write(`line ${i} <b>\n`)
    view.write('last\rLAST')
    await drawn()
    expect(view.el.querySelector('b')).toBeNull()
    expect(view.el.children.length).toBe(4)
    const shown = [...view.el.children].map((b) => b.textContent).join('\n')
    expect(shown).toBe(saved())
    expect(view.lines).toBe(2001)
  })

  it('has a bound, and says what it left out', () => {
    for (let i = 0; i < 210; i++) view.write(`${i}\n`.repeat(1000))
    expect(view.lines).toBeLessThanOrEqual(200_700)
    expect(view.dropped).toBe(210_000 - view.lines)
    expect(view.el.textContent).toContain('lines left out')
    expect(saved().length).toBeLessThan(1.1 * (1 << 20))
    view.write('x'.repeat(30_000))
    expect(saved().slice(-30_000)).not.toContain('x'.repeat(20_001))
  })

  it('shows in the language of the page what it left out, and saves the same in all languages', () => {
    language.value = german
    try {
      view.write('a\n')
      view.skip(1234)
      view.write('line\n'.repeat(10))
      expect(view.el.textContent).toContain('… 1.234 Zeilen ausgelassen …')
      expect(view.parts(20)[0]!.text).toContain('… 1,242 lines left out …\n')
    } finally {
      language.value = english
    }
  })

  it('takes 100,000 lines without much work', () => {
    vi.useRealTimers()
    const start = performance.now()
    for (let i = 0; i < 200; i++) view.write(`the quick brown fox ${i}\n`.repeat(500))
    // The bound is for a busy machine. Normally it takes a tenth of it.
    expect(performance.now() - start).toBeLessThan(10_000)
  })
})
