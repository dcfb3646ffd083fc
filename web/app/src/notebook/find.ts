export interface Query {
  text: string
  /** Upper and lower case differ. */
  exact: boolean
  /** The text is a regular expression. */
  pattern: boolean
}

export interface Place {
  from: number
  to: number
  /** The line in which it begins, and its place there. */
  line: string
  at: number
}

/** Returns the expression of a query. Throws a SyntaxError if it is not valid. */
export function expression(q: Query): RegExp {
  const source = q.pattern ? q.text : q.text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  return new RegExp(source, q.exact ? 'gm' : 'gim')
}

/** Returns the places where an expression matches at least one character, at most a number. */
export function places(text: string, re: RegExp, max: number): Place[] {
  const out: Place[] = []
  for (const m of text.matchAll(re)) {
    if (m[0] === '') continue
    if (out.length === max) break
    const start = m.index === 0 ? 0 : text.lastIndexOf('\n', m.index - 1) + 1
    const end = text.indexOf('\n', m.index)
    out.push({ from: m.index, to: m.index + m[0].length, line: text.slice(start, end < 0 ? undefined : end), at: m.index - start })
  }
  return out
}

/** Replaces all places, or the one that begins at an index. $1 is the first group of a pattern. */
export function replaced(text: string, q: Query, by: string, at?: number): string {
  const re = expression(q)
  const other = q.pattern ? by : by.replaceAll('$', '$$$$')
  if (at === undefined) return text.replace(re, (m: string, ...rest: unknown[]) => (m === '' ? '' : expand(m, rest, other)))
  const one = new RegExp(re.source, `${re.flags.replace('g', '')}y`)
  one.lastIndex = at
  return text.replace(one, other)
}

/** Replaces groups such as $1 and $&. */
function expand(match: string, rest: unknown[], other: string): string {
  const groups = rest.slice(0, rest.findIndex((r) => typeof r === 'number')) as (string | undefined)[]
  return other.replace(/\$(\$|&|\d{1,2})/g, (all, name: string) => {
    if (name === '$') return '$'
    if (name === '&') return match
    const n = Number(name)
    return n >= 1 && n <= groups.length ? groups[n - 1] ?? '' : all
  })
}

/** Returns the text nodes of an output, without those of its buttons. */
function textNodes(el: Element): Text[] {
  const out: Text[] = []
  const walker = document.createTreeWalker(el, NodeFilter.SHOW_TEXT, (n) => (n.parentElement?.closest('button, .sr, style, script') ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT))
  while (walker.nextNode()) out.push(walker.currentNode as Text)
  return out
}

/** Returns the text of an output that is in the page. */
export const shownText = (el: Element): string => textNodes(el).map((n) => n.data).join('')

/** Returns the part of the page that has the text of an output between two indexes. */
export function rangeIn(el: Element, from: number, to: number): Range | undefined {
  const range = document.createRange()
  let before = 0
  let begun = false
  for (const n of textNodes(el)) {
    const end = before + n.length
    if (!begun && from < end) {
      range.setStart(n, from - before)
      begun = true
    }
    if (begun && to <= end) {
      range.setEnd(n, to - before)
      return range
    }
    before = end
  }
  return undefined
}
