import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'

/** A text in another language. A text with a number has one form per plural category. */
export type Entry = string | { one?: string; few?: string; many?: string; other: string }
/** The texts of a language by their English texts. */
export type Texts = Record<string, Entry>
type Values = Record<string, string | number>

/** A language and its texts. English needs none: the code has them. */
export interface Language {
  /** Its BCP 47 tag. */
  tag: string
  rtl?: boolean
  texts: Texts
}

/** The language of the code. */
export const english: Language = { tag: 'en', texts: {} }

/** The language of the page. Components that use it are rendered again after a change. */
export const language = signal<Language>(english)

/**
 * Returns a text in the language of the page. `{name}` in it is replaced with a value. Words after
 * `|` in the English text are not shown: they distinguish equal texts that differ in other
 * languages, as in `Open|the state`. Call it where the text is used, because the language can
 * change.
 */
export function t(text: string, values?: Values): string {
  const { texts } = language.value
  const found = Object.hasOwn(texts, text) ? texts[text]! : undefined
  return fill(found === undefined ? withoutContext(text) : typeof found === 'string' ? found : found.other, values)
}

/** Returns a text with the number `{n}`. The English text for several is the name of both. */
export function plural(n: number, one: string, several: string, values?: Values): string {
  const { tag, texts } = language.value
  const found = Object.hasOwn(texts, several) ? texts[several]! : { one, other: several }
  const form = typeof found === 'string' ? found : found[new Intl.PluralRules(tag).select(n) as 'other'] ?? found.other
  return fill(withoutContext(form), { n: number(n), ...values })
}

/** Returns a text in which `{name}` is replaced with an element. */
export function rich(text: string, values: Record<string, ComponentChildren>): ComponentChildren[] {
  return t(text).split(/\{(\w+)\}/).map((part, i) => (i % 2 ? values[part] : part))
}

/** Formats a number for people. */
export function number(n: number, options?: Intl.NumberFormatOptions): string {
  return n.toLocaleString(language.value.tag, options)
}

/** Formats a time, in milliseconds since 1970, for people. */
export function time(ms: number, options?: Intl.DateTimeFormatOptions): string {
  return new Date(ms).toLocaleString(tagOfTimes(), options)
}

// In English, the browser's region decides about the order of day and month.
function tagOfTimes(): string | undefined {
  const { tag } = language.value
  return tag === 'en' ? undefined : tag
}

const withoutContext = (text: string) => text.split('|', 1)[0]!

function fill(text: string, values?: Values): string {
  return values ? text.replace(/\{(\w+)\}/g, (all, name: string) => (Object.hasOwn(values, name) ? String(values[name]) : all)) : text
}
