import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { t } from '../language/texts'
import { Icon } from '../ui/icon'
import { commands } from './commands'
import type { View } from './desk'
import './codebar.css'

/** Characters of code that a phone's keyboard has on its second or third page. */
const characters = ['(', ')', '[', ']', '{', '}', "'", '"', ':', '=', '_', '#', '.', '/', '<', '>', '|', '\\']

/** Shows keys for code above the keyboard of a phone. */
export function CodeBar({ view: { notebook: n, editors, shell } }: { view: View }) {
  const bar = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const seen = visualViewport
    if (!seen) return
    // Some browsers put the keyboard over the page instead of making the page smaller.
    const place = () => bar.current?.style.setProperty('--covered', `${Math.max(0, innerHeight - seen.height - seen.offsetTop)}px`)
    place()
    seen.addEventListener('resize', place)
    seen.addEventListener('scroll', place)
    return () => {
      seen.removeEventListener('resize', place)
      seen.removeEventListener('scroll', place)
    }
  }, [])
  const editor = () => editors.get(n.active.peek())?.editor
  const key = (label: string, shown: ComponentChildren, act: () => void) => (
    <button type="button" key={label} aria-label={label} onClick={act}>{shown}</button>
  )
  const press = (name: string, o?: { command?: boolean; shift?: boolean }) => () => editor()?.press(name, o)
  // The editor keeps the focus, so that the keyboard stays.
  return (
    <div ref={bar} class="codebar" role="toolbar" aria-label={t('Keys for code')} onMouseDown={(e) => e.preventDefault()}>
      {key(t('Run the cell'), <Icon name="play" />, () => commands().run!.run(n, shell))}
      {key(t('Tab: indent or complete'), 'Tab', press('Tab'))}
      {key(t('Outdent'), '⇤', press('Tab', { shift: true }))}
      {key(t('Undo|typing'), '↶', press('z', { command: true }))}
      {key(t('Redo|typing'), '↷', () => editor()?.redo())}
      {key(t('Left|the cursor'), '←', press('ArrowLeft'))}
      {key(t('Right|the cursor'), '→', press('ArrowRight'))}
      {key(t('Up|the cursor'), '↑', press('ArrowUp'))}
      {key(t('Down|the cursor'), '↓', press('ArrowDown'))}
      {characters.map((c) => key(c, c, () => editor()?.type(c)))}
    </div>
  )
}
