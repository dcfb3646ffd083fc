import { button, type Button } from './button.js'
import type { Ticket } from './stream.js'
import css from './style.css'

/** What a page says once for all its run buttons. */
export interface Settings {
  /** The server's address; that of the script, if left out. */
  gateway?: string
  ticket?: Ticket
  /** Makes the address behind "Open in notebook"; null leaves it out. */
  notebook?: ((code: string, language: string) => string) | null
  /** Seconds; the server's limit or the ticket's if left out. */
  timeout?: number
}

export const settings: Settings = {}

const sheet = new CSSStyleSheet()
sheet.replaceSync(css)

/**
 * A run button with the output below it. It runs the code that is inside it,
 * or of the element whose id code names, or of source.
 *
 * Events, which bubble: code-run:run (can be prevented), code-run:output,
 * code-run:done and code-run:error.
 */
export class CodeRun extends HTMLElement {
  /** Where the code stands, when it is not inside. */
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

  disconnectedCallback(): void {
    // A page that draws itself anew puts it back at once.
    setTimeout(() => this.isConnected || this.stop(), 3000)
  }

  /** Stops the run; what it still says follows. */
  stop(): void {
    this.#button?.stop()
  }

  /** Runs the code, and resolves when it has ended. */
  async run(): Promise<void> {
    await this.#button?.run()
  }
}
