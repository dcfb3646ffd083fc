import { signal } from '@preact/signals'
import { t } from '../language/texts'
import { explain } from './again'
import { Icon } from './icon'

interface Toast {
  id: number
  text: string
  action?: { label: string; run: () => void }
}

const toasts = signal<Toast[]>([])
let next = 1

/**
 * Shows a message that needs no answer, for 6 s; at most three at once. A message that is already
 * shown is not repeated.
 */
export function toast(text: string, action?: Toast['action']): void {
  const id = next++
  toasts.value = [...toasts.value.filter((shown) => shown.text !== text).slice(-2), { id, text, ...(action ? { action } : {}) }]
  setTimeout(() => drop(id), action ? 10_000 : 6_000)
}

/** Shows an error, and advice. */
export function failed(what: string, e: unknown): void {
  toast(`${what}. ${e instanceof Error ? explain(e) : String(e)}`)
}

function drop(id: number): void {
  toasts.value = toasts.value.filter((shown) => shown.id !== id)
}

/** Shows the messages; used once on a page. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, action }) => (
        <div class="toast" key={id}>
          <span>{text}</span>
          {action && <button type="button" class="button" onClick={() => { action.run(); drop(id) }}>{action.label}</button>}
          <button type="button" class="button icon" aria-label={t('Dismiss')} onClick={() => drop(id)}><Icon name="close" /></button>
        </div>
      ))}
    </div>
  )
}
