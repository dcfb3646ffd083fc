import { plural, t } from '../language/texts'
import { ErrorView } from './error'
import { drawn } from './frames'
import type { Bundle, OutputJSON } from './ipynb'
import { Rich, type Origin } from './rich'
import { TextView } from './text'

/** The number of rich outputs that a cell shows. Further ones are shown after a click. */
const maxRich = 50

type Entry =
  /** Text from a file is written back unchanged as long as nothing is added. */
  | { kind: 'text'; el: HTMLElement; view: TextView; rewind: () => void; json?: OutputJSON[] }
  | { kind: 'rich'; el: HTMLElement; view: Rich; json: Extract<OutputJSON, { data: Bundle }>; display?: string | undefined }
  | { kind: 'error'; el: HTMLElement; view: ErrorView; json: Extract<OutputJSON, { ename: string }> }

export interface Question {
  prompt: string
  password: boolean
  answer(value: string): void
  end(): void
}

/** All output of a cell as DOM nodes, which are only ever appended. */
export class OutputView {
  readonly el = document.createElement('div')
  /** Goes to the line of an error's frame. The page provides this function. */
  jump: ((line: number, cell: number | undefined) => void) | undefined
  /** Opens a file at a line. The page provides this function. */
  openFile: ((path: string, line: number) => void) | undefined
  /** Downloads the whole output, including omitted parts. The page provides this function. */
  download: (() => void) | undefined
  /** Sets the cell's kernel. The page calls this function. */
  provide: (kernel: () => Origin) => void = () => {}
  readonly #provided = new Promise<() => Origin>((resolve) => (this.provide = resolve))
  /** Called when there is something new to save. */
  changed: (() => void) | undefined
  #entries: Entry[] = []
  #clearNext = false
  #question: HTMLElement | undefined
  #more: { count: number; el: HTMLElement } | undefined

  constructor() {
    this.el.className = 'output'
  }

  get empty(): boolean {
    return this.#entries.length === 0 && !this.#question
  }

  get lines(): number {
    return this.#entries.reduce((n, e) => n + (e.kind === 'text' ? e.view.lines : 1), 0)
  }

  load(outputs: OutputJSON[]): void {
    for (const o of outputs) {
      if (o.output_type === 'stream') this.#text(o.text, o.name === 'stderr', o)
      else if (o.output_type === 'error') this.error(o)
      else this.display(o)
    }
    this.finish()
  }

  text(text: string, err: boolean): void {
    this.#text(text, err)
    this.changed?.()
  }

  /** Leaves out lines of text that were not drawn. */
  skip(lines: number): void {
    if (lines === 0) return
    this.#text('', false)
    const last = this.#entries.at(-1)
    if (last?.kind === 'text') last.view.skip(lines)
    this.changed?.()
  }

  #text(text: string, err: boolean, json?: OutputJSON): void {
    this.#before()
    let last = this.#entries.at(-1)
    if (last?.kind !== 'text') {
      const view = new TextView()
      view.download = this.download
      const el = document.createElement('div')
      el.className = 'out-text'
      el.tabIndex = 0
      el.setAttribute('role', 'log')
      el.setAttribute('aria-live', 'off') // each cell's end is told; a flood is not
      el.setAttribute('aria-label', t('Text output'))
      el.append(view.el)
      last = { kind: 'text', el, view, rewind: follow(el, !json), ...(json ? { json: [] } : {}) }
      this.#push(last)
    }
    if (json && last.json) last.json.push(json)
    else delete last.json
    last.view.write(text, err)
  }

  display(json: Extract<OutputJSON, { data: Bundle }>, id?: string): void {
    this.#before()
    const el = document.createElement('div')
    el.className = 'out-rich'
    this.#push({ kind: 'rich', el, view: new Rich(el, json.data, json.metadata, async () => (await this.#provided)()), json, display: id })
    this.changed?.()
  }

  /** Replaces the content that was displayed under an id. Returns false if there was none. */
  update(id: string, data: Bundle, metadata: Record<string, unknown>): boolean {
    let found = false
    for (const e of this.#entries) {
      if (e.kind !== 'rich' || e.display !== id) continue
      found = true
      e.json = { ...e.json, data, metadata }
      e.view.show(data, metadata)
    }
    if (found) this.changed?.()
    return found
  }

  error(json: Omit<Extract<OutputJSON, { ename: string }>, 'output_type'>): void {
    this.#before()
    const view = new ErrorView(json, (line, cell) => this.jump?.(line, cell))
    this.#push({ kind: 'error', el: view.el, view, json: { output_type: 'error', ename: json.ename, evalue: json.evalue, traceback: json.traceback } })
    this.changed?.()
  }

  /** Shows a message that no program printed. It is not saved. */
  note(text: string, bad = false): void {
    const el = document.createElement('p')
    el.className = bad ? 'out-note bad' : 'out-note'
    el.textContent = text
    this.el.append(el)
  }

  /** Makes links of the addresses and places in text, once the program has printed all of it. */
  finish(): void {
    const texts = this.#entries.filter((e) => e.kind === 'text')
    if (texts.length === 0) return
    void Promise.all([import('./textlinks'), drawn()]).then(([{ linkText }]) => {
      for (const e of texts) if (e.el.isConnected || this.#entries.includes(e)) linkText(e.el, (path, line) => this.openFile?.(path, line))
    }, () => {})
  }

  /** Shows the beginning of text that was printed before this page was opened. */
  rewind(): void {
    for (const e of this.#entries) if (e.kind === 'text') e.rewind()
  }

  clear(wait = false): void {
    if (wait) {
      this.#clearNext = true
      return
    }
    this.#clearNext = false
    for (const e of this.#entries) if (e.kind === 'rich') e.view.dispose()
    this.#entries = []
    this.#question = this.#more = undefined
    this.el.replaceChildren()
    this.changed?.()
  }

  /** Shows an input for the line that the program waits for. */
  ask(q: Question): void {
    this.settle()
    const form = document.createElement('form')
    form.className = 'out-input'
    const label = document.createElement('label')
    label.textContent = q.prompt || t('Input')
    const field = document.createElement('input')
    field.className = 'field'
    field.type = q.password ? 'password' : 'text'
    field.autocomplete = 'off'
    field.spellcheck = false
    label.append(field)
    const send = document.createElement('button')
    send.className = 'button primary'
    send.textContent = t('Enter|an answer')
    const end = document.createElement('button')
    end.className = 'button quiet'
    end.type = 'button'
    end.title = t('End of file: Ctrl-D')
    end.textContent = t('End|of the input')
    form.append(label, send, end)
    form.addEventListener('submit', (e) => {
      e.preventDefault()
      this.settle()
      q.answer(field.value)
    })
    const stop = () => {
      this.settle()
      q.end()
    }
    end.addEventListener('click', stop)
    form.addEventListener('keydown', (e) => {
      e.stopPropagation()
      if (e.key === 'd' && e.ctrlKey && field.value === '') {
        e.preventDefault()
        stop()
      }
      if (e.key === 'Escape') field.blur()
    })
    this.#question = form
    this.el.append(form)
    // A user who is typing elsewhere keeps the focus there.
    const at = document.activeElement
    if (!at || at === document.body || this.el.closest('.cell')?.contains(at)) field.focus()
  }

  /** The question was answered, here or by another user. */
  settle(): void {
    this.#question?.remove()
    this.#question = undefined
  }

  #before(): void {
    if (this.#clearNext) this.clear()
  }

  #push(e: Entry): void {
    this.#entries.push(e)
    const rich = this.#entries.filter((x) => x.kind === 'rich').length
    if (e.kind === 'rich' && rich > maxRich) {
      if (!this.#more) {
        const el = document.createElement('button')
        el.className = 'button out-more'
        el.addEventListener('click', () => {
          el.remove()
          for (const x of this.#entries) x.el.hidden = false
          this.#more = undefined
        })
        this.#more = { count: 0, el }
      }
      e.el.hidden = true
      this.#more.count++
      this.#more.el.textContent = plural(this.#more.count, 'Show 1 more output', 'Show {n} more outputs')
    }
    if (this.#question) this.#question.before(e.el)
    else this.el.append(e.el)
    if (this.#more) this.el.append(this.#more.el)
  }

  toJSON(): OutputJSON[] {
    return this.#entries.flatMap((e): OutputJSON[] => {
      if (e.kind === 'text') return e.json ?? e.view.parts().map((p) => ({ output_type: 'stream', ...p }))
      return [e.json]
    })
  }

  /** The text for the clipboard. */
  get textContent(): string {
    return this.#entries.map((e) => e.kind === 'rich' ? String(e.json.data['text/plain'] ?? '') : e.el.textContent ?? '').filter(Boolean).join('\n')
  }
}

/**
 * Keeps a scrolling box at its end if stick is true, unless the user has scrolled back. The result
 * goes to its beginning.
 */
function follow(box: HTMLElement, stick: boolean): () => void {
  box.addEventListener('scroll', () => {
    stick = box.scrollHeight - box.scrollTop - box.clientHeight < 24
  }, { passive: true })
  new ResizeObserver(() => {
    if (stick) box.scrollTop = box.scrollHeight
  }).observe(box.firstElementChild!)
  return () => {
    stick = false
    box.scrollTop = 0
  }
}
