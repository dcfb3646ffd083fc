import { el, show } from './show.js'
import { Run, type Event, type RunError } from './stream.js'
import { Text, type Span } from './text.js'
import { languageOf, translated } from './texts.js'
import type { CodeRun } from './element.js'

/** The number of lines that stay on the page. Earlier lines are counted. */
const maxLines = 2000
/** The maximum number of images and frames. */
const maxShown = 30

/** A run button with its output. */
export interface Button {
  run(): Promise<void>
  stop(): void
  /** Writes the texts that stay, in the language of the element. */
  label(): void
}

/** Fills the element's shadow root. Functions over a scope compress better than a class. */
export function button(host: CodeRun, root: ShadowRoot): Button {
  let going: Run | undefined
  let text: Text | undefined // the text that the next output continues
  let last: HTMLElement | undefined // its last line, which may still change
  let lines = 0 // the number of its lines
  let dropped = 0
  let shown = 0
  let clear = false
  let stopped = false
  let ran = false
  const displays = new Map<unknown, HTMLElement>()

  const t = (s: string, value?: string | number) => translated(host, s, value)
  const number = (n: number, digits = 0) => n.toLocaleString(languageOf(host), { minimumFractionDigits: digits, maximumFractionDigits: digits })
  const main = el('button', { className: 'run', type: 'button', part: 'button', onclick: () => (going ? stop() : void run()) })
  const state = el('span', { role: 'status', part: 'status' })
  const copy = el('button', { type: 'button', hidden: true, onclick: copied })
  const more = el('div', { className: 'more' }, copy)
  const bar = el('div', { className: 'bar', part: 'bar', role: 'group' }, main, state, more)
  const out = el('div', { className: 'out', part: 'output', role: 'log', tabIndex: 0, hidden: true })
  const link = el('a', { target: '_blank', rel: 'noopener noreferrer', part: 'notebook' })
  const notebook = host.options.notebook
  if (notebook) {
    // The code may have changed since, so the address is computed when it is used.
    const aim = () => (link.href = notebook(host.code, host.language))
    link.onpointerdown = link.onfocus = aim
    aim()
    more.append(link)
  }
  label()
  root.append(el('slot'), bar, out)
  return { run, stop, label }

  function label(): void {
    bar.lang = languageOf(host)
    bar.ariaLabel = t('{} code', host.language)
    out.ariaLabel = t('Output')
    main.textContent = t(going ? 'Stop' : ran ? 'Run again' : 'Run')
    copy.textContent = t('Copy output')
    link.textContent = t('Open in notebook')
  }

  function stop(): void {
    stopped = true
    going?.stop()
  }

  async function run(): Promise<void> {
    const { code, language, options } = host
    if (going || !tell('run', { code, language }, true)) return
    going = new Run((options.gateway ?? '').replace(/\/$/, ''), options.ticket ?? (() => ''))
    reset()
    bar.classList.add('on')
    ran = true
    label()
    const began = performance.now()
    const seconds = () => `${number((performance.now() - began) / 1000, 1)} s`
    say(t('Starting…'))
    const tick = setInterval(() => say(`${t(out.querySelector('form') ? 'Waiting for input' : 'Running')} · ${seconds()}`, false, true), 500)
    try {
      for await (const e of going.events({ code, language, timeout_ms: (options.timeout ?? 0) * 1000 })) {
        if (e.type === 'done') done(e)
        else {
          event(e)
          tell('output', e)
        }
      }
    } catch (e) {
      const { name, message, kind } = e as RunError
      if (name === 'AbortError') done({ type: 'done', status: 'aborted', elapsed_ms: performance.now() - began })
      else fail(kind, message)
    }
    clearInterval(tick)
    ask()
    going = undefined
    bar.classList.remove('on')
    label()
    copy.hidden = out.hidden
  }

  function tell(name: string, detail: object, cancelable = false): boolean {
    return host.dispatchEvent(new CustomEvent(`code-run:${name}`, { detail, cancelable, bubbles: true, composed: true }))
  }

  function say(what: string, bad = false, quiet = false): void {
    // A clock that is read aloud twice a second does not help.
    state.ariaLive = quiet ? 'off' : 'polite'
    state.textContent = what
    state.className = bad ? 'bad' : ''
  }

  function fail(kind = 'internal', message = 'Something broke.'): void {
    say(t(message), true)
    tell('error', { kind, message })
  }

  function reset(): void {
    out.replaceChildren()
    out.hidden = true
    text = undefined
    dropped = shown = 0
    clear = stopped = false
    displays.clear()
  }

  function event(e: Event): void {
    const { type } = e
    if (type === 'clear') {
      if (e.wait) clear = true
      else reset()
      return
    }
    if (clear) reset()
    const bottom = out.scrollTop + out.clientHeight > out.scrollHeight - 40
    if (type === 'stdout') write(e.text!)
    else if (type === 'stderr') write(e.text!, ' s')
    else if (type === 'display' || type === 'result') display(e)
    else if (type === 'error') stopped || error(e) // the user knows why it has ended
    else if (type === 'truncated') note(t('{} bytes over the limit were left out.', number(e.bytes!)))
    else if (type === 'files') files(e)
    else if (type === 'input_request') ask(e)
    if (bottom) out.scrollTop = out.scrollHeight
  }

  /** Adds an element after the text so far, above a question. */
  function add(e: HTMLElement): void {
    out.hidden = false
    out.insertBefore(e, out.querySelector('form'))
    text = undefined
  }

  function write(s: string, style = ''): void {
    if (!text) {
      const pre = el('pre', { part: 'text' })
      add(pre)
      last = el('span')
      lines = 0
      pre.append(last)
      text = new Text((line) => {
        last!.before(spans(line, '\n'))
        if (++lines > maxLines) {
          pre.firstChild!.remove()
          dropped++
        }
      })
    }
    text.write(s, style)
    last!.replaceChildren(spans(text.line))
  }

  function display(e: Event): void {
    const id = e.display_id
    const old = displays.get(id)
    if (e.update ? !old : ++shown > maxShown) {
      if (shown === maxShown + 1) note(t('Only {} are shown.', maxShown))
      return
    }
    const made = show(e.data!, host)
    if (e.update) old!.replaceWith(made)
    else add(made)
    if (id) displays.set(id, made)
  }

  function error(e: Event): void {
    const box = el('div', { className: 'err', part: 'error' }, el('b', {}, e.ename!), ': ' + e.evalue)
    if (e.traceback?.length) {
      const pre = el('pre')
      new Text((line) => pre.append(spans(line, '\n'))).write(e.traceback.join('\n') + '\n')
      box.append(el('details', {}, el('summary', {}, 'Traceback'), pre))
    }
    add(box)
  }

  function files({ files = [] }: Event): void {
    const links = files.flatMap(({ path, mime, url, content }) => {
      const href = url ?? (content && `data:${mime};base64,${content}`)
      return href ? [el('a', { href, download: path.replace(/.*\//, ''), target: '_blank', rel: 'noopener noreferrer' }, path), ' '] : []
    })
    if (links[0]) add(el('div', { className: 'note', part: 'files' }, t('Files:'), ' ', ...links))
  }

  function note(s: string): void {
    add(el('div', { className: 'note' }, s))
  }

  function done(e: Event): void {
    const { status = '', exit_code: code, fault } = e
    if (dropped) note(t('The first {} lines are not shown.', number(dropped)))
    const said = stopped ? 'Stopped' : { ok: 'Done', error: 'Failed', aborted: 'Stopped', timeout: 'Out of time' }[status]
    if (!said) return fail(fault?.kind, fault?.message)
    say(`${t(said)} · ${number(e.elapsed_ms! / 1000, 2)} s${code ? ` · ${t('exit status {}', code)}` : ''}`, !stopped && status !== 'ok')
    tell('done', e)
  }

  /** Shows a question, or none. */
  function ask(e?: Event): void {
    out.querySelector('form')?.remove()
    if (!e) return
    const prompt = e.prompt ?? ''
    const field = el('input', { type: e.password ? 'password' : 'text', autocomplete: 'off', 'aria-label': prompt || t('Input') })
    const answer = (ev: UIEvent | SubmitEvent, eof = false) => {
      ev.preventDefault()
      ask()
      write(prompt + (e.password ? '••••' : field.value) + '\n')
      going?.input(field.value, eof).catch((err: RunError) => fail(err.kind, err.message))
    }
    field.onkeydown = (ev) => {
      if (ev.ctrlKey && ev.key === 'd' && !field.value) answer(ev, true)
    }
    out.hidden = false
    out.append(el('form', { part: 'input', onsubmit: answer }, prompt, field, el('button', {}, t('Send'))))
    say(t('Waiting for input'))
    // Move the focus only if it is already in this element.
    if (host.matches(':focus-within')) field.focus()
  }

  function copied(): void {
    navigator.clipboard?.writeText(out.innerText).then(() => say(t('Copied')), () => say(t('Failed'), true))
  }
}

function spans(line: Span[], end = ''): HTMLElement {
  return el('span', {}, ...line.map(({ text, style }) => (style ? el('span', { className: style.trim() }, text) : text)), end)
}
