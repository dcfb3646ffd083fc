import MarkdownIt, { type Token } from 'markdown-it'
import { t } from '../language/texts'
import type { Bundle } from './ipynb'
import { languageOf } from './languages'

const md = new MarkdownIt({ html: false, linkify: true, breaks: false })
md.inline.ruler.before('escape', 'math', (state, silent) => {
  const { src, pos } = state
  const two = src.startsWith('$$', pos)
  const mark = two ? '$$' : src[pos] === '$' ? '$' : src.startsWith('\\(', pos) ? '\\(' : src.startsWith('\\[', pos) ? '\\[' : ''
  if (!mark) return false
  const close = mark === '\\(' ? '\\)' : mark === '\\[' ? '\\]' : mark
  const from = pos + mark.length
  if (mark === '$' && /[\s\d]/.test(src[from] ?? ' ') && !/^\d[^$\n]*[\\^_=+*/<>a-zA-Z]/.test(src.slice(from))) return false
  let end = src.indexOf(close, from)
  while (mark === '$' && end > 0 && src[end - 1] === '\\') end = src.indexOf(close, end + 1)
  if (end < 0 || end === from || (mark === '$' && (/\s/.test(src[end - 1]!) || /\d/.test(src[end + 1] ?? '')))) return false
  if (!silent) {
    const t = state.push(mark === '$$' || mark === '\\[' ? 'math_display' : 'math_inline', 'math', 0)
    t.content = src.slice(from, end)
  }
  state.pos = end + close.length
  return true
})
// Equations over several lines keep their backslashes and underscores.
md.block.ruler.before('fence', 'math_block', (state, start, end, silent) => {
  const line = (n: number) => state.src.slice(state.bMarks[n]! + state.tShift[n]!, state.eMarks[n])
  const first = line(start)
  const environment = /^\\begin\{(\w+\*?)\}/.exec(first)
  if (!first.startsWith('$$') && !environment) return false
  const close = environment ? `\\end{${environment[1]}}` : '$$'
  let next = start
  let content = environment ? first : first.slice(2)
  for (;;) {
    const at = content.indexOf(close)
    if (at >= 0) {
      if (content.slice(at + close.length).trim()) return false
      content = content.slice(0, environment ? at + close.length : at)
      break
    }
    if (++next >= end) return false
    content += `\n${line(next)}`
  }
  if (silent) return true
  const t = state.push('math_display', 'math', 0)
  t.content = content
  t.block = true
  state.line = next + 1
  return true
}, { alt: ['paragraph', 'reference', 'blockquote', 'list'] })

/** The elements whose text can have a direction of its own. */
const directed = new Set(['p', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'li', 'blockquote', 'th', 'td'])
const allowed = new Set([
  'p', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'blockquote', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'em', 'strong', 's', 'a', 'code', 'hr', 'br',
])

/**
 * Converts Markdown to DOM nodes, from the parser's tokens and never from HTML. Links may use http,
 * https and mailto. Images come from the cell's attachments and data URLs.
 */
export function markdown(source: string, attachments: Record<string, Bundle> = {}): HTMLElement {
  const root = document.createElement('div')
  root.className = 'markdown'
  root.append(build(md.parse(source.slice(0, 1 << 20), {}), attachments))
  return root
}

function build(tokens: Token[], attachments: Record<string, Bundle>): DocumentFragment {
  const top = document.createDocumentFragment()
  const stack: Node[] = [top]
  const here = () => stack.at(-1)!
  for (const t of tokens) {
    if (t.type === 'inline') here().appendChild(build(t.children ?? [], attachments))
    else if (t.type === 'text' || t.type === 'text_special') here().appendChild(document.createTextNode(t.content))
    else if (t.type === 'softbreak') here().appendChild(document.createTextNode('\n'))
    else if (t.type === 'math_inline' || t.type === 'math_display') here().appendChild(math(t.content, t.type === 'math_display'))
    else if (t.type === 'image') here().appendChild(picture(t, attachments))
    else if (t.type === 'fence' || t.type === 'code_block') {
      const pre = document.createElement('pre')
      const code = document.createElement('code')
      code.textContent = t.content
      colour(code, t.content, t.info)
      pre.append(code)
      pre.tabIndex = 0
      here().appendChild(pre)
    } else if (t.type === 'code_inline') {
      here().appendChild(Object.assign(document.createElement('code'), { textContent: t.content }))
    } else if (t.nesting === -1) {
      if (stack.length > 1) stack.pop()
    } else {
      const el = document.createElement(allowed.has(t.tag) ? t.tag : 'span')
      if (t.hidden && t.tag === 'p') {
        if (t.nesting === 1) stack.push(here()) // a tight list has no paragraphs
        continue
      }
      if (t.tag === 'a') link(el as HTMLAnchorElement, String(t.attrGet('href') ?? ''))
      const align = /text-align:(left|right|center)/.exec(String(t.attrGet('style') ?? ''))
      if (align) el.style.textAlign = align[1]!
      else if (directed.has(t.tag)) el.dir = 'auto' // right-to-left text begins at the right
      const start = t.attrGet('start')
      if (t.tag === 'ol' && start) (el as HTMLOListElement).start = Number(start)
      here().appendChild(el)
      if (t.nesting === 1) stack.push(el)
    }
  }
  return top
}

function link(a: HTMLAnchorElement, href: string): void {
  if (href.startsWith('#')) {
    a.href = href
    return
  }
  if (!/^(?:https?|mailto):/i.test(href)) return
  a.href = href
  a.target = '_blank'
  a.rel = 'noopener noreferrer'
  a.title = href
}

function picture(token: Token, attachments: Record<string, Bundle>): Node {
  const src = String(token.attrGet('src') ?? '')
  const img = document.createElement('img')
  img.alt = token.content
  img.title = String(token.attrGet('title') ?? '')
  const name = /^attachment:(.+)$/.exec(src)?.[1]
  const attached = name && Object.entries(attachments[decodeURI(name)] ?? {})[0]
  if (attached && /^image\/(png|jpeg|gif|webp)$/.test(attached[0])) {
    img.src = `data:${attached[0]};base64,${String(attached[1]).replace(/\s/g, '')}`
    return img
  }
  if (/^data:image\/(png|jpeg|gif|webp);base64,/.test(src)) {
    img.src = src
    return img
  }
  // The page loads nothing from other servers. The user can open the address.
  const a = document.createElement('a')
  link(a, src)
  a.textContent = t('Picture: {name}', { name: token.content || src })
  return a
}

/** Colours code as soon as its language is loaded. */
function colour(el: HTMLElement, source: string, info: string): void {
  const language = languageOf(info.trim().split(/\s/)[0])
  if (!language) return
  el.dataset.waits = ''
  void import('./code/colours').then((m) => m.colouredCode(source, language)).then((nodes) => el.replaceChildren(...nodes), () => {}).finally(() => delete el.dataset.waits)
}

/** Shows an equation as soon as the library is loaded. */
function math(tex: string, display: boolean): HTMLElement {
  const el = document.createElement(display ? 'div' : 'span')
  el.className = 'math'
  el.textContent = tex
  void import('./latex').then((m) => m.render(tex, el, display), () => {})
  return el
}

/** Returns the headings of a Markdown cell. */
export function headings(source: string): { level: number; text: string }[] {
  const tokens = md.parse(source, {})
  return tokens.flatMap((t, i) => t.type === 'heading_open' ? [{ level: Number(t.tag[1]), text: (tokens[i + 1]?.children ?? []).map((c) => c.content).join('') }] : [])
}
