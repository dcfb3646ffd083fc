// Shows a PDF in the frame of untrusted output. The frame has no worker, because its origin is
// opaque, so the parser runs in the frame itself, which is a process of its own.
import { getDocument, TextLayer, type PDFDocumentLoadingTask, type PDFDocumentProxy, type PDFPageProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import 'pdfjs-dist/legacy/build/pdf.worker.mjs'
import jbig2 from 'pdfjs-dist/wasm/jbig2.wasm'
import openjpeg from 'pdfjs-dist/wasm/openjpeg.wasm'
import { style } from './style'
import { words } from './words'

/** The number of pages that are drawn at the same time. */
const maxDrawn = 8
/** The pixels of a drawn page. */
const maxPixels = 12_000_000
const zooms = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4]
/** The pixels of CSS in a point of a PDF. */
const point = 96 / 72

/** The files that decoders of pictures need, which are part of this script. */
class Files {
  fetch({ filename }: { filename: string }): Promise<Uint8Array> {
    const data = { 'jbig2.wasm': jbig2, 'openjpeg.wasm': openjpeg }[filename]
    return data ? Promise.resolve(data) : Promise.reject(new Error(words.noPart(filename)))
  }
}

export async function show({ root, data }: { root: HTMLElement; data: Uint8Array }): Promise<void> {
  const sheet = document.createElement('style')
  sheet.textContent = style
  document.head.append(sheet)
  root.lang = words.tag
  const task = getDocument({ data, wasmUrl: 'wasm/', BinaryDataFactory: Files, useSystemFonts: true, isEvalSupported: false, enableXfa: false, verbosity: 0 })
  task.onPassword = (take: (password: string) => void, reason: number) => askPassword(root, reason === 2, take)
  const view = new View(root, await open(task))
  await view.start()
}

async function open(task: PDFDocumentLoadingTask): Promise<PDFDocumentProxy> {
  try {
    return await task.promise
  } catch (e) {
    throw new Error(words.badFile((e as Error).message), { cause: e })
  }
}

function askPassword(root: HTMLElement, wrong: boolean, take: (password: string) => void): void {
  const form = document.createElement('form')
  form.className = 'pdf-password'
  const label = document.createElement('label')
  const field = document.createElement('input')
  field.type = 'password'
  label.append(wrong ? words.wrongPassword : words.password, field)
  form.append(label, button(words.open, words.open))
  form.onsubmit = (e) => {
    e.preventDefault()
    form.remove()
    take(field.value)
  }
  root.append(form)
  field.focus()
}

function button(text: string, label: string, press?: () => void): HTMLButtonElement {
  const b = document.createElement('button')
  b.textContent = text
  b.title = label
  b.setAttribute('aria-label', label)
  if (press) {
    b.type = 'button'
    b.onclick = press
  }
  return b
}

interface Sheet {
  number: number
  el: HTMLElement
  near: boolean
  /** The scale at which it is drawn; 0 if it is not. */
  drawn: number
  cancel: (() => void) | undefined
}

class View {
  readonly #document: PDFDocumentProxy
  readonly #sheets: Sheet[] = []
  readonly #said = document.createElement('span')
  readonly #size = document.createElement('span')
  readonly #box = document.createElement('div')
  #first: PDFPageProxy | undefined
  #zoom: number | undefined // undefined fits the width

  constructor(root: HTMLElement, pdf: PDFDocumentProxy) {
    this.#document = pdf
    const bar = document.createElement('div')
    bar.className = 'pdf-bar'
    bar.setAttribute('role', 'toolbar')
    bar.setAttribute('aria-label', words.pages)
    this.#said.setAttribute('role', 'status')
    bar.append(button('−', words.smaller, () => this.#step(-1)), this.#size, button('+', words.larger, () => this.#step(1)), button(words.fitWidth, words.fitWidth, () => this.#set(undefined)), this.#said)
    this.#box.className = 'pdf-pages'
    root.append(bar, this.#box)
  }

  async start(): Promise<void> {
    this.#first = await this.#document.getPage(1)
    const near = new IntersectionObserver((entries) => {
      for (const e of entries) this.#sheets[Number((e.target as HTMLElement).dataset.number) - 1]!.near = e.isIntersecting
      this.#draw()
    }, { rootMargin: '400px' })
    for (let number = 1; number <= this.#document.numPages; number++) {
      const el = document.createElement('section')
      el.className = 'pdf-page'
      el.dataset.number = String(number)
      el.setAttribute('aria-label', words.page(number))
      this.#sheets.push({ number, el, near: false, drawn: 0, cancel: undefined })
      this.#shape(el, this.#first)
      this.#box.append(el)
      near.observe(el)
    }
    this.#report()
    addEventListener('scroll', () => this.#report(), { passive: true })
    addEventListener('resize', () => { if (this.#zoom === undefined) this.#set(undefined) })
  }

  /** Pixels of CSS for a point. */
  get #scale(): number {
    const { width } = this.#first!.getViewport({ scale: 1 })
    return this.#zoom === undefined ? Math.max(0.1, (document.documentElement.clientWidth - 32) / width) : this.#zoom * point
  }

  #shape(el: HTMLElement, page: PDFPageProxy): void {
    const { width, height } = page.getViewport({ scale: this.#scale })
    el.style.width = `${width}px`
    el.style.height = `${height}px`
    el.style.setProperty('--total-scale-factor', String(this.#scale))
  }

  #step(by: 1 | -1): void {
    const now = this.#scale / point
    const next = by > 0 ? zooms.find((z) => z > now + 0.01) : zooms.findLast((z) => z < now - 0.01)
    if (next !== undefined) this.#set(next)
  }

  #set(zoom: number | undefined): void {
    const at = scrollY / Math.max(1, document.documentElement.scrollHeight)
    this.#zoom = zoom
    for (const s of this.#sheets) this.#shape(s.el, this.#first!)
    scrollTo(0, at * document.documentElement.scrollHeight)
    this.#report()
    this.#draw()
  }

  #report(): void {
    const middle = innerHeight / 2
    const seen = this.#sheets.find((s) => s.el.getBoundingClientRect().bottom > middle) ?? this.#sheets.at(-1)
    this.#said.textContent = words.pageOf(seen?.number ?? 0, this.#document.numPages)
    this.#size.textContent = `${Math.round((100 * this.#scale) / point)} %`
  }

  /** Draws the pages that are near, and clears those that are not. */
  #draw(): void {
    const near = this.#sheets.filter((s) => s.near).slice(0, maxDrawn)
    for (const s of this.#sheets) if (s.drawn && !near.includes(s)) this.#clear(s)
    for (const s of near) {
      if (s.drawn === this.#scale) continue
      this.#clear(s)
      s.drawn = this.#scale
      void this.#page(s, this.#scale).catch((e: Error) => {
        if (e.name !== 'RenderingCancelledException' && e.name !== 'AbortException') s.el.textContent = words.badPage(e.message)
      })
    }
  }

  #clear(s: Sheet): void {
    s.cancel?.()
    s.cancel = undefined
    s.drawn = 0
    s.el.replaceChildren()
  }

  async #page(s: Sheet, scale: number): Promise<void> {
    const page = await this.#document.getPage(s.number)
    if (s.drawn !== scale) return
    this.#shape(s.el, page)
    const viewport = page.getViewport({ scale })
    const fine = Math.min(devicePixelRatio || 1, Math.sqrt(maxPixels / (viewport.width * viewport.height)))
    const canvas = document.createElement('canvas')
    canvas.width = Math.max(1, Math.floor(viewport.width * fine))
    canvas.height = Math.max(1, Math.floor(viewport.height * fine))
    canvas.setAttribute('aria-hidden', 'true')
    const drawing = page.render({ canvas, viewport, transform: [fine, 0, 0, fine, 0, 0] })
    const layer = document.createElement('div')
    layer.className = 'textLayer'
    const text = new TextLayer({ textContentSource: page.streamTextContent(), container: layer, viewport })
    s.cancel = () => {
      drawing.cancel()
      text.cancel()
    }
    s.el.replaceChildren(canvas, layer)
    await Promise.all([drawing.promise, text.render()])
  }
}
