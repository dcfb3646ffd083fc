import { castPath, navigate, terminalPath } from '../router'
import { lineNumbers } from '../settings'
import { theme } from '../theme'
import { viewing } from '../token'
import { settingsOpen } from '../ui/bar'
import { confirm } from '../ui/dialog'
import { toast } from '../ui/toast'
import type { Notebook } from './notebook'
import type { PaneName } from './pane'

/** Functions of the page for commands. */
export interface Shell {
  pane(name: PaneName): void
  palette(): void
  help(): void
  export(as: 'ipynb' | 'html' | 'script'): void
  import(): void
  share(): void
}

export interface Command {
  name: string
  /** Not in the palette: keys for navigation. */
  hidden?: boolean
  run(n: Notebook, s: Shell): void
}

/** The commands for users who may change nothing. */
const looking = new Set([
  'up', 'down', 'extend-up', 'extend-down', 'first', 'last', 'scroll-down', 'scroll-up', 'select-all', 'copy', 'line-numbers', 'fold-output', 'scroll-output', 'replay', 'download-output',
  'palette', 'help', 'search', 'files', 'outline', 'terminal', 'home', 'settings', 'theme-light', 'theme-dark', 'theme-system', 'export-ipynb', 'export-html', 'export-script',
])
/** A share link is for one session, and not for the copies of its notebooks. */
export const allowed = (id: string, n: Notebook): boolean => !n.readOnly || looking.has(id) || (id === 'versions' && !viewing.peek())

const walk = (run: Command['run']): Command => ({ name: '', hidden: true, run })

function show(n: Notebook): void {
  n.mode.value = 'command'
  n.focus()
}

/** Restarts a kernel, that of the active cell by default, after the user has confirmed it. */
export async function restart(n: Notebook, language?: string): Promise<void> {
  if (await confirm({ title: 'Restart the kernel?', text: 'Its variables are lost. Files stay.', yes: 'Restart', danger: true })) await n.restart(language)
}

export const commands: Record<string, Command> = {
  'run-next': { name: 'Run the cell and go to the next', run(n) {
    n.run()
    const last = n.selected.peek().at(-1)
    if (last) n.select(last.id)
    if (n.step(1)) show(n)
    else {
      n.insert(n.cells.peek().length)
      n.mode.value = 'edit'
      n.focus()
    }
  } },
  run: { name: 'Run the cell', run(n) { n.run(); show(n) } },
  'run-insert': { name: 'Run the cell and insert one below', run(n) {
    n.run()
    n.insert('below')
    n.mode.value = 'edit'
    n.focus()
  } },
  'run-all': { name: 'Run all cells', run: (n) => n.runAll() },
  'run-above': { name: 'Run all cells above', run: (n) => n.runAbove() },
  'run-below': { name: 'Run the cell and all below', run: (n) => n.runBelow() },
  interrupt: { name: 'Stop running cells', run: (n) => void n.interrupt() },
  restart: { name: 'Restart the kernel…', run: (n) => void restart(n) },
  'restart-run': { name: 'Restart the kernel and run all cells…', async run(n) {
    if (!await confirm({ title: 'Restart the kernel and run all cells?', text: 'Its variables are lost. Files stay.', yes: 'Restart and run', danger: true })) return
    await n.restart()
    n.runAll()
  } },
  edit: { name: 'Edit the cell', hidden: true, run(n) {
    const c = n.activeCell
    if (c && c.type.peek() !== 'code') c.editing.value = true
    n.mode.value = 'edit'
    n.focus()
  } },
  up: walk((n) => { if (n.step(-1)) show(n) }),
  down: walk((n) => { if (n.step(1)) show(n) }),
  'extend-up': walk((n) => { if (n.step(-1, true)) show(n) }),
  'extend-down': walk((n) => { if (n.step(1, true)) show(n) }),
  first: walk((n) => { n.select(n.cells.peek()[0]!.id); show(n) }),
  last: walk((n) => { n.select(n.cells.peek().at(-1)!.id); show(n) }),
  'scroll-down': walk(() => scrollBy({ top: innerHeight * 0.8 })),
  'scroll-up': walk(() => scrollBy({ top: -innerHeight * 0.8 })),
  'select-all': { name: 'Select all cells', run(n) {
    n.select(n.cells.peek()[0]!.id)
    n.select(n.cells.peek().at(-1)!.id, true)
    show(n)
  } },
  'insert-above': { name: 'Insert a cell above', run(n) { n.insert('above'); show(n) } },
  'insert-below': { name: 'Insert a cell below', run(n) { n.insert('below'); show(n) } },
  cut: { name: 'Cut cells', run(n) { n.copy(true); show(n) } },
  copy: { name: 'Copy cells', run: (n) => n.copy() },
  'paste-below': { name: 'Paste cells below', run(n) { n.paste('below'); show(n) } },
  'paste-above': { name: 'Paste cells above', run(n) { n.paste('above'); show(n) } },
  delete: { name: 'Delete cells', run(n) { n.remove(); show(n) } },
  undo: { name: 'Undo cell change', run(n) { n.undo(); show(n) } },
  redo: { name: 'Redo cell change', run(n) { n.redo(); show(n) } },
  'move-up': { name: 'Move cells up', run(n) { n.move(-1); show(n) } },
  'move-down': { name: 'Move cells down', run(n) { n.move(1); show(n) } },
  'to-code': { name: 'Change to code', run(n) { n.setType('code'); show(n) } },
  'to-markdown': { name: 'Change to text (Markdown)', run(n) { n.setType('markdown'); show(n) } },
  'to-raw': { name: 'Change to raw', run(n) { n.setType('raw'); show(n) } },
  ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((i) => [`heading-${i}`, { name: `Change to heading ${i}`, hidden: i > 3, run: (n: Notebook) => { n.heading(i); show(n) } }])),
  merge: { name: 'Merge cells', run(n) { n.merge(); show(n) } },
  split: { name: 'Split the cell at the cursor', hidden: true, run: () => {} }, // the page knows the cursor
  comment: { name: 'Comment on the cell', run: (n) => { const c = n.activeCell; if (c) c.commenting.value = true } },
  'line-numbers': { name: 'Line numbers', run: () => (lineNumbers.value = !lineNumbers.value) },
  'fold-output': { name: 'Hide or show the output', run(n) { for (const c of n.selected.peek()) c.folded.value = !c.folded.value } },
  'scroll-output': { name: 'Expand or scroll long output', run(n) { for (const c of n.selected.peek()) c.output.el.classList.toggle('whole') } },
  'clear-outputs': { name: 'Clear all outputs', run: (n) => n.clearOutputs() },
  'clear-output': { name: 'Clear the output', run: (n) => n.clearOutputs(n.selected.peek()) },
  'download-output': { name: 'Download the output as text', run: (n) => { const c = n.activeCell; if (c) void n.download(c) } },
  replay: { name: 'Replay the output', run(n) {
    const c = n.activeCell
    if (!c?.execution || !c.channel) return toast('Run the cell first: this page has not seen it run')
    navigate(castPath(n.session.id, c.channel, c.execution))
  } },
  save: { name: 'Save', run: (n) => void n.save() },
  palette: { name: 'All commands', hidden: true, run: (_, s) => s.palette() },
  help: { name: 'Keys', run: (_, s) => s.help() },
  search: { name: 'Search and replace', run: (_, s) => s.pane('search') },
  files: { name: 'Files', run: (_, s) => s.pane('files') },
  variables: { name: 'Variables', run: (_, s) => s.pane('variables') },
  outline: { name: 'Outline', run: (_, s) => s.pane('outline') },
  versions: { name: 'Versions', run: (_, s) => s.pane('versions') },
  terminal: { name: 'Open the terminal', run: (n) => navigate(terminalPath(n.session.id)) },
  home: { name: 'Home: all sessions', run: () => navigate('/') },
  settings: { name: 'Settings…', run: () => (settingsOpen.value = true) },
  'theme-light': { name: 'Theme: light', run: () => (theme.value = 'light') },
  'theme-dark': { name: 'Theme: dark', run: () => (theme.value = 'dark') },
  'theme-system': { name: 'Theme: as the system', run: () => (theme.value = 'system') },
  'export-ipynb': { name: 'Download as notebook (.ipynb)', run: (_, s) => s.export('ipynb') },
  'export-html': { name: 'Download as page (.html)', run: (_, s) => s.export('html') },
  'export-script': { name: 'Download as script', run: (_, s) => s.export('script') },
  import: { name: 'Open a notebook from this computer…', run: (_, s) => s.import() },
}
