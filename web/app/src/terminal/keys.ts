import { t } from '../language/texts'

/** The commands of the page that have keys. */
export type Command = 'open' | 'close' | 'right' | 'down' | 'next' | 'previous' | 'find' | 'larger' | 'smaller' | 'reset' | 'palette' | 'earlier' | 'later'

/** macOS programs use Control, so there the page's keys have Command. */
export const mac = typeof navigator !== 'undefined' && /Mac|iP/.test(navigator.platform)

/**
 * The keys, each with Control or Command. Browsers keep others to themselves: T, W and N, also with
 * Shift, and those for pages.
 */
const keys: Record<Command, { shift: boolean; keys: string[]; cap: string }> = {
  open: { shift: true, keys: ['enter'], cap: 'Enter' },
  close: { shift: true, keys: ['x'], cap: 'X' },
  right: { shift: true, keys: ['e'], cap: 'E' },
  down: { shift: true, keys: ['o'], cap: 'O' },
  next: { shift: true, keys: ['arrowright'], cap: '→' },
  previous: { shift: true, keys: ['arrowleft'], cap: '←' },
  find: { shift: true, keys: ['f'], cap: 'F' },
  larger: { shift: false, keys: ['=', '+'], cap: '+' },
  smaller: { shift: false, keys: ['-'], cap: '-' },
  reset: { shift: false, keys: ['0'], cap: '0' },
  earlier: { shift: true, keys: ['arrowup'], cap: '↑' },
  later: { shift: true, keys: ['arrowdown'], cap: '↓' },
  palette: { shift: true, keys: ['p'], cap: 'P' },
}
const commands = Object.keys(keys) as Command[]

/** Returns the command of a key that was pressed; undefined if the program gets it. */
export function commandOf(e: KeyboardEvent): Command | undefined {
  if (e.altKey || !(mac ? e.metaKey && !e.ctrlKey : e.ctrlKey && !e.metaKey)) return undefined
  const key = e.key.toLowerCase()
  // Some keyboards have + and = only with Shift.
  return commands.find((c) => keys[c].keys.includes(key) && (keys[c].shift === e.shiftKey || key === '+'))
}

/** Returns the keys of a command, for people. */
export function keysOf(c: Command): string {
  const { shift, cap } = keys[c]
  return mac ? `⌘${shift ? '⇧' : ''}${cap}` : `${t('Ctrl')}+${shift ? '⇧+' : ''}${cap}`
}
