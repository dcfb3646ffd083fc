// Completions that are suggested while code is typed.
import { acceptCompletion, completionStatus, moveCompletionSelection, selectedCompletionIndex, setSelectedCompletion, type CompletionContext } from '@codemirror/autocomplete'
import { syntaxTree } from '@codemirror/language'
import type { EditorState } from '@codemirror/state'
import { EditorView } from '@codemirror/view'

/** The number of characters of a name after which completions are suggested. */
const minName = 2

/** Whether the cursor is behind the beginning of a name, or behind a dot after one. */
export function wantsSuggestion(before: string): boolean {
  const name = /[\p{L}_$][\p{L}\p{N}_$]*$/u.exec(before)?.[0] ?? ''
  if (/(?:[\p{L}\p{N}_$)\]'"]\.|->|::)$/u.test(before.slice(0, before.length - name.length))) return !/(?:^|[^\p{L}_$.])\d+\.$/u.test(before)
  return name.length >= minName && !/[\p{N}]$/u.test(before.slice(0, before.length - name.length))
}

/** Whether the context is one where typing suggests completions: code, and no text or comment. */
export function suggestsIn(c: CompletionContext): boolean {
  const line = c.state.doc.lineAt(c.pos)
  if (!wantsSuggestion(line.text.slice(0, c.pos - line.from))) return false
  return !inText(c.state, c.pos)
}

function inText(state: EditorState, pos: number): boolean {
  for (let node: ReturnType<ReturnType<typeof syntaxTree>['resolveInner']> | null = syntaxTree(state).resolveInner(pos, -1); node; node = node.parent) {
    if (/String|Comment|Template/i.test(node.name) && !/Interpolation|Replacement/i.test(node.name)) return true
    if (/Interpolation|Replacement/i.test(node.name)) return false
  }
  return false
}

/** Accepts the selected suggestion, or the first one. */
export function acceptFirst(v: EditorView): boolean {
  if (selectedCompletionIndex(v.state) === null) moveCompletionSelection(true)(v)
  return acceptCompletion(v)
}

/**
 * Selects the first completion when the user has asked for completions. Suggestions have none
 * selected, so that Enter begins a new line.
 */
export function selectWhenAsked(asked: () => boolean) {
  return EditorView.updateListener.of((u) => {
    if (!asked() || completionStatus(u.state) !== 'active' || selectedCompletionIndex(u.state) !== null) return
    queueMicrotask(() => {
      if (completionStatus(u.view.state) === 'active' && selectedCompletionIndex(u.view.state) === null) u.view.dispatch({ effects: setSelectedCompletion(0) })
    })
  })
}
