// Problems in the code of an editor, underlined.
import { StateEffect, StateField } from '@codemirror/state'
import { Decoration, EditorView, hoverTooltip, type DecorationSet } from '@codemirror/view'
import { indexOf, type Problem } from './ask'

const setProblems = StateEffect.define<readonly Problem[]>()

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(d, tr) {
    for (const e of tr.effects) {
      if (!e.is(setProblems)) continue
      const text = tr.state.doc.toString()
      return Decoration.set(e.value.flatMap((p) => {
        if (p.line > tr.state.doc.lines) return []
        const from = Math.min(indexOf(text, p.line, p.column), text.length)
        const to = Math.min(indexOf(text, p.line, p.end), tr.state.doc.lineAt(from).to)
        // A mark needs a letter: at the end of a line, the last one.
        const at = to > from ? from : Math.max(tr.state.doc.lineAt(from).from, from - 1)
        return Math.max(to, from) > at ? [Decoration.mark({ class: `cm-problem ${p.severity}`, message: p.message }).range(at, Math.max(to, from))] : []
      }), true)
    }
    return d.map(tr.changes)
  },
  provide: (f) => EditorView.decorations.from(f),
})

const look = EditorView.theme({
  '.cm-problem': { textDecoration: 'underline wavy 1px', textUnderlineOffset: '3px', textDecorationSkipInk: 'none' },
  '.cm-problem.error': { textDecorationColor: 'var(--danger)' },
  '.cm-problem.warning': { textDecorationColor: 'var(--warn)' },
  '.cm-problem-text': { padding: '6px 10px', fontSize: 'var(--text-s)' },
})

const hover = hoverTooltip((view, pos) => {
  const found: string[] = []
  view.state.field(marks).between(pos, pos, (_from, _to, d) => void found.push(String((d.spec as { message: string }).message)))
  if (found.length === 0) return null
  return {
    pos, above: true,
    create() {
      const dom = document.createElement('div')
      dom.className = 'cm-problem-text'
      dom.textContent = found.join('\n')
      return { dom }
    },
  }
}, { hoverTime: 200 })

export const problemMarks = [marks, look, hover]

export function showProblems(view: EditorView, problems: readonly Problem[]): void {
  view.dispatch({ effects: setProblems.of(problems) })
}
