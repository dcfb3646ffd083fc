import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { t } from '../language/texts'

export type EntryKind = 'Command' | 'Setting' | 'File' | 'Session'

/** The names of the kinds, in the language of the page. */
export const kindNames = (): Record<EntryKind, string> => ({ Command: t('Command'), Setting: t('Setting'), File: t('File'), Session: t('Session') })

/** One line of the command palette. */
export interface Entry {
  /** Unique in its kind. */
  id: string
  kind: EntryKind
  name: string
  /** Other words by which it is found. */
  words?: string
  /** The keys that do the same. */
  keys?: string
  /** Shown after the name, such as the folder of a file. */
  note?: string
  run(): void
}

export const paletteOpen = signal(false)
/** The commands of the page that is shown. */
export const pageEntries = signal<() => Entry[]>(() => [])

/** Offers commands in the palette while the component is shown. */
export function useEntries(entries: () => Entry[], inputs: unknown[]): void {
  useEffect(() => {
    pageEntries.value = entries
    return () => {
      if (pageEntries.peek() === entries) pageEntries.value = () => []
    }
  }, inputs)
}
