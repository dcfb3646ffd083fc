import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { t } from '../language/texts'

/**
 * A dialog over the page. Escape and a click outside close it. The browser reports a close later, when
 * a key may have opened the dialog again, so this does not wait for the report.
 */
export function Dialog({ label, onClose, class: cls, children }: { label: string; onClose: () => void; class?: string; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null)
  const gone = useRef(false)
  useLayoutEffect(() => {
    const d = ref.current!
    const before = document.activeElement as HTMLElement | null
    d.showModal()
    return () => {
      gone.current = true
      d.close() // until it is removed, nothing outside of it can get the focus
      before?.focus?.()
    }
  }, [])
  const key = (e: KeyboardEvent) => {
    e.stopPropagation()
    if (e.key !== 'Escape' || e.defaultPrevented || e.isComposing) return
    e.preventDefault()
    onClose()
  }
  return (
    <dialog ref={ref} aria-label={label} class={cls} onClose={() => { if (!gone.current) onClose() }} onKeyDown={key}
      onClick={(e) => { if (e.target === ref.current) onClose() }}>
      {children}
    </dialog>
  )
}

interface Question {
  title: string
  text?: ComponentChildren
  /** The initial text of the input. */
  value?: string
  placeholder?: string
  yes: string
  danger?: boolean
  answer(value: string | undefined): void
}

const question = signal<Question | undefined>(undefined)

/** Asks for confirmation. */
export async function confirm(q: Omit<Question, 'answer' | 'value'>): Promise<boolean> {
  return (await ask(q)) !== undefined
}

/** Asks for a line of text; undefined when the user cancels. */
export function ask(q: Omit<Question, 'answer'>): Promise<string | undefined> {
  question.value?.answer(undefined)
  return new Promise((resolve) => {
    question.value = {
      ...q,
      answer(v) {
        question.value = undefined
        resolve(v)
      },
    }
  })
}

/** Shows questions; used once on a page. */
export function Questions() {
  const q = question.value
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.select(), [q])
  if (!q) return null
  return (
    <Dialog label={q.title} onClose={() => q.answer(undefined)}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); q.answer(field.current?.value ?? '') }}>
        <h2>{q.title}</h2>
        {q.text && <p class="muted">{q.text}</p>}
        {q.value !== undefined && <input ref={field} class="field" aria-label={q.title} placeholder={q.placeholder} defaultValue={q.value} autofocus autocomplete="off" spellcheck={false} />}
        <div class="actions">
          <button type="button" class="button" onClick={() => q.answer(undefined)}>{t('Cancel')}</button>
          <button class={q.danger ? 'button danger' : 'button primary'} autofocus={q.value === undefined}>{q.yes}</button>
        </div>
      </form>
    </Dialog>
  )
}
