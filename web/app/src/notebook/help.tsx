import { rich, t } from '../language/texts'
import { Dialog } from '../ui/dialog'
import { allowed, commands } from './commands'
import { keysOf } from './keys'
import type { Notebook } from './notebook'

/** Lists all keys. */
export function Help({ notebook: n, close }: { notebook: Notebook; close: () => void }) {
  const rows = Object.entries(commands()).filter(([id, c]) => c.name && keysOf(id).length > 0 && allowed(id, n))
  return (
    <Dialog label={t('Keys|of the keyboard')} class="keys" onClose={close}>
      <div class="dialog">
        <h2>{t('Keys|of the keyboard')}</h2>
        <p class="muted">{rich('They are Jupyter’s. {esc} leaves the editor, {enter} goes back into it; letters alone work outside. {tab} completes, {shiftTab} explains.', {
          esc: <kbd>Esc</kbd>, enter: <kbd>Enter</kbd>, tab: <kbd>Tab</kbd>, shiftTab: <><kbd>Shift</kbd> <kbd>Tab</kbd></>,
        })}</p>
        <dl>{rows.map(([id, c]) => <div key={id}><dt>{c.name.replace(/…$/, '')}</dt><dd>{keysOf(id).slice(0, 2).map((k) => <kbd key={k}>{k}</kbd>)}</dd></div>)}</dl>
      </div>
    </Dialog>
  )
}
