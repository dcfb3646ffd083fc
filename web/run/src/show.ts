import { translated } from './texts.js'

/** Creates an element. Text is inserted as text. */
export function el<K extends keyof HTMLElementTagNameMap>(tag: K, props: Record<string, unknown> = {}, ...inside: (Node | string)[]): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag)
  for (const [k, v] of Object.entries(props)) {
    if (k in e && !k.startsWith('aria')) (e as unknown as Record<string, unknown>)[k] = v
    else e.setAttribute(k, String(v))
  }
  e.append(...inside)
  return e
}

const pictures = 'png jpeg gif webp svg+xml'.split(' ').map((t) => 'image/' + t)

// The first child of the shown document, so nothing in it can change this. The frame's sandbox
// disables scripts.
const policy = `<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none';style-src 'unsafe-inline';img-src data:">` +
  '<style>:root{color-scheme:SCHEME;font:13px/20px system-ui;color:COLOUR}' +
  'table{border-collapse:collapse;border:0}td,th{padding:3px 10px;border:0;border-bottom:1px solid #8884;white-space:nowrap}p,body{margin:7px}</style>'

/**
 * Shows data that has several forms: an image, HTML in a frame that can run and load nothing, or
 * text. Scripts never run here; the notebook shows more.
 */
export function show(data: Record<string, unknown>, host: Element): HTMLElement {
  const text = (type: string) => {
    const v = data[type]
    return Array.isArray(v) ? v.join('') : typeof v === 'string' ? v : v === undefined ? '' : JSON.stringify(v, null, 2)
  }
  const plain = text('text/plain')
  for (const type of pictures) {
    if (!(type in data)) continue
    const src = type.endsWith('xml') ? ',' + encodeURIComponent(text(type)) : ';base64,' + text(type).trim()
    return el('img', { alt: plain || translated(host, 'picture'), src: `data:${type}${src}`, part: 'image' })
  }
  const html = text('text/html')
  if (html) {
    const style = getComputedStyle(host)
    const rows = (html.match(/<(tr|p|li|h\d|br)\b/g) ?? []).length
    return el('iframe', {
      title: translated(host, 'output'), part: 'frame', sandbox: '', height: Math.min(rows * 27 + 14, 380), // a row has 27 pixels
      srcdoc: policy.replace('SCHEME', style.colorScheme.replace('normal', 'light')).replace('COLOUR', style.color) + html,
    })
  }
  return el('pre', {}, (plain || text(Object.keys(data)[0]!)).slice(0, 200_000))
}
