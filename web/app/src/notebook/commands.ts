import { castPath, navigate } from '../router'
import { lineNumbers } from '../settings'
import { viewing } from '../token'
import { confirm } from '../ui/dialog'
import { toast } from '../ui/toast'
import { appView } from './appview'
import type { Notebook } from './notebook'
import type { PaneName } from './pane'
import { headingLevel, sectionOf } from './sections'

/** Functions of the page for commands. */
export interface Shell {
  pane(name: PaneName): void
  palette(): void
  help(): void
  export(as: 'ipynb' | 'html' | 'script'): void
  import(): void
  /** Shows a file beside the notebook, or a new terminal. */
  beside(path?: string): void
  print(): void
  /** Shows only text and output, or the whole notebook again. */
  app(): void
  share(): void
  /** The cursor in the editor of the active cell, in code points. */
  cursor(): number
  /** Shows a file at a line. */
  file(path: string, line: number): void
}

export interface Command {
  name: string
  /** Other words by which the palette finds it. */
  words?: string
  /** Not in the palette: keys for navigation, and what is there as a setting. */
  hidden?: boolean
  run(n: Notebook, s: Shell): void
}

/** The commands for users who may change nothing. */
const looking = new Set([
  'up', 'down', 'extend-up', 'extend-down', 'first', 'last', 'scroll-down', 'scroll-up', 'select-all', 'copy', 'line-numbers', 'fold-output', 'fold-section', 'fold-all', 'unfold-all', 'scroll-output', 'replay', 'download-output',
  'palette', 'help', 'search', 'files', 'outline', 'app', 'print', 'export-ipynb', 'export-html', 'export-script',
])
/** The commands of the view without code, besides those that only look. */
const running = new Set(['run-all', 'terminal-beside', 'interrupt', 'restart', 'restart-run', 'clear-outputs', 'save', 'versions', 'variables'])

export function allowed(id: string, n: Notebook): boolean {
  if (looking.has(id)) return true
  if (n.readOnly) return id === 'versions' && !viewing.peek() // a share link is not for copies of notebooks
  return !appView.peek() || running.has(id)
}

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
  'run-next': { name: 'Run the cell and go to the next', words: 'execute', run(n) {
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
  run: { name: 'Run the cell', words: 'execute', run(n) { n.run(); show(n) } },
  'run-insert': { name: 'Run the cell and insert one below', run(n) {
    n.run()
    n.insert('below')
    n.mode.value = 'edit'
    n.focus()
  } },
  'run-all': { name: 'Run all cells', words: 'execute everything', run: (n) => n.runAll() },
  'run-above': { name: 'Run all cells above', run: (n) => n.runAbove() },
  'run-below': { name: 'Run the cell and all below', run: (n) => n.runBelow() },
  interrupt: { name: 'Stop running cells', words: 'interrupt cancel abort kill', run: (n) => void n.interrupt() },
  restart: { name: 'Restart the kernel…', words: 'reset', run: (n) => void restart(n) },
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
  'insert-above': { name: 'Insert a cell above', words: 'add new', run(n) { n.insert('above'); show(n) } },
  'insert-below': { name: 'Insert a cell below', words: 'add new', run(n) { n.insert('below'); show(n) } },
  cut: { name: 'Cut cells', run(n) { n.copy(true); show(n) } },
  copy: { name: 'Copy cells', run: (n) => n.copy() },
  'paste-below': { name: 'Paste cells below', run(n) { n.paste('below'); show(n) } },
  'paste-above': { name: 'Paste cells above', run(n) { n.paste('above'); show(n) } },
  delete: { name: 'Delete cells', words: 'remove', run(n) { n.remove(); show(n) } },
  undo: { name: 'Undo cell change', run(n) { n.undo(); show(n) } },
  redo: { name: 'Redo cell change', run(n) { n.redo(); show(n) } },
  'move-up': { name: 'Move cells up', run(n) { n.move(-1); show(n) } },
  'move-down': { name: 'Move cells down', run(n) { n.move(1); show(n) } },
  'to-code': { name: 'Change to code', run(n) { n.setType('code'); show(n) } },
  'to-markdown': { name: 'Change to text (Markdown)', words: 'text prose', run(n) { n.setType('markdown'); show(n) } },
  'to-raw': { name: 'Change to raw', run(n) { n.setType('raw'); show(n) } },
  ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((i) => [`heading-${i}`, { name: `Change to heading ${i}`, hidden: i > 3, run: (n: Notebook) => { n.heading(i); show(n) } }])),
  merge: { name: 'Merge cells', words: 'join', run(n) { n.merge(); show(n) } },
  split: { name: 'Split the cell at the cursor', hidden: true, run: () => {} }, // the page knows the cursor
  format: { name: 'Format the code', words: 'prettify black gofmt', run: (n) => void import('./code/actions').then((m) => m.format(n, n.selected.peek())) },
  'format-all': { name: 'Format all cells', run: (n) => void import('./code/actions').then((m) => m.format(n, n.cells.peek())) },
  definition: { name: 'Go to the definition', run: (n, s) => { const c = n.activeCell; if (c) void import('./code/actions').then((m) => m.goToDefinition(n, c, s.cursor(), s)) } },
  rename: { name: 'Rename the variable…', words: 'refactor', run: (n, s) => { const c = n.activeCell; if (c) void import('./code/actions').then((m) => m.rename(n, c, s.cursor())) } },
  comment: { name: 'Comment on the cell', words: 'discuss note', run: (n) => { const c = n.activeCell; if (c) c.commenting.value = true } },
  'line-numbers': { name: 'Line numbers', hidden: true, run: () => (lineNumbers.value = !lineNumbers.value) },
  'fold-section': { name: 'Fold or show the section', run(n) { const c = n.activeCell; if (c && headingLevel(c)) c.section.value = !c.section.value } },
  'fold-all': { name: 'Fold all sections', run(n) { for (const c of n.cells.peek()) c.section.value = headingLevel(c) > 0 && sectionOf(n.cells.peek(), c).length > 0 } },
  'unfold-all': { name: 'Show all sections', run(n) { for (const c of n.cells.peek()) c.section.value = false } },
  'fold-output': { name: 'Hide or show the output', words: 'collapse expand', run(n) { for (const c of n.selected.peek()) c.folded.value = !c.folded.value } },
  'scroll-output': { name: 'Expand or scroll long output', run(n) { for (const c of n.selected.peek()) c.output.el.classList.toggle('whole') } },
  'clear-outputs': { name: 'Clear all outputs', words: 'remove results', run: (n) => n.clearOutputs() },
  'clear-output': { name: 'Clear the output', run: (n) => n.clearOutputs(n.selected.peek()) },
  'download-output': { name: 'Download the output as text', run: (n) => { const c = n.activeCell; if (c) void n.download(c) } },
  replay: { name: 'Replay the output', words: 'recording', run(n) {
    const c = n.activeCell
    if (!c?.execution || !c.channel) return toast('Run the cell first: this page has not seen it run')
    navigate(castPath(n.session.id, c.channel, c.execution))
  } },
  save: { name: 'Save', words: 'write store', run: (n) => void n.save() },
  palette: { name: 'Command palette', hidden: true, run: (_, s) => s.palette() },
  help: { name: 'Keys', words: 'keyboard shortcuts', run: (_, s) => s.help() },
  search: { name: 'Search and replace', words: 'find replace', run: (_, s) => s.pane('search') },
  files: { name: 'Files', words: 'upload browser folder', run: (_, s) => s.pane('files') },
  variables: { name: 'Variables', words: 'inspect values', run: (_, s) => s.pane('variables') },
  outline: { name: 'Outline', words: 'contents headings', run: (_, s) => s.pane('outline') },
  versions: { name: 'Versions', words: 'history restore compare', run: (_, s) => s.pane('versions') },
  'export-ipynb': { name: 'Download as notebook (.ipynb)', words: 'export jupyter', run: (_, s) => s.export('ipynb') },
  'export-html': { name: 'Download as page (.html)', words: 'export html web', run: (_, s) => s.export('html') },
  'terminal-beside': { name: 'Open a terminal beside the notebook', words: 'shell split pane dock', run: (_, s) => s.beside() },
  print: { name: 'Print or save as PDF…', words: 'export paper pdf', run: (_, s) => s.print() },
  app: { name: 'Show or hide the code (app view)', words: 'report presentation results only', run: (_, s) => s.app() },
  'export-script': { name: 'Download as script', words: 'export python source', run: (_, s) => s.export('script') },
  import: { name: 'Open a notebook from this computer…', words: 'upload ipynb', run: (_, s) => s.import() },
}
