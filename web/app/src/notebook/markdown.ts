import MarkdownIt, { type Token } from 'markdown-it'
import { t } from '../language/texts'
import { closeTag, openTag, tagsOf, voidTags } from './markdown/html'
import { footnotes, type Note, type Notes } from './markdown/footnotes'
import type { Bundle } from './ipynb'
import { languageOf } from './languages'

const md = new MarkdownIt({ html: true, linkify: true, breaks: false }).use(footnotes)
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

/** The content of a text cell that is being built. */
interface Building {
  attachments: Record<string, Bundle>
  notes: Notes
  /** Unlike that of all other texts of the page, for the addresses of footnotes. */
  name: string
}

let texts = 0

/**
 * Converts Markdown to DOM nodes, from the parser's tokens and never by the browser's parser of HTML.
 * A few elements of HTML may be in it. Links may use http, https and mailto. Images come from
 * the cell's attachments and data URLs.
 */
export function markdown(source: string, attachments: Record<string, Bundle> = {}): HTMLElement {
  const root = document.createElement('div')
  root.className = 'markdown'
  const env: { notes?: Notes } = {}
  const tokens = md.parse(source.slice(0, 1 << 20), env)
  const of: Building = { attachments, notes: env.notes ?? new Map(), name: `note-${++texts}` }
  root.append(build(tokens, of))
  const used = [...of.notes.values()].filter((n) => n.number > 0).sort((a, b) => a.number - b.number)
  if (used.length) root.append(notesOf(used, of))
  return root
}

/** The list of footnotes below a text. */
function notesOf(notes: Note[], of: Building): HTMLElement {
  const list = document.createElement('ol')
  list.className = 'footnotes'
  for (const n of notes) {
    const item = document.createElement('li')
    item.id = `${of.name}-${n.number}`
    item.dir = 'auto'
    item.append(build(md.parseInline(n.text, { notes: of.notes }), of), ' ', jump(`${of.name}-ref-${n.number}`, '↩', t('Back to the text')))
    list.append(item)
  }
  return list
}

/** A link to another place of the page. It changes no address, which is that of the notebook. */
function jump(id: string, text: string, label: string): HTMLElement {
  const a = document.createElement('a')
  a.href = `#${id}`
  a.textContent = text
  a.setAttribute('aria-label', label)
  a.addEventListener('click', (e) => {
    e.preventDefault()
    goTo(document.getElementById(id))
  })
  return a
}

function goTo(el: HTMLElement | null | undefined): void {
  if (!el) return
  el.scrollIntoView({ block: 'center' })
  el.tabIndex = -1
  el.focus({ preventScroll: true })
}

/** An element that is open. Markdown and HTML close their own. */
interface Open {
  node: Node
  html?: string
}

function build(tokens: Token[], of: Building): DocumentFragment {
  const top = document.createDocumentFragment()
  const stack: Open[] = [{ node: top }]
  const here = () => stack.at(-1)!.node
  const add = (node: Node) => void here().appendChild(node)
  tokens.forEach((t, i) => {
    if (t.type === 'inline') add(build(t.children ?? [], of))
    else if (t.type === 'text' || t.type === 'text_special') add(document.createTextNode(t.content))
    else if (t.type === 'softbreak') add(document.createTextNode('\n'))
    else if (t.type === 'math_inline' || t.type === 'math_display') add(math(t.content, t.type === 'math_display'))
    else if (t.type === 'image') add(picture(String(t.attrGet('src') ?? ''), t.content, String(t.attrGet('title') ?? ''), of.attachments))
    else if (t.type === 'footnote') add(reference(t, of))
    else if (t.type === 'html_inline' || t.type === 'html_block') html(t.content, stack, of)
    else if (t.type === 'fence' || t.type === 'code_block') add(fence(t))
    else if (t.type === 'code_inline') add(Object.assign(document.createElement('code'), { textContent: t.content }))
    else if (t.nesting === -1) {
      while (stack.length > 1 && stack.pop()!.html !== undefined); // what HTML has left open
    } else {
      const el = element(t)
      if (t.hidden && t.tag === 'p') {
        if (t.nesting === 1) stack.push({ node: here() }) // a tight list has no paragraphs
        return
      }
      add(el)
      if (t.tag === 'li') task(el, tokens.slice(i + 1, i + 3))
      if (t.nesting === 1) stack.push({ node: el })
    }
  })
  return top
}

/** The element of a token that opens one. */
function element(t: Token): HTMLElement {
  const el = document.createElement(allowed.has(t.tag) ? t.tag : 'span')
  if (t.tag === 'a') link(el as HTMLAnchorElement, String(t.attrGet('href') ?? ''))
  const align = /text-align:(left|right|center)/.exec(String(t.attrGet('style') ?? ''))
  if (align) el.style.textAlign = align[1]!
  else if (directed.has(t.tag)) el.dir = 'auto' // right-to-left text begins at the right
  const start = t.attrGet('start')
  if (t.tag === 'ol' && start) (el as HTMLOListElement).start = Number(start)
  return el
}

/** Puts a box before an item of a task list: it begins with [ ] or [x]. */
function task(item: HTMLElement, next: Token[]): void {
  const text = next.find((t) => t.type === 'inline')?.children?.[0]
  const mark = text?.type === 'text' && /^\[([ xX])\](?=\s|$)\s*/.exec(text.content)
  if (!mark) return
  text.content = text.content.slice(mark[0].length)
  const box = document.createElement('input')
  box.type = 'checkbox'
  box.disabled = true
  box.checked = mark[1] !== ' '
  box.toggleAttribute('checked', box.checked) // also in a page that is exported
  box.setAttribute('aria-label', box.checked ? t('Done|a task') : t('To do|a task'))
  item.className = 'task'
  item.append(box)
}

/** Opens and closes the elements of a piece of HTML. Unknown tags are shown as text. */
function html(source: string, stack: Open[], of: Building): void {
  const here = () => stack.at(-1)!.node
  for (const part of tagsOf(source)) {
    if (part.kind === 'text') here().appendChild(document.createTextNode(part.text))
    else if (part.kind === 'close') closeTag(part.tag, stack)
    else if (part.tag === 'img') here().appendChild(sized(picture(part.attributes.src ?? '', part.attributes.alt ?? '', part.attributes.title ?? '', of.attachments), part.attributes))
    else {
      const el = openTag(part)
      if (part.tag === 'a') link(el as HTMLAnchorElement, part.attributes.href ?? '')
      here().appendChild(el)
      if (!voidTags.has(part.tag)) stack.push({ node: el, html: part.tag })
    }
  }
}

/** Gives a picture the size of its tag. */
function sized(node: Node, { width, height }: Record<string, string>): Node {
  if (!(node instanceof HTMLImageElement)) return node
  if (/^\d{1,4}(%|px)?$/.test(width ?? '')) node.style.width = /\d$/.test(width!) ? `${width}px` : width!
  if (/^\d{1,4}(px)?$/.test(height ?? '')) node.style.height = /\d$/.test(height!) ? `${height}px` : height!
  return node
}

/** The number of a footnote in the text. */
function reference(token: Token, of: Building): HTMLElement {
  const { number } = token.meta as { number: number }
  const sup = document.createElement('sup')
  sup.id = `${of.name}-ref-${number}`
  sup.append(jump(`${of.name}-${number}`, String(number), t('Footnote {n}', { n: number })))
  return sup
}

function fence(t: Token): HTMLElement {
  const pre = document.createElement('pre')
  const code = document.createElement('code')
  code.textContent = t.content
  pre.append(code)
  pre.tabIndex = 0
  if (t.info.trim().split(/\s/)[0] !== 'mermaid') {
    colour(code, t.content, t.info)
    return pre
  }
  const box = document.createElement('div')
  box.className = 'diagram'
  box.append(pre)
  box.dataset.waits = ''
  void import('./diagram').then((m) => m.showDiagram(box, t.content)).finally(() => delete box.dataset.waits)
  return box
}

function link(a: HTMLAnchorElement, href: string): void {
  if (href.startsWith('#')) {
    a.href = href
    a.addEventListener('click', (e) => {
      e.preventDefault()
      goTo(headingOf(href.slice(1)))
    })
    return
  }
  if (!/^(?:https?|mailto):/i.test(href)) return
  a.href = href
  a.target = '_blank'
  a.rel = 'noopener noreferrer'
  a.title = href
}

/** The form of a heading in links to it, as in Jupyter and GitHub, without the differences. */
const slug = (text: string) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '')

/** Finds the heading of the page that a link means. */
function headingOf(name: string): HTMLElement | undefined {
  let wanted = name
  try {
    wanted = decodeURIComponent(name)
  } catch {
    // It is not encoded.
  }
  return [...document.querySelectorAll<HTMLElement>('.markdown :is(h1, h2, h3, h4, h5, h6)')].find((h) => slug(h.textContent ?? '') === slug(wanted))
}

function picture(src: string, alt: string, title: string, attachments: Record<string, Bundle>): Node {
  const img = document.createElement('img')
  img.alt = alt
  img.title = title
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
  a.textContent = t('Picture: {name}', { name: alt || src })
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
