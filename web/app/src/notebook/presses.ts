import { useLayoutEffect, useMemo } from 'preact/hooks'
import { editorKeys } from '../settings'
import { allowed, commands } from './commands'
import type { Desk, View } from './desk'
import { chord, commandKeys, editKeys, isEditors, isGridKey, Keys } from './keys'

/** Lets keys run the commands of the notebook that the user works in. */
export function useNotebookKeys(desk: Desk): void {
  const keys = useMemo(() => new Keys(), [desk])
  useLayoutEffect(() => {
    const press = (e: KeyboardEvent) => pressed(e, desk.current.peek(), keys)
    const focus = (e: FocusEvent) => {
      if ((e.target as Element).closest('.bar, main')) desk.current.value = desk.main
    }
    // Handle keys before the editor does.
    addEventListener('keydown', press, true)
    addEventListener('focusin', focus)
    return () => {
      removeEventListener('keydown', press, true)
      removeEventListener('focusin', focus)
    }
  }, [desk])
}

function pressed(e: KeyboardEvent, { notebook: n, editors, shell }: View, keys: Keys): void {
  const target = e.target as Element
  if (target.closest('.file-view') || (target.closest('.dock') && !target.closest('.dock-notebook'))) return
  if (target.closest('.data-grid') && isGridKey(chord(e))) return
  if (target.closest('dialog, .menu, .side, .out-input, .comments')) {
    if (!(e.ctrlKey || e.metaKey)) return
  }
  const inEditor = !!target.closest('.cm-editor')
  if (!inEditor && target.closest('input, textarea, select')) return
  const press = chord(e)
  if (inEditor && isEditors(editorKeys.peek(), press, e)) return
  // Buttons and scrolling elements handle their own keys.
  if (!inEditor && /^(Enter|Space|Shift\+Space)$/.test(press) && target.closest('button, a, summary')) return
  // Escape also works while the editor is still being loaded.
  if (press === 'Escape' && !inEditor && n.mode.peek() === 'edit') {
    e.preventDefault()
    n.mode.value = 'command'
    return n.focus()
  }
  // Text that is typed while the editor is being loaded is no command.
  const writing = inEditor || (n.mode.peek() === 'edit' && target.matches('.cell.active'))
  // So that the first words of a new notebook are not lost.
  if (writing && !inEditor && n.typeAhead(e)) return e.preventDefault()
  const found = keys.match(writing ? editKeys : commandKeys, press, e.timeStamp)
  if (!found) return
  // Selected text is copied as text.
  if (found === 'copy' && String(getSelection())) return
  if (found === 'pending' || !allowed(found, n)) return
  e.preventDefault()
  e.stopPropagation()
  if (found === 'split') {
    const editor = editors.get(n.active.peek())?.editor
    if (editor) n.split(editor.cursor)
    return n.focus()
  }
  // A notebook beside the page's own scrolls in a box.
  const scrolls = { 'scroll-down': 0.8, 'scroll-up': -0.8 }[found]
  const box = target.closest('.dock .cells')
  if (scrolls && box) return box.scrollBy({ top: box.clientHeight * scrolls })
  commands()[found]!.run(n, shell)
}
