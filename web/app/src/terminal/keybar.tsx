import { useEffect, useState } from 'preact/hooks'
import type { Screen } from './screen'

const plain: [string, string, string][] = [
  ['Esc', 'Esc', '\x1b'], ['Tab', 'Tab', '\t'], ['|', 'Pipe', '|'], ['~', 'Tilde', '~'], ['/', 'Slash', '/'], ['-', 'Minus', '-'],
]
const arrows: [string, string, string][] = [['←', 'Left', 'D'], ['↓', 'Down', 'B'], ['↑', 'Up', 'A'], ['→', 'Right', 'C']]

/** Shows the keys that a phone's keyboard lacks. CSS shows it if the pointer is coarse. */
export function KeyBar({ screen, onPaste }: { screen(): Screen | undefined; onPaste(): void }) {
  const [held, setHeld] = useState({ ctrl: false, alt: false })
  useEffect(() => {
    const s = screen()
    if (s) s.onModify = (ctrl, alt) => setHeld({ ctrl, alt })
  })
  const hold = (ctrl: boolean, alt: boolean) => {
    screen()?.modify(ctrl, alt)
    screen()?.term.focus()
  }
  // The terminal keeps the focus, so that the keyboard stays visible.
  return (
    <div class="keybar" role="toolbar" aria-label="Keys" onMouseDown={(e) => e.preventDefault()}>
      <button type="button" aria-pressed={held.ctrl} onClick={() => hold(!held.ctrl, held.alt)}>Ctrl</button>
      <button type="button" aria-pressed={held.alt} onClick={() => hold(held.ctrl, !held.alt)}>Alt</button>
      {plain.map(([text, label, keys]) => <button type="button" key={text} aria-label={label} onClick={() => screen()?.type(keys)}>{text}</button>)}
      {arrows.map(([text, label, code]) => <button type="button" key={text} aria-label={label} onClick={() => screen()?.type((screen()!.applicationCursor ? '\x1bO' : '\x1b[') + code)}>{text}</button>)}
      <button type="button" aria-label="^C, interrupt" onClick={() => screen()?.type('\x03')}>^C</button>
      <button type="button" onClick={onPaste}>Paste</button>
    </div>
  )
}
