import { EditorView, keymap } from '@codemirror/view'
import { yCollab, yUndoManagerKeymap } from 'y-codemirror.next'
import * as Y from 'yjs'
import type { Editor } from '../editor'
import type { Members } from './members'

const look = EditorView.theme({
  '.cm-ySelectionInfo': { opacity: '1', padding: '1px 5px', borderRadius: '3px 3px 3px 0', fontFamily: 'var(--font)', fontSize: 'var(--text-xs)', top: '-1.5em', pointerEvents: 'none' },
  // Above the first line the box of the cell would cut it.
  '.cm-line:first-child .cm-ySelectionInfo': { top: '1.5em', borderRadius: '0 3px 3px 3px' },
  '.cm-ySelectionCaretDot': { display: 'none' },
})

/**
 * Lets an editor show a text that others edit too, with their cursors and names. Undo takes back
 * only this user's edits.
 */
export function shareEditor(editor: Editor, text: Y.Text, members: Members): void {
  const undoManager = new Y.UndoManager(text)
  editor.share(text.toString(), [yCollab(text, members, { undoManager }), keymap.of(yUndoManagerKeymap), look], () => undoManager.destroy(), () => undoManager.stopCapturing())
}
