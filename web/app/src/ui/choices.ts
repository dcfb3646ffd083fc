import type { Signal } from '@preact/signals'
import { languageNames } from '../language/start'
import { t } from '../language/texts'
import { autosave, codeSize, editorKeys, foldMarks, languageSetting, lineNumbers, suggesting, terminalReader, terminalSize, wide } from '../settings'
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

const sizes = (usual: number, all: number[]) => all.map((n) => ({ value: n, label: n === usual ? t('{n} px (default)', { n }) : `${n} px` }))

/** The settings with several values, in the language of the page. */
export const choices = (): Choice[] => [
  { name: t('Theme'), words: t('appearance colours dark light mode'), setting: theme, options: [
    { value: 'system', label: t('As the system') }, { value: 'light', label: t('Light') }, { value: 'dark', label: t('Dark') },
  ] },
  { name: t('Language'), words: t('locale translation'), setting: languageSetting, options: [
    { value: 'system', label: t('As the browser') }, ...Object.entries(languageNames).map(([value, label]) => ({ value, label })),
  ] },
  { name: t('Size of code and output'), words: t('font zoom text'), setting: codeSize, options: sizes(13, [11, 12, 13, 14, 15, 16, 18, 20, 24]) },
  { name: t('Size of text in terminals'), words: t('font zoom shell'), setting: terminalSize, options: sizes(13, [8, 10, 11, 12, 13, 14, 15, 16, 18, 20, 24, 32]) },
  { name: t('Width of the notebook'), words: t('wide narrow full cells'), setting: wide, options: [
    { value: false, label: t('Easy to read (1,000 px)') }, { value: true, label: t('Whole window') },
  ] },
  { name: t('Keys of the editor'), words: t('keymap keyboard bindings shortcuts'), setting: editorKeys, options: [
    { value: 'standard', label: t('Standard') }, { value: 'vim', label: 'Vim' }, { value: 'emacs', label: 'Emacs' },
  ] },
]

/** The settings that are on or off, in the language of the page. */
export const switches = (): Switch[] => [
  { name: t('Save the notebook automatically'), words: t('autosave'), setting: autosave },
  { name: t('Suggest completions while you type'), words: t('autocomplete'), setting: suggesting },
  { name: t('Show line numbers'), words: t('gutter'), setting: lineNumbers },
  { name: t('Show marks that fold code'), words: t('folding gutter'), setting: foldMarks },
  { name: t('Screen reader support in terminals'), words: t('accessibility'), setting: terminalReader },
]
