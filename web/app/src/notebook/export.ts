import type { Notebook } from './notebook'
import type { CellJSON, OutputJSON } from './ipynb'
import { facts } from './languages'
import { preferred, save } from './rich'
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

const css = `:root{color-scheme:light dark;--code-keyword:light-dark(#8a2a8c,#d7a3e8);--err:light-dark(#ab2418,#ff9085)}
body{max-width:860px;margin:0 auto;padding:32px 16px;font:15px/1.55 system-ui,sans-serif}pre{overflow-x:auto;font:13px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.code{padding:10px 12px;border:1px solid #8884;border-radius:8px;background:#8881}.out{padding:4px 12px}.error,.err{color:var(--err)}img{max-width:100%}table{border-collapse:collapse}th,td{padding:4px 10px;border-bottom:1px solid #8883;text-align:start}
iframe{width:100%;height:320px;border:0}small{color:#777}`

const frameStyle = '<meta name="color-scheme" content="light dark"><style>body{margin:0;font:14px/1.5 system-ui,sans-serif}table{border-collapse:collapse}th,td{padding:4px 10px;text-align:end}</style>'

/** Returns a page that needs no other files. HTML from programs is in frames that run no script. */
async function page(n: Notebook, title: string): Promise<string> {
  const { markdown } = await import('./markdown')
  const doc = document.implementation.createHTMLDocument(title)
  doc.documentElement.lang = 'en'
  const policy = doc.createElement('meta')
  policy.httpEquiv = 'Content-Security-Policy'
  policy.content = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-src 'self' about:"
  const charset = doc.createElement('meta')
  charset.setAttribute('charset', 'utf-8')
  const style = doc.createElement('style')
  style.textContent = css
  doc.head.prepend(charset, policy)
  doc.head.append(style)
  // The page's policy would block the content of frames, so attributes have this name until the
  // page is written out.
  const inner = `data-${crypto.randomUUID()}`
  for (const c of n.toJSON().cells) {
    if (c.cell_type === 'markdown') {
      doc.body.append(doc.importNode(markdown(c.source, c.attachments), true))
      continue
    }
    const pre = doc.createElement('pre')
    pre.className = 'code'
    pre.textContent = c.source
    doc.body.append(pre)
    for (const o of c.outputs) doc.body.append(output(doc, o, inner))
  }
  return `<!doctype html>\n${new XMLSerializer().serializeToString(doc.documentElement).replace(' xmlns="http://www.w3.org/1999/xhtml"', '').replaceAll(` ${inner}=`, ' srcdoc=')}`
}

function output(doc: Document, o: OutputJSON, inner: string): Node {
  const box = doc.createElement('div')
  box.className = 'out'
  const text = (s: string, cls?: string) => {
    const view = new TextView()
    view.write(s)
    const pre = doc.createElement('pre')
    if (cls) pre.className = cls
    pre.textContent = view.parts().map((p) => p.text).join('').replace(/\x1b\[[\d;]*m/g, '')
    box.append(pre)
  }
  if (o.output_type === 'stream') text(o.text, o.name === 'stderr' ? 'err' : undefined)
  else if (o.output_type === 'error') text([`${o.ename}: ${o.evalue}`, ...o.traceback].join('\n'), 'error')
  else {
    const mime = preferred(o.data) ?? ''
    const v = o.data[mime]
    if (mime.startsWith('image/')) {
      const img = doc.createElement('img')
      img.alt = String(o.data['text/plain'] ?? 'Picture')
      img.src = mime === 'image/svg+xml' ? `data:image/svg+xml,${encodeURIComponent(String(v))}` : `data:${mime};base64,${String(v).replace(/\s/g, '')}`
      box.append(img)
    } else if (mime === 'text/html') {
      const frame = doc.createElement('iframe')
      frame.setAttribute('sandbox', '')
      frame.setAttribute(inner, frameStyle + String(v))
      box.append(frame)
    } else text(typeof v === 'string' ? v : JSON.stringify(v, null, 1))
  }
  return box
}
