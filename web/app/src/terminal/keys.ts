/** The commands of the page that have keys. */
export type Command = 'open' | 'close' | 'right' | 'down' | 'next' | 'previous' | 'find' | 'larger' | 'smaller' | 'reset' | 'palette' | 'earlier' | 'later'

/** macOS programs use Control, so there the page's keys have Command. */
export const mac = typeof navigator !== 'undefined' && /Mac|iP/.test(navigator.platform)

/**
 * The keys, each with Control or Command. Browsers keep others to themselves: T, W and N, also with
 * Shift, and those for pages.
 */
const keys: Record<Command, { shift: boolean; keys: string[]; label: string }> = {
  open: { shift: true, keys: ['enter'], label: 'Enter' },
  close: { shift: true, keys: ['x'], label: 'X' },
  right: { shift: true, keys: ['e'], label: 'E' },
  down: { shift: true, keys: ['o'], label: 'O' },
  next: { shift: true, keys: ['arrowright'], label: '→' },
  previous: { shift: true, keys: ['arrowleft'], label: '←' },
  find: { shift: true, keys: ['f'], label: 'F' },
  larger: { shift: false, keys: ['=', '+'], label: '+' },
  smaller: { shift: false, keys: ['-'], label: '-' },
  reset: { shift: false, keys: ['0'], label: '0' },
  earlier: { shift: true, keys: ['arrowup'], label: '↑' },
  later: { shift: true, keys: ['arrowdown'], label: '↓' },
  palette: { shift: true, keys: ['p'], label: 'P' },
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
  const { shift, label } = keys[c]
  return mac ? `⌘${shift ? '⇧' : ''}${label}` : `Ctrl+${shift ? '⇧+' : ''}${label}`
}
