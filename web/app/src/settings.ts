import { effect, signal, type Signal } from '@preact/signals'

const prefix = 'sandgate.set.'

/** A setting that this browser keeps. */
function kept<T>(name: string, initial: T): Signal<T> {
  let value: unknown = initial
  try {
    value = JSON.parse(localStorage.getItem(prefix + name) ?? 'null')
  } catch {
    // The browser stores nothing, or something else.
  }
  const s = signal(typeof value === typeof initial ? value as T : initial)
  let first = true
  effect(() => {
    const now = JSON.stringify(s.value)
    if (!first) {
      try {
        localStorage.setItem(prefix + name, now)
      } catch {
        // Then it lasts as long as this page.
      }
    }
    first = false
  })
  return s
}

/** The language of the texts: the browser's, or one that the application has. */
export const languageSetting = kept<string>('language', 'system')
/** The size of code and output in pixels. */
export const codeSize = kept<number>('code', 13)
/** The cells take the whole width of the window. */
export const wide = kept<boolean>('wide', false)
export const lineNumbers = kept<boolean>('numbers', false)
/** Suggestions appear while code is typed, and not only with Tab. */
export const suggesting = kept<boolean>('suggest', true)
/** Marks beside the code fold it. */
export const foldMarks = kept<boolean>('folds', false)

/** Changes of a notebook are saved without a command. */
export const autosave = kept<boolean>('autosave', true)
/** The size of text in terminals in pixels. */
export const terminalSize = kept<number>('terminal', 13)
/** Terminals show their text to screen readers. */
export const terminalReader = kept<boolean>('reader', false)

/** The keys of the editor. */
export type EditorKeys = 'standard' | 'vim' | 'emacs'
export const editorKeys = kept<EditorKeys>('keys', 'standard')

export function startSettings(): void {
  const { style } = document.documentElement
  effect(() => style.setProperty('--code', `${codeSize.value / 16}rem`))
  effect(() => style.setProperty('--cells', wide.value ? 'none' : '1000px'))
}
