import { language, t } from '../language/texts'
import type { Notebook } from './notebook'
import type { CellJSON, OutputJSON } from './ipynb'
import { facts } from './languages'
import { preferred, save } from './rich'
import { coloured } from './sgr'
import { TextView } from './text'

/** Downloads the notebook as a file. */
export async function exportNotebook(n: Notebook, as: 'ipynb' | 'html' | 'script'): Promise<void> {
  const name = (n.path.split('/').pop() ?? 'notebook').replace(/\.ipynb$/, '')
  if (as === 'ipynb') return save(new Blob([n.export()], { type: 'application/x-ipynb+json' }), `${name}.ipynb`)
  if (as === 'html') return save(new Blob([await page(n, name)], { type: 'text/html' }), `${name}.html`)
  const main = n.language.peek()
  save(new Blob([script(n.toJSON().cells, n.cells.peek().map((c) => c.language.peek()), main)], { type: 'text/plain' }), `${name}.${facts(main).extension}`)
}

/**
 * Returns the code of the main language, and other cells as comments, with the marks that editors
 * know.
 */
export function script(cells: CellJSON[], languages: string[], main: string): string {
  const mark = facts(main).comment
  const comment = (s: string) => s.split('\n').map((l) => `${mark} ${l}`.trimEnd()).join('\n')
  return cells.map((c, i) => {
    if (c.cell_type !== 'code') return `${mark} %% [${c.cell_type}]\n${comment(c.source)}\n`
    if (languages[i] !== main) return `${mark} %% [${languages[i]}]\n${comment(c.source)}\n`
    return `${mark} %%\n${c.source}\n`
  }).join('\n')
}

// As the page: see notebook.css. The cells have a gutter with their number, and the same colours.
// The page is written as XML, which has no place for > in a style.
const css = `:root{color-scheme:light dark}*{box-sizing:border-box}
body{max-width:1000px;margin:0 auto;padding:32px 16px;background:var(--bg);color:var(--ink);font:14px/1.5 var(--font)}
a{color:var(--accent)}p,ul,ol,h1,h2,h3,h4,pre{margin:0}h1{font-size:28px;line-height:1.2;letter-spacing:-.02em}h2{font-size:20px}h3,h4{font-size:16px}
.cell{display:grid;grid-template-columns:44px minmax(0,1fr);padding:4px 0}.count{padding-top:12px;color:var(--muted);font:12px/1.4 var(--mono);text-align:center}
pre,code{font-family:var(--mono);font-size:13px}pre{line-height:1.55;white-space:pre-wrap;overflow-wrap:anywhere}
.code{position:relative;padding:10px 12px;border:1px solid var(--line);border-radius:8px;background:var(--surface)}
.language{position:absolute;inset:6px 10px auto auto;color:var(--muted);font:12px/1.5 var(--font)}
.out{padding:8px 12px 0}.out pre{line-height:1.45}.err{color:var(--warn)}.error{padding:8px 12px;border:1px solid var(--danger);border-radius:8px;background:var(--danger-soft);color:var(--danger)}
.markdown{max-width:76ch;padding:2px 12px;font-size:15px;line-height:1.6}.markdown :is(p,ul,ol,pre,blockquote,table,h1,h2,h3,h4,hr){margin-top:.75em}.markdown :first-child{margin-top:0}.markdown ul,.markdown ol{padding-inline-start:1.6em}
.markdown pre{padding:12px;border-radius:5px;background:var(--sunken)}.markdown code{padding:1px 4px;border-radius:4px;background:var(--sunken)}.markdown pre code{padding:0}
.markdown blockquote{margin:.75em 0;padding-inline-start:1em;border-inline-start:3px solid var(--line);color:var(--muted)}.markdown hr{border:0;border-top:1px solid var(--line)}
img{max-width:100%}.markdown .task{list-style:none}.markdown .footnotes{padding-top:.75em;border-top:1px solid var(--line);color:var(--muted);font-size:13px}
.diagram .in-dark{display:none}@media screen and (prefers-color-scheme:dark){.diagram .in-dark{display:inline}.diagram .in-light{display:none}}
table{border-collapse:collapse;font-size:13px}th,td{padding:4px 10px;border-bottom:1px solid var(--line);text-align:start}
iframe{display:block;width:100%;border:0}
@media print{:root:root{color-scheme:light}body{max-width:none;padding:0;background:#fff}.cell{grid-template-columns:32px minmax(0,1fr)}.code,img,iframe{break-inside:avoid}h1,h2,h3{break-after:avoid}}`

/** The colours that the page needs, as the application has them. */
function palette(): string {
  const style = getComputedStyle(document.documentElement)
  const names = [...Array(16).keys()].map((i) => `--ansi-${i}`).concat('--font', '--mono', '--bg', '--surface', '--sunken', '--line', '--ink', '--muted', '--accent', '--warn', '--danger', '--danger-soft',
    '--code-keyword', '--code-string', '--code-number', '--code-comment', '--code-name', '--code-type')
  return `:root{${names.map((n) => `${n}:${style.getPropertyValue(n)}`).join(';')}}`
}

const frameStyle = '<meta name="color-scheme" content="light dark"><style>body{margin:0;font:14px/1.5 system-ui,sans-serif}table{border-collapse:collapse}th,td{padding:4px 10px;text-align:end;line-height:19px;white-space:nowrap}table{border:0}th,td{border:0;border-bottom:1px solid #8883}p{margin:7px 0}</style>'

/** Returns a page that needs no other files. HTML from programs is in frames that run no script. */
async function page(n: Notebook, title: string): Promise<string> {
  const [{ markdown }, { latex }, { colouredCode, colourRules }] = await Promise.all([import('./markdown'), import('./latex'), import('./code/colours')])
  const doc = document.implementation.createHTMLDocument(title)
  doc.documentElement.lang = language.peek().tag
  const policy = doc.createElement('meta')
  policy.httpEquiv = 'Content-Security-Policy'
  policy.content = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; frame-src 'self' about:"
  const charset = doc.createElement('meta')
  charset.setAttribute('charset', 'utf-8')
  const style = doc.createElement('style')
  style.textContent = palette() + css + colourRules()
  doc.head.prepend(charset, policy)
  doc.head.append(style)
  // The page's policy would block the content of frames, so attributes have this name until the
  // page is written out.
  const inner = `data-${crypto.randomUUID()}`
  const [{ cells }, models] = [n.toJSON(), n.cells.peek()]
  for (const [i, c] of cells.entries()) {
    const { row, main } = cellRow(doc, c.cell_type === 'code' ? c.execution_count : null)
    doc.body.append(row)
    if (c.cell_type === 'markdown') {
      main.append(await settled(markdown(c.source, c.attachments)))
      continue
    }
    const code = models[i]!.language.peek()
    const pre = doc.createElement('pre')
    pre.className = 'code'
    pre.append(...await colouredCode(c.source, c.cell_type === 'code' ? code : '', doc))
    if (c.cell_type === 'code' && n.mixed.peek()) pre.append(Object.assign(doc.createElement('span'), { className: 'language', textContent: facts(code).short }))
    main.append(pre)
    for (const o of c.outputs) main.append(await output(doc, o, inner, { markdown, latex }))
  }
  return `<!doctype html>\n${new XMLSerializer().serializeToString(doc.documentElement).replace(' xmlns="http://www.w3.org/1999/xhtml"', '').replaceAll(` ${inner}=`, ' srcdoc=')}`
}

/** A cell of the page: its number, and the place of its content. */
function cellRow(doc: Document, count: number | null): { row: HTMLElement; main: HTMLElement } {
  const [row, number, main] = ['section', 'div', 'div'].map((name) => doc.createElement(name)) as [HTMLElement, HTMLElement, HTMLElement]
  row.className = 'cell'
  number.className = 'count'
  number.textContent = count === null ? '' : String(count)
  row.append(number, main)
  return { row, main }
}

/**
 * Returns an element once its equations are drawn, as MathML, which needs no other files. The others
 * need fonts.
 */
async function settled(el: HTMLElement): Promise<HTMLElement> {
  const waits = () => el.querySelector('[data-waits]') !== null || [...el.querySelectorAll('.math')].some((m) => !m.querySelector('.katex, .katex-error'))
  for (let tries = 0; waits() && tries < 400; tries++) await new Promise((drawn) => setTimeout(drawn, 20))
  for (const other of el.querySelectorAll('.katex-html')) other.remove()
  return el
}

interface Renderers {
  markdown(source: string): HTMLElement
  latex(source: string): HTMLElement
}

async function output(doc: Document, o: OutputJSON, inner: string, render: Renderers): Promise<Node> {
  const box = doc.createElement('div')
  box.className = 'out'
  const text = (s: string, cls?: string) => {
    const view = new TextView()
    view.write(s)
    const pre = doc.createElement('pre')
    if (cls) pre.className = cls
    for (const p of view.parts()) pre.append(...coloured(p.text))
    box.append(pre)
  }
  if (o.output_type === 'stream') text(o.text, o.name === 'stderr' ? 'err' : undefined)
  else if (o.output_type === 'error') text([`${o.ename}: ${o.evalue}`, ...o.traceback].join('\n'), 'error')
  else {
    // A figure that a script draws is shown as its picture, if it has one.
    const figure = /vega|plotly/.test(preferred(o.data) ?? '')
    // A grid needs scripts.
    const shown = 'text/html' in o.data && /sandgate\.table|dataresource/.test(preferred(o.data) ?? '') ? 'text/html' : preferred(o.data) ?? ''
    const mime = figure ? Object.keys(o.data).find((m) => m.startsWith('image/')) ?? 'text/plain' : shown
    const v = o.data[mime]
    if (mime.startsWith('image/')) {
      const img = doc.createElement('img')
      img.alt = String(o.data['text/plain'] ?? t('Picture'))
      img.src = mime === 'image/svg+xml' ? `data:image/svg+xml,${encodeURIComponent(String(v))}` : `data:${mime};base64,${String(v).replace(/\s/g, '')}`
      box.append(img)
    } else if (mime === 'text/html') {
      const frame = doc.createElement('iframe')
      frame.setAttribute('sandbox', '')
      const html = String(v)
      frame.setAttribute(inner, frameStyle + html)
      // A row of a table has 28 pixels. The frame has no script that could measure it.
      const rows = (html.match(/<(tr|p|li|h\d|br|pre|audio|div)\b/g) ?? []).length
      frame.setAttribute('height', String(Math.min(Math.max(rows, 1) * 28 + 36, 640)))
      box.append(frame)
    } else if (mime === 'text/markdown') box.append(await settled(render.markdown(String(v))))
    else if (mime === 'text/latex') box.append(await settled(render.latex(String(v))))
    else if (figure && mime === 'text/plain') text(`${String(v ?? t('A figure'))}\n${t('Open the notebook to see this figure.')}`)
    else text(typeof v === 'string' ? v : JSON.stringify(v, null, 1))
  }
  return box
}
