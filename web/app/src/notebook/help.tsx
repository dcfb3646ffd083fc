import { Dialog } from '../ui/dialog'
import { allowed, commands } from './commands'
import { keysOf } from './keys'
import type { Notebook } from './notebook'

/** Lists all keys. */
export function Help({ notebook: n, close }: { notebook: Notebook; close: () => void }) {
  const rows = Object.entries({ ...commands, edit: commands.edit!, split: commands.split! }).filter(([id, c]) => c.name && keysOf(id).length > 0 && allowed(id, n))
  return (
    <Dialog label="Keys" class="keys" onClose={close}>
      <div class="dialog">
        <h2>Keys</h2>
        <p class="muted">They are Jupyter’s. <kbd>Esc</kbd> leaves the editor, <kbd>Enter</kbd> goes back into it; letters alone work outside. <kbd>Tab</kbd> completes, <kbd>Shift</kbd> <kbd>Tab</kbd> explains.</p>
        <dl>{rows.map(([id, c]) => <div key={id}><dt>{c.name.replace(/…$/, '')}</dt><dd>{keysOf(id).slice(0, 2).map((k) => <kbd key={k}>{k}</kbd>)}</dd></div>)}</dl>
      </div>
    </Dialog>
  )
}
