import { useEffect, useState } from 'preact/hooks'
import { t } from '../language/texts'
import type { Screen } from './screen'

const plain = (): [string, string, string][] => [
  ['Esc', t('Esc'), '\x1b'], ['Tab', t('Tab|a key'), '\t'], ['|', t('Pipe'), '|'], ['~', t('Tilde'), '~'], ['/', t('Slash'), '/'], ['-', t('Minus'), '-'],
]
const arrows = (): [string, string, string][] => [['←', t('Left'), 'D'], ['↓', t('Down'), 'B'], ['↑', t('Up'), 'A'], ['→', t('Right'), 'C']]

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
    <div class="keybar" role="toolbar" aria-label={t('Keys|of a keyboard')} onMouseDown={(e) => e.preventDefault()}>
      <button type="button" aria-pressed={held.ctrl} onClick={() => hold(!held.ctrl, held.alt)}>{t('Ctrl')}</button>
      <button type="button" aria-pressed={held.alt} onClick={() => hold(held.ctrl, !held.alt)}>{t('Alt')}</button>
      {plain().map(([text, label, keys]) => <button type="button" key={text} aria-label={label} onClick={() => screen()?.type(keys)}>{text}</button>)}
      {arrows().map(([text, label, code]) => <button type="button" key={text} aria-label={label} onClick={() => screen()?.type((screen()!.applicationCursor ? '\x1bO' : '\x1b[') + code)}>{text}</button>)}
      <button type="button" aria-label={t('^C, interrupt')} onClick={() => screen()?.type('\x03')}>^C</button>
      <button type="button" onClick={onPaste}>{t('Paste')}</button>
    </div>
  )
}
