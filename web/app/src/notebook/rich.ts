import { dark } from '../theme'
import { effect } from '@preact/signals'
import { t } from '../language/texts'
import { frameFor, type FrameContent } from './frame'
import type { Ask } from './grid/source'
import type { Bundle } from './ipynb'
import { TextView } from './text'
import type { WidgetHost } from './widgets/host'

/** The maximum number of bytes of one output that are shown. Larger outputs can be downloaded. */
const maxShown = 8 << 20

/** The kernel that an output is from. */
export interface Origin {
  widgets(): Promise<WidgetHost>
  ask: Ask
}

const widgetView = 'application/vnd.jupyter.widget-view+json'

type Render = (data: unknown, metadata: Record<string, unknown>, bundle: Bundle, ask: Ask) => Node | Promise<Node>
type Kind = [mime: RegExp, render: Render]

const text = (v: unknown) => (typeof v === 'string' ? v : JSON.stringify(v))

/** In order of preference. HTML and scripts are always shown in a frame with an opaque origin. */
const kinds: Kind[] = [
  [/^application\/vnd\.sandgate\.table\+json$/, async (v, _, b, ask) => {
    const { kernelGrid } = await import('./grid/grid')
    return kernelGrid(v, ask) ?? htmlOf(b)
  }],
  [/^application\/vnd\.dataresource\+json$/, async (v, _, b) => (await import('./grid/grid')).dataGrid(v) ?? htmlOf(b)],
  [/^application\/vnd\.vegalite\.v\d+(\.json|\+json)$/, (v) => framed({ kind: 'vega-lite', spec: v })],
  [/^application\/vnd\.vega\.v\d+(\.json|\+json)$/, (v) => framed({ kind: 'vega', spec: v })],
  [/^application\/vnd\.plotly\.v\d+\+json$/, (v) => framed({ kind: 'plotly', spec: v })],
  [/^text\/html$/, (v) => framed({ kind: 'html', html: text(v) })],
  [/^application\/javascript$/, (v) => framed({ kind: 'script', code: text(v) })],
  [/^image\/svg\+xml$/, (v, m, b) => image(new Blob([text(v)], { type: 'image/svg+xml' }), 'image/svg+xml', m, b)],
  [/^image\/(png|jpeg|gif|webp|bmp)$/, (v, m, b) => {
    const type = Object.keys(b).find((k) => b[k] === v) ?? 'image/png'
    return image(new Blob([base64(text(v))], { type }), type, m, b)
  }],
  [/^text\/markdown$/, async (v) => (await import('./markdown')).markdown(text(v))],
  [/^text\/latex$/, async (v) => (await import('./latex')).latex(text(v))],
  [/^application\/(.*\+)?json$/, async (v) => {
    // Loads the grid only for a list that can be a table.
    const grid = Array.isArray(v) && typeof v[0] === 'object' && v[0] !== null && (await import('./grid/grid')).dataGrid(v)
    return grid || (await import('./jsontree')).jsonTree(v)
  }],
  [/^text\/plain$/, (v) => {
    const view = new TextView()
    view.write(text(v))
    return view.el
  }],
]

/** Returns the MIME type of a bundle that is shown. */
export function preferred(data: Bundle): string | undefined {
  // Without the widget, its text contains more than its view.
  const mimes = Object.keys(data).filter((m) => m !== widgetView)
  for (const [re] of kinds) {
    const mime = mimes.find((m) => re.test(m))
    if (mime) return mime
  }
  return mimes[0]
}

/** One rich output, shown in the given element. */
export class Rich {
  readonly #el: HTMLElement
  readonly #origin: (() => Promise<Origin>) | undefined
  #shown = 0
  #dispose: (() => void) | undefined

  constructor(el: HTMLElement, data: Bundle, metadata: Record<string, unknown>, origin?: () => Promise<Origin>) {
    this.#el = el
    this.#origin = origin
    this.show(data, metadata)
  }

  show(data: Bundle, metadata: Record<string, unknown>): void {
    const turn = ++this.#shown
    const model = this.#origin && modelOf(data)
    const mime = model === undefined ? preferred(data) : widgetView
    const value = mime === undefined ? undefined : data[mime]
    this.#el.dataset.mime = mime ?? 'none'
    const put = (n: Node) => {
      if (turn !== this.#shown) return
      this.#dispose?.()
      this.#dispose = (n as { dispose?: () => void }).dispose
      this.#el.replaceChildren(n)
    }
    if (mime === undefined) return put(note(t('An output without content.')))
    const size = typeof value === 'string' ? value.length : 0
    if (size > maxShown) return put(note(t('{type} of {size} MiB is too large to be shown.', { type: mime, size: Math.round(size / (1 << 20)) }), value as string, mime))
    const render: Render | undefined = model === undefined ? kinds.find(([re]) => re.test(mime))?.[1]
      : async () => (await import('./widgets/view')).widgetView(model, await (await this.#origin!()).widgets(), text(data['text/plain'] ?? ''))
    if (!render) return put(note(t('{type} cannot be shown here.', { type: mime }), text(value), mime))
    const plain = () => put(typeof data['text/plain'] === 'string' ? Object.assign(document.createElement('pre'), { textContent: data['text/plain'] }) : note(t('{type} could not be shown.', { type: mime })))
    try {
      const ask = async (about: Record<string, unknown>) => (await this.#origin?.())?.ask(about)
      const made = render(value, (metadata[mime] as Record<string, unknown>) ?? metadata, data, ask)
      if (made instanceof Promise) made.then(put, plain)
      else put(made)
    } catch {
      plain()
    }
  }

  dispose(): void {
    this.#shown++
    this.#dispose?.()
  }
}

/** Returns the id of the model of a widget's view. */
function modelOf(data: Bundle): string | undefined {
  const id = (data[widgetView] as { model_id?: unknown } | undefined)?.model_id
  return typeof id === 'string' && id !== '' && id.length <= 128 ? id : undefined
}

/** Shows the HTML of an output that is no table. The error without HTML makes its text appear. */
function htmlOf(b: Bundle): Node {
  if (b['text/html'] === undefined) throw new Error()
  return framed({ kind: 'html', html: text(b['text/html']) })
}

function framed(content: FrameContent): Node {
  const { el, dispose } = frameFor(content)
  return Object.assign(el, { dispose })
}

export function base64(s: string): Uint8Array<ArrayBuffer> {
  const raw = atob(s.replace(/\s/g, ''))
  const out = new Uint8Array(raw.length)
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i)
  return out
}

/** Shows an image. Scripts in an SVG never run in an <img>. */
async function image(blob: Blob, type: string, m: Record<string, unknown>, bundle: Bundle): Promise<Node> {
  const { picture } = await import('./picture')
  const img = document.createElement('img')
  const url = URL.createObjectURL(blob)
  img.src = url
  img.alt = typeof m.alt === 'string' ? m.alt : typeof bundle['text/plain'] === 'string' ? bundle['text/plain'].slice(0, 200) : t('Picture')
  if (typeof m.width === 'number' && m.width > 0) img.width = m.width
  if (typeof m.height === 'number' && m.height > 0 && typeof m.width !== 'number') img.height = m.height
  if (m.needs_background === 'light') img.style.background = '#fff'
  const el = picture(img, blob, type)
  img.addEventListener('error', () => el.replaceWith(note(t('The {type} could not be read.', { type }))))
  // Images are made for white paper, unless their metadata says otherwise.
  const stop = effect(() => void img.classList.toggle('on-paper', dark.value && m.needs_background !== 'dark'))
  return Object.assign(el, {
    dispose: () => {
      stop()
      URL.revokeObjectURL(url)
    },
  })
}

function note(words: string, content?: string, mime?: string): HTMLElement {
  const p = document.createElement('p')
  p.className = 'out-note'
  p.textContent = words
  if (content !== undefined) {
    const a = document.createElement('button')
    a.className = 'button'
    a.textContent = t('Download')
    a.addEventListener('click', () => {
      const binary = /^(image\/(?!svg)|audio\/|video\/|application\/pdf)/.test(mime ?? '')
      save(new Blob([binary ? base64(content) : content], { type: 'application/octet-stream' }), `output.${(mime ?? '').split(/[/+.]/).pop()}`)
    })
    p.append(' ', a)
  }
  return p
}

/** Downloads data as a file. */
export function save(blob: Blob, name: string): void {
  const a = document.createElement('a')
  a.href = URL.createObjectURL(blob)
  a.download = name
  a.click()
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000)
}
