// The HTML that texts may contain: a few elements, without scripts, styles and addresses.

/** The elements, with the attributes that they may have. */
const elements: Record<string, readonly string[]> = {
  a: ['href'], abbr: [], b: [], big: [], blockquote: [], br: [], center: [], code: [], dd: [], del: [], details: ['open'], div: ['align'], dl: [], dt: [],
  em: [], figcaption: [], figure: [], font: ['color'], h1: ['align'], h2: ['align'], h3: ['align'], h4: ['align'], h5: ['align'], h6: ['align'], hr: [],
  i: [], img: ['src', 'alt', 'width', 'height'], ins: [], kbd: [], li: [], mark: [], ol: ['start'], p: ['align'], pre: [], q: [], s: [], samp: [], small: [],
  span: [], strike: [], strong: [], sub: [], summary: [], sup: [], table: [], tbody: [], td: ['align', 'colspan', 'rowspan'], tfoot: [],
  th: ['align', 'colspan', 'rowspan'], thead: [], tr: [], u: [], ul: [], var: [],
}
/** Elements of older pages, and what is shown for them. */
const others: Record<string, string> = { big: 'span', center: 'div', font: 'span', strike: 's' }

export const voidTags: ReadonlySet<string> = new Set(['br', 'hr', 'img'])

export type Part =
  | { kind: 'text'; text: string }
  | { kind: 'open'; tag: string; attributes: Record<string, string> }
  | { kind: 'close'; tag: string }

const pattern = /<!--[\s\S]*?(?:-->|$)|<(\/?)([a-zA-Z][a-zA-Z0-9]*)((?:\s+[\w:-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?)*)\s*\/?>/g
const named: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' }

/** Replaces the entities that texts have, such as &lt; and &#8364;. */
function decoded(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w{1,8}));/gi, (all, decimal?: string, hex?: string, name?: string) => {
    if (name) return named[name.toLowerCase()] ?? all
    const n = decimal ? Number(decimal) : Number.parseInt(hex!, 16)
    return n > 0 && n <= 0x10ffff ? String.fromCodePoint(n) : all
  })
}

/** Divides HTML into tags that texts may contain and into text. Other tags are text. */
export function tagsOf(html: string): Part[] {
  const parts: Part[] = []
  const text = (s: string) => {
    const last = parts.at(-1)
    if (s === '') return
    if (last?.kind === 'text') last.text += s
    else parts.push({ kind: 'text', text: s })
  }
  let at = 0
  for (const m of html.matchAll(pattern)) {
    text(decoded(html.slice(at, m.index)))
    at = m.index + m[0].length
    if (m[0].startsWith('<!--')) continue
    const tag = m[2]!.toLowerCase()
    if (!Object.hasOwn(elements, tag)) text(m[0])
    else if (m[1]) parts.push({ kind: 'close', tag })
    else parts.push({ kind: 'open', tag, attributes: attributesOf(m[3]!) })
  }
  text(decoded(html.slice(at)))
  return parts
}

function attributesOf(source: string): Record<string, string> {
  const found: Record<string, string> = {}
  for (const m of source.matchAll(/([\w:-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?/g)) found[m[1]!.toLowerCase()] = decoded(m[2] ?? m[3] ?? m[4] ?? '')
  return found
}

const colour = /^(?:[a-z]{3,20}|#[\da-f]{3,8}|rgba?\([\d\s.,%]{1,40}\))$/i

/** Returns the element of a tag, with the attributes and the styles that it may have. */
export function openTag({ tag, attributes: a }: Extract<Part, { kind: 'open' }>): HTMLElement {
  const el = document.createElement(others[tag] ?? tag)
  for (const name of elements[tag]!) {
    const value = a[name]
    if (value === undefined || name === 'href') continue // the caller checks addresses
    if (name === 'align') {
      if (/^(left|right|center)$/i.test(value)) el.style.textAlign = value.toLowerCase()
    } else if (name === 'color') {
      if (colour.test(value)) el.style.color = value
    } else if (name === 'open') (el as HTMLDetailsElement).open = true
    else if (/^\d{1,4}$/.test(value)) el.setAttribute(name, value)
  }
  if (tag === 'center') el.style.textAlign = 'center'
  for (const rule of (a.style ?? '').split(';')) {
    const [name, value] = rule.split(':').map((s) => s.trim())
    if (!name || !value) continue
    if (/^(color|background-color|background)$/i.test(name) && colour.test(value)) el.style.setProperty(name.toLowerCase() === 'color' ? 'color' : 'background-color', value)
    else if (/^text-align$/i.test(name) && /^(left|right|center)$/i.test(value)) el.style.textAlign = value
  }
  if (/^(rtl|ltr|auto)$/i.test(a.dir ?? '')) el.dir = a.dir!
  if (a.title) el.title = a.title
  return el
}

/**
 * Closes the last open element of the tag, with those in it. An element that Markdown has opened stays
 * open: its own end closes it.
 */
export function closeTag(tag: string, stack: { html?: string }[]): void {
  for (let i = stack.length - 1; i > 0 && stack[i]!.html !== undefined; i--) {
    if (stack[i]!.html !== tag) continue
    stack.length = i
    return
  }
}
