import { t } from '../language/texts'
import { coloured } from './sgr'

interface Failure {
  ename: string
  evalue: string
  traceback: string[]
}

/** A frame of a traceback in a cell. */
export interface Frame {
  line: number
  /** The number of the execution, if the language reports it. */
  cell?: number
}

/**
 * Finds frames of cells in the lines of tracebacks, per language: IPython's "Cell In[3], line 2"
 * and "File <ipython-input-3-…>:2", V8's "at cell:3:2:5" or "cell-3.js:2:5", Go's "cell3.go:2" or
 * "cell 3, line 2", JShell's "(#3:2)", PHP's "cell 3:2" or "cell 3 on line 2", Bash's "line 2:".
 */
export function frameOf(line: string): Frame | undefined {
  const text = line.replace(/\x1b\[[\d;]*m/g, '')
  const patterns: [RegExp, number, number][] = [
    [/Cell In ?\[(\d+)\], line (\d+)/, 1, 2],
    [/<ipython-input-(\d+)[^>]*>[^\d\n]{0,20}(\d+)/, 1, 2],
    [/\bcell[ _:-]?(\d+)(?:\.\w+)?(?:, line |:| on line |\()(\d+)/i, 1, 2],
    [/#(\d+):(\d+)\)/, 1, 2],
    [/^(?:\w+: )?line (\d+)\b/, 0, 1],
    [/\bcell(?:\.\w+)?:(\d+)(?::\d+)?/i, 0, 1],
  ]
  for (const [re, cell, at] of patterns) {
    const m = re.exec(text)
    if (m) return { line: Number(m[at]), ...(cell ? { cell: Number(m[cell]) } : {}) }
  }
  return undefined
}

/** An error: first its message and its line, with the traceback folded below. */
export class ErrorView {
  readonly el = document.createElement('div')

  constructor(e: Failure, jump: (line: number, cell: number | undefined) => void) {
    this.el.className = 'out-error'
    this.el.setAttribute('role', 'group')
    this.el.setAttribute('aria-label', t('Error'))
    const head = document.createElement('div')
    head.className = 'error-head'
    const name = document.createElement('strong')
    name.textContent = e.ename
    const value = document.createElement('span')
    value.textContent = e.evalue ? `${e.ename ? ': ' : ''}${e.evalue}` : ''
    const message = document.createElement('p')
    message.append(name, value)
    head.append(message)
    const lines = e.traceback.join('\n').split('\n')
    const frames = lines.map(frameOf)
    const last = frames.findLast((f) => f)
    const actions = document.createElement('div')
    actions.className = 'row'
    if (last) {
      const go = button(t('Go to line {line}', { line: last.line }))
      go.addEventListener('click', () => jump(last.line, last.cell))
      actions.append(go)
    }
    const copy = button(t('Copy'))
    copy.addEventListener('click', () => {
      void navigator.clipboard.writeText([`${e.ename}: ${e.evalue}`, ...e.traceback].join('\n').replace(/\x1b\[[\d;]*m/g, '')).then(() => {
        copy.textContent = t('Copied')
        setTimeout(() => (copy.textContent = t('Copy')), 1500)
      })
    })
    actions.append(copy)
    head.append(actions)
    this.el.append(head)
    if (!e.traceback.some((t) => t.trim())) return
    const details = document.createElement('details')
    const summary = document.createElement('summary')
    summary.textContent = t('Traceback')
    const pre = document.createElement('pre')
    lines.forEach((l, i) => {
      const f = frames[i]
      if (f) {
        const a = document.createElement('button')
        a.className = 'frame'
        a.title = t('Go to line {line}', { line: f.line })
        a.append(...coloured(l))
        a.addEventListener('click', () => jump(f.line, f.cell))
        pre.append(a, '\n')
      } else {
        pre.append(...coloured(l), '\n')
      }
    })
    pre.tabIndex = 0
    details.append(summary, pre)
    this.el.append(details)
  }
}

function button(text: string): HTMLButtonElement {
  const b = document.createElement('button')
  b.type = 'button'
  b.className = 'button'
  b.textContent = text
  return b
}
