import { t } from '../language/texts'
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
  /** Asks for another notebook, and moves or copies the selected cells there. */
  send(copy: boolean): void
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
  if (await confirm({ title: t('Restart the kernel?'), text: t('Its variables are lost. Files stay.'), yes: t('Restart'), danger: true })) await n.restart(language)
}

/** The commands by their names in keys.ts, with texts in the language of the page. */
export const commands = (): Record<string, Command> => ({
  'run-next': { name: t('Run the cell and go to the next'), words: t('execute'), run(n) {
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
  run: { name: t('Run the cell'), words: t('execute'), run(n) { n.run(); show(n) } },
  'run-insert': { name: t('Run the cell and insert one below'), run(n) {
    n.run()
    n.insert('below')
    n.mode.value = 'edit'
    n.focus()
  } },
  'run-all': { name: t('Run all cells'), words: t('execute everything'), run: (n) => n.runAll() },
  'run-above': { name: t('Run all cells above'), run: (n) => n.runAbove() },
  'run-below': { name: t('Run the cell and all below'), run: (n) => n.runBelow() },
  interrupt: { name: t('Stop running cells'), words: t('interrupt cancel abort kill'), run: (n) => void n.interrupt() },
  restart: { name: t('Restart the kernel…'), words: t('reset'), run: (n) => void restart(n) },
  'restart-run': { name: t('Restart the kernel and run all cells…'), async run(n) {
    if (!await confirm({ title: t('Restart the kernel and run all cells?'), text: t('Its variables are lost. Files stay.'), yes: t('Restart and run'), danger: true })) return
    await n.restart()
    n.runAll()
  } },
  edit: { name: t('Edit the cell'), hidden: true, run(n) {
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
  'select-all': { name: t('Select all cells'), run(n) {
    n.select(n.cells.peek()[0]!.id)
    n.select(n.cells.peek().at(-1)!.id, true)
    show(n)
  } },
  'insert-above': { name: t('Insert a cell above'), words: t('add new'), run(n) { n.insert('above'); show(n) } },
  'insert-below': { name: t('Insert a cell below'), words: t('add new'), run(n) { n.insert('below'); show(n) } },
  cut: { name: t('Cut cells'), run(n) { n.copy(true); show(n) } },
  copy: { name: t('Copy cells'), run: (n) => n.copy() },
  'paste-below': { name: t('Paste cells below'), run(n) { n.paste('below'); show(n) } },
  'paste-above': { name: t('Paste cells above'), run(n) { n.paste('above'); show(n) } },
  delete: { name: t('Delete cells'), words: t('remove'), run(n) { n.remove(); show(n) } },
  undo: { name: t('Undo cell change'), run(n) { n.undo(); show(n) } },
  redo: { name: t('Redo cell change'), run(n) { n.redo(); show(n) } },
  'move-up': { name: t('Move cells up'), run(n) { n.move(-1); show(n) } },
  'move-down': { name: t('Move cells down'), run(n) { n.move(1); show(n) } },
  'move-to': { name: t('Move cells to another notebook…'), run: (_, s) => s.send(false) },
  'copy-to': { name: t('Copy cells to another notebook…'), run: (_, s) => s.send(true) },
  'to-code': { name: t('Change to code'), run(n) { n.setType('code'); show(n) } },
  'to-markdown': { name: t('Change to text (Markdown)'), words: t('text prose'), run(n) { n.setType('markdown'); show(n) } },
  'to-raw': { name: t('Change to raw'), run(n) { n.setType('raw'); show(n) } },
  ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((i) => [`heading-${i}`, { name: t('Change to heading {n}', { n: i }), hidden: i > 3, run: (n: Notebook) => { n.heading(i); show(n) } }])),
  merge: { name: t('Merge cells'), words: t('join'), run(n) { n.merge(); show(n) } },
  split: { name: t('Split the cell at the cursor'), hidden: true, run: () => {} }, // the page knows the cursor
  format: { name: t('Format the code'), words: t('prettify black gofmt'), run: (n) => void import('./code/actions').then((m) => m.format(n, n.selected.peek())) },
  'format-all': { name: t('Format all cells'), run: (n) => void import('./code/actions').then((m) => m.format(n, n.cells.peek())) },
  definition: { name: t('Go to the definition'), run: (n, s) => { const c = n.activeCell; if (c) void import('./code/actions').then((m) => m.goToDefinition(n, c, s.cursor(), s)) } },
  rename: { name: t('Rename the variable…'), words: t('refactor'), run: (n, s) => { const c = n.activeCell; if (c) void import('./code/actions').then((m) => m.rename(n, c, s.cursor())) } },
  comment: { name: t('Comment on the cell'), words: t('discuss note'), run: (n) => { const c = n.activeCell; if (c) c.commenting.value = true } },
  'line-numbers': { name: t('Line numbers'), hidden: true, run: () => (lineNumbers.value = !lineNumbers.value) },
  'fold-section': { name: t('Fold or show the section'), run(n) { const c = n.activeCell; if (c && headingLevel(c)) c.section.value = !c.section.value } },
  'fold-all': { name: t('Fold all sections'), run(n) { for (const c of n.cells.peek()) c.section.value = headingLevel(c) > 0 && sectionOf(n.cells.peek(), c).length > 0 } },
  'unfold-all': { name: t('Show all sections'), run(n) { for (const c of n.cells.peek()) c.section.value = false } },
  'fold-output': { name: t('Hide or show the output'), words: t('collapse expand'), run(n) { for (const c of n.selected.peek()) c.folded.value = !c.folded.value } },
  'scroll-output': { name: t('Expand or scroll long output'), run(n) { for (const c of n.selected.peek()) c.output.el.classList.toggle('whole') } },
  'clear-outputs': { name: t('Clear all outputs'), words: t('remove results'), run: (n) => n.clearOutputs() },
  'clear-output': { name: t('Clear the output'), run: (n) => n.clearOutputs(n.selected.peek()) },
  'download-output': { name: t('Download the output as text'), run: (n) => { const c = n.activeCell; if (c) void n.download(c) } },
  replay: { name: t('Replay the output'), words: t('recording'), run(n) {
    const c = n.activeCell
    if (!c?.execution || !c.channel) return toast(t('Run the cell first: this page has not seen it run'))
    navigate(castPath(n.session.id, c.channel, c.execution))
  } },
  save: { name: t('Save'), words: t('write store'), run: (n) => void n.save() },
  palette: { name: t('Command palette'), hidden: true, run: (_, s) => s.palette() },
  help: { name: t('Keys|of the keyboard'), words: t('keyboard shortcuts'), run: (_, s) => s.help() },
  search: { name: t('Search and replace'), words: t('find replace'), run: (_, s) => s.pane('search') },
  files: { name: t('Files'), words: t('upload browser folder'), run: (_, s) => s.pane('files') },
  variables: { name: t('Variables'), words: t('inspect values'), run: (_, s) => s.pane('variables') },
  outline: { name: t('Outline'), words: t('contents headings'), run: (_, s) => s.pane('outline') },
  versions: { name: t('Versions'), words: t('history restore compare'), run: (_, s) => s.pane('versions') },
  'export-ipynb': { name: t('Download as notebook (.ipynb)'), words: t('export jupyter'), run: (_, s) => s.export('ipynb') },
  'export-html': { name: t('Download as page (.html)'), words: t('export html web'), run: (_, s) => s.export('html') },
  duplicate: { name: t('Make a copy of the notebook'), words: t('duplicate clone'), run: (n, s) => void import('./import').then((m) => m.makeCopy(n, s)) },
  'terminal-beside': { name: t('Open a terminal beside the notebook'), words: t('shell split pane dock'), run: (_, s) => s.beside() },
  print: { name: t('Print or save as PDF…'), words: t('export paper pdf'), run: (_, s) => s.print() },
  app: { name: t('Show or hide the code (app view)'), words: t('report presentation results only'), run: (_, s) => s.app() },
  'export-script': { name: t('Download as script'), words: t('export python source'), run: (_, s) => s.export('script') },
  import: { name: t('Open a notebook from this computer…'), words: t('upload ipynb'), run: (_, s) => s.import() },
})
