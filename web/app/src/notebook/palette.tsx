import { useEffect, useRef, useState } from 'preact/hooks'
import { Dialog } from '../ui/dialog'
import { allowed, commands, type Shell } from './commands'
import { keysOf } from './keys'
import type { Notebook } from './notebook'

/** Lists all commands with a search, or all keys. */
export function Palette({ what, notebook: n, shell, close }: { what: 'palette' | 'keys'; notebook: Notebook; shell: Shell; close: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const list = useRef<HTMLUListElement>(null)
  const all = Object.entries(commands).filter(([id, c]) => !c.hidden && allowed(id, n))
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const found = all.filter(([, c]) => words.every((w) => c.name.toLowerCase().includes(w)))
  const run = (id: string) => {
    close()
    // The dialog first returns the focus.
    setTimeout(() => commands[id]!.run(n, shell))
  }
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: 'nearest' }), [at])
  if (what === 'keys') {
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
  return (
    <Dialog label="All commands" class="palette" onClose={close}>
      <input class="field" autofocus role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={found[at] ? `palette-${found[at]![0]}` : undefined}
        aria-label="Command" placeholder="Search commands" value={text} onInput={(e) => { setText(e.currentTarget.value); setAt(0) }}
        onKeyDown={(e) => {
          const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[e.key]
          if (to !== undefined && found.length) {
            e.preventDefault()
            setAt((to + found.length) % found.length)
          } else if (e.key === 'Enter' && found[at]) {
            e.preventDefault()
            run(found[at]![0])
          }
        }} />
      <ul ref={list} id="palette-list" role="listbox" aria-label="Commands">
        {found.map(([id, c], i) => (
          <li key={id} id={`palette-${id}`} role="option" aria-selected={i === at} onClick={() => run(id)} onMouseMove={() => setAt(i)}>
            <span class="grow">{c.name}</span>{keysOf(id)[0] && <kbd>{keysOf(id)[0]}</kbd>}
          </li>
        ))}
        {found.length === 0 && <li class="muted">No command matches.</li>}
      </ul>
    </Dialog>
  )
}
