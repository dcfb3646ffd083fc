import { button, type Button } from './button.js'
import type { Ticket } from './stream.js'
import css from './style.css'

/** Settings for all run buttons of a page. */
export interface Settings {
  /** The server's address; default the address of the script. */
  gateway?: string
  ticket?: Ticket
  /** Returns the address for "Open in notebook"; null removes the link. */
  notebook?: ((code: string, language: string) => string) | null
  /** Seconds; default the limit of the server or the ticket. */
  timeout?: number
}

export const settings: Settings = {}

const sheet = new CSSStyleSheet()
sheet.replaceSync(css)

/**
 * A run button with the output below it. It runs the code inside it, or in the element whose id is
 * in code, or in source.
 *
 * Events, which bubble: code-run:run (can be prevented), code-run:output, code-run:done and
 * code-run:error.
 */
export class CodeRun extends HTMLElement {
  static observedAttributes = ['lang']
  /** The element with the code, if it is not inside. */
  source: Element | null = null
  settings: Settings = {}
  #button: Button | undefined

  get language(): string {
    return this.getAttribute('language') ?? 'python'
  }

  get code(): string {
    const from = this.source ?? document.getElementById(this.getAttribute('code')!) ?? this
    return ((from as HTMLTextAreaElement).value ?? from.textContent).replace(/\n$/, '')
  }

  get options(): Settings {
    const own: Settings = {}
    const [gateway, timeout] = ['gateway', 'timeout'].map((name) => this.getAttribute(name))
    if (gateway) own.gateway = gateway
    if (timeout) own.timeout = +timeout
    return { ...settings, ...this.settings, ...own }
  }

  connectedCallback(): void {
    if (this.#button) return
    const root = this.attachShadow({ mode: 'open' })
    root.adoptedStyleSheets = [sheet]
    this.#button = button(this, root)
  }

  attributeChangedCallback(): void {
    this.#button?.label()
  }

  disconnectedCallback(): void {
    // A page that renders itself again puts it back at once.
    setTimeout(() => this.isConnected || this.stop(), 3000)
  }

  /** Stops the run. Remaining output still follows. */
  stop(): void {
    this.#button?.stop()
  }

  /** Runs the code, and resolves when it has ended. */
  async run(): Promise<void> {
    await this.#button?.run()
  }
}
