import { describe, expect, it } from 'vitest'
import { expression, places, rangeIn, replaced, shownText } from '../src/notebook/find'

const query = (text: string, more = {}) => ({ text, exact: false, pattern: false, ...more })
const hits = (text: string, q: ReturnType<typeof query>, max = 99) => places(text, expression(q), max).map((p) => `${text.slice(p.from, p.to)} in ${p.line} at ${p.at}`)

describe('search', () => {
  it('finds text in any case, and each sign as itself', () => {
    expect(hits('a.b\nA.B axb', query('a.b'))).toEqual(['a.b in a.b at 0', 'A.B in A.B axb at 0'])
    expect(hits('a.b\nA.B', query('a.b', { exact: true }))).toEqual(['a.b in a.b at 0'])
    expect(hits('f(x) $1 [2]', query('(x) $1 ['))).toEqual(['(x) $1 [ in f(x) $1 [2] at 1'])
    expect(hits('\n\nx', query('x'))).toEqual(['x in x at 0'])
  })

  it('finds regular expressions by line, and none that match nothing', () => {
    expect(hits('x = 1\ny = 22', query('^\\w = (\\d+)$', { pattern: true }))).toEqual(['x = 1 in x = 1 at 0', 'y = 22 in y = 22 at 0'])
    expect(hits('abc', query('z*', { pattern: true }))).toEqual([])
    expect(hits('aaaa', query('a'), 2)).toHaveLength(2)
    expect(() => expression(query('(', { pattern: true }))).toThrow(SyntaxError)
  })

  it('replaces all places or one, with groups in patterns only', () => {
    const swap = query('(\\w+)=(\\w+)', { pattern: true })
    expect(replaced('a=1, b=2', swap, '$2=$1')).toBe('1=a, 2=b')
    expect(replaced('a=1, b=2', swap, '$2=$1', 5)).toBe('a=1, 2=b')
    expect(replaced('a=1', swap, '$$ $& $9')).toBe('$ a=1 $9')
    expect(replaced('x and x', query('x'), '$1 & $&')).toBe('$1 & $& and $1 & $&')
    expect(replaced('x and x', query('x'), '$&', 6)).toBe('x and $&')
    expect(replaced('abc', query('z*', { pattern: true }), '-')).toBe('abc')
  })

  it('finds the part of an output that has the text, over several elements', () => {
    const el = document.createElement('div')
    for (const text of ['one ', 'two', ' three']) el.append(Object.assign(document.createElement('span'), { textContent: text }))
    el.children[0]!.append(Object.assign(document.createElement('button'), { textContent: 'Copy' }))
    expect(shownText(el)).toBe('one two three')
    expect(rangeIn(el, 2, 9)?.startOffset).toBe(2)
    expect(rangeIn(el, 4, 7)?.startContainer.textContent).toBe('two')
    expect(rangeIn(el, 4, 99)).toBeUndefined()
  })
})
