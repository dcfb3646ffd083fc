import { signal } from '@preact/signals'
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
  toasts.value = [...toasts.value.filter((t) => t.text !== text).slice(-2), { id, text, ...(action ? { action } : {}) }]
  setTimeout(() => drop(id), action ? 10_000 : 6_000)
}

/** Shows an error, and advice. */
export function failed(what: string, e: unknown): void {
  toast(`${what}. ${e instanceof Error ? explain(e) : String(e)}`)
}

function drop(id: number): void {
  toasts.value = toasts.value.filter((t) => t.id !== id)
}

/** Shows the messages; used once on a page. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((t) => (
        <div class="toast" key={t.id}>
          <span>{t.text}</span>
          {t.action && <button type="button" class="button" onClick={() => { t.action!.run(); drop(t.id) }}>{t.action.label}</button>}
          <button type="button" class="button icon" aria-label="Dismiss" onClick={() => drop(t.id)}><Icon name="close" /></button>
        </div>
      ))}
    </div>
  )
}
