import type { IDecoration, IMarker, Terminal } from '@xterm/xterm'
import { t } from '../language/texts'

/**
 * The environment with which bash marks its commands (OSC 133) and its folder (OSC 7). Other shells
 * ignore it.
 */
export const shellMarks: Record<string, string> = {
  PROMPT_COMMAND: `printf '\\e]133;D;%s\\e\\\\\\e]7;file://%s%s\\e\\\\\\e]133;A\\e\\\\' "$?" "$HOSTNAME" "$PWD"`,
  PS0: '\\e]133;C\\e\\\\',
}

/** The number of commands that are remembered. */
const maxMarks = 1000

interface Mark {
  prompt: IMarker
  /** The line where the output begins; undefined until a command runs. */
  output?: IMarker | undefined
  /** The line after the output. */
  end?: IMarker | undefined
  decoration?: IDecoration | undefined
}

/** The commands of a shell that marks them: where their prompts are, and how they ended. */
export class CommandMarks {
  readonly #term: Terminal
  #marks: Mark[] = []
  /** The folder of the shell; empty if it is not known. */
  folder = ''

  constructor(term: Terminal) {
    this.#term = term
    term.parser.registerOscHandler(133, (data) => this.#heard(data))
    term.parser.registerOscHandler(7, (data) => {
      const path = /^file:\/\/[^/]*(\/[^\x00-\x1f]{0,4000})$/.exec(data)?.[1]
      if (path) this.folder = path
      return true
    })
  }

  #heard(data: string): boolean {
    const [kind, status] = data.split(';')
    const last = this.#marks.at(-1)
    if (kind === 'A') this.#prompt()
    else if (kind === 'C' && last) last.output = this.#term.registerMarker(0)
    else if (kind === 'D' && last?.output && !last.end) this.#ended(last, Number(status ?? 0))
    return true
  }

  #prompt(): void {
    const last = this.#marks.at(-1)
    if (last && !last.output) { // the shell has drawn its prompt again
      last.prompt.dispose()
    }
    const prompt = this.#term.registerMarker(0)
    if (!prompt) return
    const mark: Mark = { prompt }
    this.#marks.push(mark)
    prompt.onDispose(() => (this.#marks = this.#marks.filter((m) => m !== mark)))
    if (this.#marks.length > maxMarks) this.#marks[0]!.prompt.dispose()
  }

  #ended(mark: Mark, status: number): void {
    mark.end = this.#term.registerMarker(0)
    mark.decoration = this.#term.registerDecoration({ marker: mark.prompt, width: 1 })
    mark.decoration?.onRender((el) => {
      el.classList.add('command-mark', status === 0 ? 'ok' : 'failed')
      el.title = status === 0 ? t('The command succeeded') : t('The command failed with status {status}', { status })
    })
  }

  /** Whether the shell waits for a command. */
  get atPrompt(): boolean {
    const last = this.#marks.at(-1)
    return last !== undefined && !last.output
  }

  /** Scrolls to the prompt before or after the first line in sight. Returns false without one. */
  jump(by: -1 | 1): boolean {
    const { viewportY } = this.#term.buffer.active
    const lines = this.#marks.map((m) => m.prompt.line)
    const to = by < 0 ? lines.findLast((l) => l < viewportY) : lines.find((l) => l > viewportY)
    if (to === undefined) return false
    this.#term.scrollToLine(to)
    return true
  }

  /** Returns the output of the last command that has ended; undefined if there is none. */
  get lastOutput(): string | undefined {
    const mark = this.#marks.findLast((m) => m.output && m.end && !m.output.isDisposed && !m.end.isDisposed)
    if (!mark) return undefined
    const { active } = this.#term.buffer
    let text = ''
    for (let y = mark.output!.line; y < mark.end!.line; y++) {
      const line = active.getLine(y)
      if (!line) break
      text += (line.isWrapped || text === '' ? '' : '\n') + line.translateToString(!active.getLine(y + 1)?.isWrapped)
    }
    return text
  }
}
