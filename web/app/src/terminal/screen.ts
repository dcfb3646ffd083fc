import type { Exit, ProgramEvent, Sandbox, Terminal as Channel } from '@sandgate/client/base'
import { FitAddon } from '@xterm/addon-fit'
import { Terminal, type ILink } from '@xterm/xterm'
import { WebLinksAddon } from '@xterm/addon-web-links'
import type { SearchAddon } from '@xterm/addon-search'
import '@xterm/xterm/css/xterm.css'
import { plural } from '../language/texts'
import { colours } from './colours'
import { commandOf, mac } from './keys'
import { CommandMarks } from './marks'
import { Pictures } from './pictures/pictures'
import { cleanPaste, cleanTitle, clipboardText, findPlaces, isAnswer } from './text'

/** Events of a screen for the page. */
export interface Host {
  title(text: string): void
  bell(): void
  /** The program has ended. */
  ended(exit: Exit): void
  failed(e: Error): void
  /** Asks before pasting lines that would run at once. */
  confirmPaste(text: string): Promise<boolean>
  copied(characters: number, by: 'user' | 'program'): void
  openFile(path: string, line: number): void
  openLink(url: string): void
  /** A program has printed an address on the session's own machine. */
  serves(url: string): void
  /** The user who controls the terminal has another size than this page. */
  size(cols: number, rows: number, own: boolean): void
}

/**
 * The number of bytes of older output that are read. If a picture or another long sequence would be
 * cut there, more is read.
 */
const history = { usual: 256 << 10, uncut: 3 << 20 }
/** The end of a restored state in the middle of a long sequence. */
const cut = /\x1b(?:\^|\]88888;)$/
/** The number of keys that wait for the first attach. Further ones are lost. */
const maxEarly = 1000
/**
 * How a page keeps up with a flood. A user who types looks for the answer, so older output that is
 * not drawn yet is skipped. A user who does not type looks for the lines that the scrollback would
 * still have.
 */
const keepUp = {
  reading: { behind: 4 << 20, before: 32 << 10, window: 256 << 10 },
  typing: { behind: 64 << 10, before: 16 << 10, window: 16 << 10, drop: true },
}
/** How long after a key the user looks for its answer, in ms. */
const answered = 1000
/**
 * A flood is that many bytes in less than that many ms, also on a slow machine. It then lasts for
 * that many ms.
 */
const flood = { bytes: 32 << 10, in: 5000, lasts: 5000 }
/** The number of bytes of a flood that are parsed before drawing. */
const drawn = { reading: 128 << 10, typing: 16 << 10 }
/**
 * The time between two drawings of a flood, in ms. Drawing takes more processor time than parsing.
 */
const frame = { reading: 40, typing: 16 }
/** The bytes of a piece of output in which addresses are looked for. */
const maxSearched = 8 << 10
/** The smallest text, in pixels, of a terminal that is made to fit into a smaller page. */
const smallest = 6
/** How long after a key or a click a program may write to the clipboard, in ms. */
const gesture = 10_000

/**
 * One terminal on the page. It acknowledges the bytes that it has parsed, so that an echo is quick
 * during a flood.
 */
export class Screen {
  readonly term: Terminal
  readonly marks: CommandMarks
  readonly #pictures: Pictures
  readonly #fit = new FitAddon()
  readonly #host: Host
  readonly #readOnly: boolean
  #channel: Channel | undefined
  #early: (string | Uint8Array)[] = [] // typed before the channel was attached
  #search: SearchAddon | undefined
  #left = 0 // bytes that were skipped before the next event
  #typing: ReturnType<typeof setTimeout> | undefined
  #parsed = { bytes: 0, since: 0, floodAt: -Infinity }
  #undrawn = 0
  #drawnAt = 0
  #end = 0 // the end of the log at the time of the attach; queries before it are old
  #behind = true
  #own = { cols: 0, rows: 0 } // what fits into the element
  #fontSize: number // what the user has chosen
  #touched = 0
  #ctrl = false
  #alt = false
  #gone = new AbortController()

  constructor(host: Host, o: { readOnly: boolean; fontSize: number; screenReader: boolean }) {
    this.#host = host
    this.#readOnly = o.readOnly
    this.#fontSize = o.fontSize
    this.term = new Terminal({
      fontSize: o.fontSize, fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'), lineHeight: 1.2, scrollback: 10_000,
      theme: colours(), cursorBlink: false, disableStdin: o.readOnly, screenReaderMode: o.screenReader, macOptionIsMeta: true,
      minimumContrastRatio: 4.5, allowProposedApi: true, customGlyphs: false,
      linkHandler: { activate: (_, uri) => this.#link(uri), allowNonHttpProtocols: false },
    })
    this.marks = new CommandMarks(this.term)
    this.#pictures = new Pictures(this.term)
    this.term.loadAddon(this.#fit)
    this.term.loadAddon(new WebLinksAddon((_, uri) => this.#link(uri)))
    this.term.onTitleChange((t) => host.title(cleanTitle(t)))
    this.term.onBell(() => host.bell())
    this.term.onData((data) => this.#typed(data))
    this.term.onBinary((data) => this.#send(Uint8Array.from(data, (c) => c.charCodeAt(0))))
    this.term.attachCustomKeyEventHandler((e) => this.#key(e))
    this.term.parser.registerOscHandler(52, (data) => this.#clipboard(data))
    this.term.registerLinkProvider({ provideLinks: (y, tell) => tell(this.#places(y)) })
  }

  /** Shows the terminal in the element, which must have a size. */
  open(element: HTMLElement): void {
    this.term.open(element)
    this.fit()
    element.addEventListener('paste', (e) => {
      e.preventDefault()
      e.stopPropagation()
      void this.paste(e.clipboardData?.getData('text/plain') ?? '')
    }, { capture: true, signal: this.#gone.signal })
    for (const type of ['pointerdown', 'keydown']) {
      element.addEventListener(type, () => (this.#touched = Date.now()), { capture: true, signal: this.#gone.signal })
    }
    void this.#accelerate()
  }

  /** Follows a channel until it ends or this is closed. */
  async follow(session: Sandbox, id: string): Promise<void> {
    try {
      const own = this.#own
      const t = (this.#channel = await this.#begin(session, id))
      if (own !== this.#own) this.take()
      t.follow(keepUp.reading)
      for (const data of this.#early.splice(0)) this.#send(data)
      for await (const e of t) {
        await this.#show(e)
        this.#behind = t.position.offset < this.#end
        if (e.type === 'stdout') await this.#pace(e.bytes.length)
      }
    } catch (e) {
      if (!this.#gone.signal.aborted) this.#host.failed(e as Error)
    }
  }

  /** Attaches, and shows the state at the beginning of the older output. */
  async #begin(session: Sandbox, id: string): Promise<Channel> {
    const t = await this.#attach(session, id, -history.usual)
    if (this.#end <= history.usual) return t // it begins at the beginning
    for await (const e of t) {
      if (e.type === 'restore' && cut.test(new TextDecoder().decode(e.bytes))) {
        t.close()
        return this.#attach(session, id, -history.uncut)
      }
      await this.#show(e)
      break
    }
    return t
  }

  async #attach(session: Sandbox, id: string, offset: number): Promise<Channel> {
    const t = await session.attachTerminal(id, {
      offset, readOnly: this.#readOnly, signal: this.#gone.signal,
      size: this.#readOnly ? undefined : { cols: this.term.cols, rows: this.term.rows },
    })
    this.#end = t.info?.end ?? 0
    if (t.info?.title) this.#host.title(cleanTitle(t.info.title))
    if (t.info?.cols && t.info.rows && this.#readOnly) this.#size(t.info.cols, t.info.rows)
    return t
  }

  async #show(e: ProgramEvent): Promise<void> {
    if (e.type === 'stdout') {
      this.#addresses(e.bytes)
      await this.#pictures.write(e.bytes)
    } else if (e.type === 'restore' && this.#left > 0) await this.#goOn(e)
    else if (e.type === 'restore') {
      this.#pictures.reset()
      this.#size(e.cols, e.rows)
      await this.#pictures.write(e.bytes)
    } else if (e.type === 'event' && e.event === 'resize') this.#size(Number(e.cols), Number(e.rows))
    else if (e.type === 'event' && e.event === 'epoch') this.#pictures.reset()
    else if (e.type === 'gap') this.#left += e.bytes // a restore follows
    else if (e.type === 'exit') {
      this.term.options.disableStdin = true
      this.term.write('\x1b[?25l')
      this.#host.ended(e)
    }
  }

  /** Reports addresses on the session's own machine in new output, such as that of a web server. */
  #addresses(bytes: Uint8Array): void {
    if (this.#behind || this.#flooded || bytes.length > maxSearched) return
    const text = new TextDecoder().decode(bytes).replace(/\x1b\[[\d;]*m/g, '')
    for (const [address] of text.matchAll(/https?:\/\/(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):\d{1,5}[^\s"'<>)\]]*/g)) this.#host.serves(address)
  }

  /** Continues at the program's current output. The shown output stays above. */
  async #goOn(e: Extract<ProgramEvent, { type: 'restore' }>): Promise<void> {
    const left = this.#left
    this.#left = 0
    this.#size(e.cols, e.rows)
    const alternate = this.term.buffer.active.type === 'alternate'
    await this.#pictures.write(`\x18${alternate ? '\x1b[?1049l' : ''}\x1b7\x1b[r\x1b8\x1b[0m${
      alternate ? '' : `\r\n\x1b[2m${plural(left, '… {n} byte left out to keep up with the program …', '… {n} bytes left out to keep up with the program …')}\x1b[0m\r\n`}`)
    await this.#pictures.write(e.bytes)
  }

  /**
   * Counts the parsed bytes to detect a flood, and draws each part of a flood before the next.
   * Otherwise the page would ignore keys meanwhile.
   */
  async #pace(bytes: number): Promise<void> {
    const now = performance.now()
    this.#parsed.bytes += bytes
    if (now - this.#parsed.since > flood.in) this.#parsed = { ...this.#parsed, bytes, since: now }
    if (this.#parsed.bytes > flood.bytes) this.#parsed = { bytes: 0, since: now, floodAt: now }
    this.#undrawn += bytes
    if (!this.#flooded || this.#undrawn < (this.#typing ? drawn.typing : drawn.reading)) return
    this.#undrawn = 0
    await new Promise((resolve) => setTimeout(resolve, this.#drawnAt + (this.#typing ? frame.typing : frame.reading) - now))
    this.#drawnAt = performance.now()
  }

  get #flooded(): boolean {
    return performance.now() - this.#parsed.floodAt < flood.lasts
  }

  /** Stays close to the end of a flood while the user looks for the answer to a key. */
  #answering(): void {
    if (!this.#typing && !this.#flooded) return
    if (!this.#typing) this.#channel?.follow(keepUp.typing)
    clearTimeout(this.#typing)
    this.#typing = setTimeout(() => {
      this.#typing = undefined
      this.#channel?.follow(keepUp.reading)
    }, answered)
  }

  #size(cols: number, rows: number): void {
    if (cols !== this.term.cols || rows !== this.term.rows) this.term.resize(cols, rows)
    this.#shrink()
    this.#host.size(cols, rows, this.#readOnly || (cols === this.#own.cols && rows === this.#own.rows))
  }

  /** Makes the text smaller if the terminal is larger than its element. */
  #shrink(): void {
    const { cols, rows } = this.#own
    const scale = cols && rows ? Math.min(1, cols / this.term.cols, rows / this.term.rows) : 1
    this.term.options.fontSize = Math.max(Math.min(smallest, this.#fontSize), Math.floor(2 * this.#fontSize * scale) / 2)
  }

  /** Takes the size of its element, and reports it to the server. */
  fit(): void {
    this.term.options.fontSize = this.#fontSize
    const d = this.#fit.proposeDimensions()
    const before = this.#own
    if (d?.cols && d.rows) this.#own = { cols: d.cols, rows: d.rows }
    const { cols, rows } = this.#own
    if (this.#readOnly || (cols === before.cols && rows === before.rows)) return this.#shrink()
    this.term.resize(cols, rows)
    this.#host.size(cols, rows, true)
    this.#channel?.resize(cols, rows).catch(() => {})
  }

  /** Applies this page's size to the terminal, as typing does. */
  take(): void {
    if (this.#readOnly) return
    const { cols, rows } = this.#own
    this.#channel?.resize(cols, rows).catch(() => {})
  }

  #typed(data: string): void {
    if (this.#behind && isAnswer(data)) return
    if (this.#ctrl || this.#alt) {
      if (this.#ctrl && data.length === 1) data = String.fromCharCode(data.toUpperCase().charCodeAt(0) & 0x1f)
      if (this.#alt) data = '\x1b' + data
      this.modify(false, false)
    }
    this.#send(data)
  }

  /** Types keys, as a key bar does. */
  type(data: string): void {
    this.#touched = Date.now()
    this.#typed(data)
    this.term.focus()
  }

  /** Applies Ctrl or Alt to the next key. */
  modify(ctrl: boolean, alt: boolean): void {
    this.#ctrl = ctrl
    this.#alt = alt
    this.onModify?.(ctrl, alt)
  }

  onModify: ((ctrl: boolean, alt: boolean) => void) | undefined

  get modified(): { ctrl: boolean; alt: boolean } {
    return { ctrl: this.#ctrl, alt: this.#alt }
  }

  get applicationCursor(): boolean {
    return this.term.modes.applicationCursorKeysMode
  }

  #send(data: string | Uint8Array): void {
    if (this.#readOnly) return
    if (!this.#channel) {
      if (this.#early.length < maxEarly) this.#early.push(data)
      return
    }
    // While the connection is lost, this waits. It is sent after the reconnection.
    this.#channel.write(data).catch((e: Error & { kind?: string }) => {
      if (e.kind === 'exhausted') this.#host.failed(e)
    })
    this.#answering()
  }

  /** Pastes text after removing dangerous sequences. */
  async paste(text: string): Promise<void> {
    if (this.#readOnly || !text || !this.#channel) return
    const clean = cleanPaste(text)
    const runs = clean.trimEnd().includes('\n') && !this.term.modes.bracketedPasteMode
    if (runs && !(await this.#host.confirmPaste(clean))) return this.term.focus()
    await this.#channel.paste(clean).catch((e: Error) => this.#host.failed(e))
    this.term.scrollToBottom()
    this.term.focus()
  }

  async copy(): Promise<boolean> {
    const text = this.term.getSelection()
    if (!text) return false
    await navigator.clipboard.writeText(text)
    this.#host.copied(text.length, 'user')
    return true
  }

  /** Handles keys of the page instead of the program. */
  #key(e: KeyboardEvent): boolean {
    if (e.type !== 'keydown') return true
    const key = e.key.toLowerCase()
    // Ctrl-C copies selected text, and otherwise means SIGINT.
    if (key === 'c' && ((e.ctrlKey && !e.altKey && !e.metaKey) || (mac && e.metaKey)) && this.term.hasSelection()) {
      void this.copy().then(() => this.term.clearSelection())
      e.preventDefault()
      return false
    }
    if (e.ctrlKey && e.shiftKey && key === 'c') {
      e.preventDefault()
      return false
    }
    // The browser's own paste event follows.
    if (key === 'v' && ((e.ctrlKey && e.shiftKey) || (mac && e.metaKey))) return false
    if (e.shiftKey && e.key === 'Insert') return false
    if (e.key === 'Enter' && e.shiftKey && !e.ctrlKey && !e.altKey && !e.metaKey) {
      this.#send('\x1b\r')
      e.preventDefault()
      return false
    }
    return !commandOf(e)
  }

  /**
   * OSC 52 may write to the clipboard shortly after an action of the user. It can never read it.
   */
  #clipboard(data: string): boolean {
    const text = clipboardText(data)
    if (text === undefined || this.#readOnly || this.#behind || !document.hasFocus() || Date.now() - this.#touched > gesture) return true
    navigator.clipboard.writeText(text).then(() => this.#host.copied(text.length, 'program'), () => {})
    return true
  }

  #link(uri: string): void {
    if (/^https?:\/\//i.test(uri)) this.#host.openLink(uri)
  }

  #places(y: number): ILink[] | undefined {
    const text = this.term.buffer.active.getLine(y - 1)?.translateToString(true) ?? ''
    const found = findPlaces(text)
    if (found.length === 0) return undefined
    return found.map((p) => ({
      text: text.slice(p.index, p.index + p.length),
      range: { start: { x: p.index + 1, y }, end: { x: p.index + p.length, y } },
      activate: () => this.#host.openFile(p.path, p.line),
    }))
  }

  /** Searches text in the whole scrollback. Returns whether it was found. */
  async find(text: string, back: boolean): Promise<boolean> {
    if (!this.#search) {
      const { SearchAddon } = await import('@xterm/addon-search')
      this.#search = new SearchAddon()
      this.term.loadAddon(this.#search)
    }
    return back ? this.#search.findPrevious(text) : this.#search.findNext(text)
  }

  /**
   * Draws with the graphics processor, if there is one. Software rendering is slower than the page
   * itself.
   */
  async #accelerate(): Promise<void> {
    const gl = document.createElement('canvas').getContext('webgl2')
    const info = gl?.getExtension('WEBGL_debug_renderer_info')
    const renderer = gl && info ? String(gl.getParameter(info.UNMASKED_RENDERER_WEBGL)) : ''
    gl?.getExtension('WEBGL_lose_context')?.loseContext()
    if (!renderer || /swiftshader|llvmpipe|software|basic render/i.test(renderer)) return
    const { WebglAddon } = await import('@xterm/addon-webgl')
    if (this.#gone.signal.aborted) return
    try {
      const addon = new WebglAddon()
      addon.onContextLoss(() => addon.dispose())
      this.term.loadAddon(addon)
      this.fit()
    } catch {
      // Then the page draws it.
    }
  }

  set fontSize(px: number) {
    this.#fontSize = px
    this.#own = { cols: 0, rows: 0 }
    this.fit()
  }

  /** Resets a screen that a program has left in disorder. */
  reset(): void {
    this.#pictures.reset()
    this.take()
  }

  theme(): void {
    this.term.options.theme = colours()
  }

  close(): void {
    this.#gone.abort()
    clearTimeout(this.#typing)
    this.#channel?.close()
    this.#pictures.dispose()
    this.term.dispose()
  }
}
