import katex from 'katex'
import 'katex/dist/katex.min.css'

/** Draws TeX. Invalid TeX is shown unchanged, with the error as its title. */
export function render(tex: string, el: HTMLElement, display: boolean): void {
  katex.render(tex, el, { displayMode: display, throwOnError: false, trust: false, maxExpand: 500, maxSize: 40, strict: 'ignore', output: 'htmlAndMathml' })
}

/** Shows an output of the type text/latex. */
export function latex(source: string): HTMLElement {
  const el = document.createElement('div')
  el.className = 'math'
  const body = source.trim()
  const m = /^\$\$([\s\S]*)\$\$$|^\\\[([\s\S]*)\\\]$|^\$([\s\S]*)\$$|^\\\(([\s\S]*)\\\)$/.exec(body)
  render(m ? (m[1] ?? m[2] ?? m[3] ?? m[4])! : body, el, !m || m[3] === undefined && m[4] === undefined || /\\displaystyle/.test(body))
  return el
}
