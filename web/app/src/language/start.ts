import { effect } from '@preact/signals'
import { languageSetting } from '../settings'
import { english, language, type Language } from './texts'

/** The languages of the application. Their texts are loaded when they are first needed. */
const loaders: Record<string, () => Promise<Language>> = {
  en: () => Promise.resolve(english),
  de: () => import('./de/index').then((m) => m.german),
}

/** The names of the languages by their tags, each in its own language. */
export const languageNames = { en: 'English', de: 'Deutsch' }

/** Returns the first of some languages that the application has. */
export function choose(wanted: readonly string[]): string {
  return wanted.map((w) => w.split('-', 1)[0]!.toLowerCase()).find((w) => Object.hasOwn(loaders, w)) ?? 'en'
}

/**
 * Uses the language of the settings, and follows them. It resolves when the texts are there. If they
 * cannot be loaded, the page is in English.
 */
export function startLanguage(): Promise<void> {
  return new Promise((started) => {
    let newest = ''
    effect(() => {
      const tag = choose(languageSetting.value === 'system' ? navigator.languages : [languageSetting.value])
      newest = tag
      void loaders[tag]!().catch(() => english).then((loaded) => {
        if (newest !== tag) return
        language.value = loaded
        document.documentElement.lang = loaded.tag
        document.documentElement.dir = loaded.rtl ? 'rtl' : 'ltr'
        started()
      })
    })
  })
}
