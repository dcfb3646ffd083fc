import type { EditorKeys } from '../settings'

/** Returns a key press as in the tables. Mod is Ctrl, or Command on a Mac. */
export function chord(e: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>): string {
  let key = e.key === ' ' ? 'Space' : e.key
  const letter = key.length === 1
  if (letter) key = key.toUpperCase()
  const mod = e.ctrlKey || e.metaKey
  // A sign such as ? or _ already includes Shift.
  const shift = e.shiftKey && (!letter || /[A-Z]/.test(key))
  return `${mod ? 'Mod+' : ''}${e.altKey ? 'Alt+' : ''}${shift ? 'Shift+' : ''}${key}`
}

/** Recognises keys and pairs of keys, such as D D, within one second. */
export class Keys {
  #before = ''
  #at = 0

  /**
   * Returns the entry of the table that this press completes, or `pending` if it may begin a pair.
   */
  match(table: ReadonlyMap<string, string>, press: string, now: number): string | undefined | 'pending' {
    const pair = now - this.#at < 1000 ? `${this.#before} ${press}` : ''
    this.#before = ''
    const found = (pair && table.get(pair)) || table.get(press)
    if (found) return found
    for (const keys of table.keys()) {
      if (keys.startsWith(`${press} `)) {
        this.#before = press
        this.#at = now
        return 'pending'
      }
    }
    return undefined
  }
}

/** Jupyter's keys. The second column is the name of the command in commands.ts. */
const command: [string, string][] = [
  ['Enter', 'edit'], ['ArrowUp', 'up'], ['K', 'up'], ['ArrowDown', 'down'], ['J', 'down'],
  ['Shift+ArrowUp', 'extend-up'], ['Shift+K', 'extend-up'], ['Shift+ArrowDown', 'extend-down'], ['Shift+J', 'extend-down'],
  ['Mod+A', 'select-all'], ['A', 'insert-above'], ['B', 'insert-below'], ['X', 'cut'], ['C', 'copy'], ['V', 'paste-below'], ['Shift+V', 'paste-above'],
  ['D D', 'delete'], ['Z', 'undo'], ['Shift+Z', 'redo'], ['Y', 'to-code'], ['M', 'to-markdown'], ['R', 'to-raw'],
  ['1', 'heading-1'], ['2', 'heading-2'], ['3', 'heading-3'], ['4', 'heading-4'], ['5', 'heading-5'], ['6', 'heading-6'],
  ['Shift+M', 'merge'], ['Space', 'scroll-down'], ['Shift+Space', 'scroll-up'], ['Shift+L', 'line-numbers'], ['L', 'line-numbers'],
  ['O', 'fold-output'], ['ArrowLeft', 'fold-section'], ['ArrowRight', 'fold-section'], ['Shift+O', 'scroll-output'], ['I I', 'interrupt'], ['0 0', 'restart'], ['S', 'save'], ['H', 'help'], ['?', 'help'],
  ['P', 'palette'], ['F', 'search'], ['Mod+Shift+ArrowUp', 'move-up'], ['Mod+Shift+ArrowDown', 'move-down'], ['Home', 'first'], ['End', 'last'],
]
const both: [string, string][] = [
  ['Shift+Enter', 'run-next'], ['Mod+Enter', 'run'], ['Alt+Enter', 'run-insert'], ['Mod+S', 'save'], ['Mod+Shift+P', 'palette'], ['Mod+Shift+C', 'palette'],
  ['Mod+K', 'palette'], ['Mod+F', 'search'], ['Alt+Shift+F', 'format'], ['F12', 'definition'], ['F2', 'rename'],
]
const edit: [string, string][] = [['Mod+Shift+-', 'split'], ['Mod+Shift+_', 'split'], ['Mod+_', 'split']]

export const commandKeys: ReadonlyMap<string, string> = new Map([...command, ...both])
export const editKeys: ReadonlyMap<string, string> = new Map([...edit, ...both])

/** The keys of the notebook that an editor with other keys needs for itself. */
const given: Record<EditorKeys, readonly string[]> = { standard: [], vim: ['Mod+F'], emacs: ['Mod+F', 'Mod+K', 'Mod+S'] }

/**
 * Reports whether a key that is pressed in an editor is the editor's. Command on a Mac is the
 * notebook's.
 */
export function isEditors(keys: EditorKeys, press: string, e: Pick<KeyboardEvent, 'metaKey'>): boolean {
  return !e.metaKey && (given[keys] ?? []).includes(press)
}

/** Reports whether a key that is pressed in a table is the table's. */
export function isGridKey(press: string): boolean {
  return !/^Mod\+|^Alt\+/.test(press) && press !== 'Shift+Enter' || /^Mod\+(Shift\+)?(Arrow\w+|Home|End|A|C)$|^Alt\+ArrowDown$/.test(press)
}

/** Returns the keys of a command, for people. */
export function keysOf(id: string): string[] {
  const mac = typeof navigator !== 'undefined' && /Mac|iP/.test(navigator.platform)
  return [...new Map([...commandKeys, ...editKeys])].filter(([, c]) => c === id).map(([k]) => k
    .replace('Mod', mac ? '⌘' : 'Ctrl').replace('Alt', mac ? '⌥' : 'Alt').replace('ArrowUp', '↑').replace('ArrowDown', '↓'))
}
