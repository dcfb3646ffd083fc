import { closeCompletion } from '@codemirror/autocomplete'
import type { Extension } from '@codemirror/state'
import { EditorView, runScopeHandlers } from '@codemirror/view'
import type { EditorKeys } from '../settings'

/** The part of a cell that the keys of another editor need. */
export interface KeyHost {
  /** Leaves the cell if the cursor is in its first or last line. Returns whether it did. */
  leave(by: -1 | 1): boolean
  escape(): void
  /** Begins another step for undo. */
  separate(): void
}

/**
 * Returns the keys of another editor. They are loaded when somebody chooses them. No extension means
 * the standard keys.
 */
export async function loadKeys(name: EditorKeys, host: KeyHost): Promise<Extension> {
  if (name === 'vim') return vimKeys(host)
  if (name === 'emacs') return emacsKeys()
  return []
}

async function vimKeys(host: KeyHost): Promise<Extension> {
  const { CodeMirror, getCM, vim } = await import('@replit/codemirror-vim')
  CodeMirror.commands.undo = (cm) => void press(cm.cm6, 'undo')
  CodeMirror.commands.redo = (cm) => void press(cm.cm6, 'redo')
  const edges: Record<string, -1 | 1> = { ArrowUp: -1, k: -1, ArrowDown: 1, j: 1 }
  const keydown = (e: KeyboardEvent, view: EditorView): boolean => {
    const state = getCM(view)?.state.vim
    if (e.key === 'Escape') closeCompletion(view)
    if (!state || e.ctrlKey || e.metaKey || e.altKey || e.shiftKey) return false
    const { keyBuffer, operator, prefixRepeat } = state.inputState
    // Within a command, or in a mode other than the normal one, Vim takes each key.
    if (state.insertMode || state.visualMode || operator || keyBuffer.length || prefixRepeat.length) return false
    host.separate() // each command can be undone alone
    if (e.key === 'Escape') host.escape()
    else if (!edges[e.key] || !host.leave(edges[e.key]!)) return false
    return true
  }
  return [EditorView.domEventHandlers({ keydown }), vim()]
}

async function emacsKeys(): Promise<Extension> {
  const { EmacsHandler, emacs } = await import('@replit/codemirror-emacs')
  EmacsHandler.bindKey('C-/|C-x u|S-C--|C-z', (view: EditorView) => press(view, 'undo'))
  return emacs()
}

/**
 * Performs the editor's own command for the standard key. Text that several people edit has another
 * history than the library of these keys knows.
 */
function press(view: EditorView, command: 'undo' | 'redo'): boolean {
  const mac = /Mac|iP/.test(navigator.platform)
  const init = command === 'undo' ? { key: 'z', keyCode: 90 } : mac ? { key: 'Z', keyCode: 90, shiftKey: true } : { key: 'y', keyCode: 89 }
  return runScopeHandlers(view, new KeyboardEvent('keydown', { ...init, ctrlKey: !mac, metaKey: mac }), 'editor')
}
