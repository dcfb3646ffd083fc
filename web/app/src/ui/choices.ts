import type { Signal } from '@preact/signals'
import { autosave, codeSize, editorKeys, foldMarks, lineNumbers, suggesting, terminalReader, terminalSize, wide } from '../settings'
import { theme } from '../theme'

/** A setting with several values. */
export interface Choice {
  name: string
  /** Other words by which it is found. */
  words: string
  setting: Signal<unknown>
  options: { value: unknown; label: string }[]
}

/** A setting that is on or off. */
export interface Switch {
  name: string
  words: string
  setting: Signal<boolean>
}

const sizes = (usual: number, all: number[]) => all.map((n) => ({ value: n, label: `${n} px${n === usual ? ' (default)' : ''}` }))

export const choices: Choice[] = [
  { name: 'Theme', words: 'appearance colours dark light mode', setting: theme, options: [
    { value: 'system', label: 'As the system' }, { value: 'light', label: 'Light' }, { value: 'dark', label: 'Dark' },
  ] },
  { name: 'Size of code and output', words: 'font zoom text', setting: codeSize, options: sizes(13, [11, 12, 13, 14, 15, 16, 18, 20, 24]) },
  { name: 'Size of text in terminals', words: 'font zoom shell', setting: terminalSize, options: sizes(13, [8, 10, 11, 12, 13, 14, 15, 16, 18, 20, 24, 32]) },
  { name: 'Width of the notebook', words: 'wide narrow full cells', setting: wide, options: [
    { value: false, label: 'Easy to read (1,000 px)' }, { value: true, label: 'Whole window' },
  ] },
  { name: 'Keys of the editor', words: 'keymap keyboard bindings shortcuts', setting: editorKeys, options: [
    { value: 'standard', label: 'Standard' }, { value: 'vim', label: 'Vim' }, { value: 'emacs', label: 'Emacs' },
  ] },
]

export const switches: Switch[] = [
  { name: 'Save the notebook automatically', words: 'autosave', setting: autosave },
  { name: 'Suggest completions while you type', words: 'autocomplete', setting: suggesting },
  { name: 'Show line numbers', words: 'gutter', setting: lineNumbers },
  { name: 'Show marks that fold code', words: 'folding gutter', setting: foldMarks },
  { name: 'Screen reader support in terminals', words: 'accessibility', setting: terminalReader },
]
