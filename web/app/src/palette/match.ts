import { kindNames, type Entry, type EntryKind } from '../ui/palette'

/** The number of entries that are shown. */
export const maxShown = 100

const order = { Command: 0, Setting: 1, File: 2, Session: 3 } as const

/**
 * Returns the entries that have all words of the text, the best first: words that begin a word of
 * the name, then words inside of it, then the first letters of its words.
 */
export function match(entries: Entry[], text: string): Entry[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const kinds = kindNames()
  const found: { e: Entry; score: number }[] = []
  for (const e of entries) {
    const scores = words.map((w) => scoreOf(e, kinds, w))
    if (scores.every((s) => s > 0)) found.push({ e, score: scores.reduce((a, b) => a + b, 0) })
  }
  const length = (e: Entry) => (words.length ? e.name.length : 0)
  return found.sort((a, b) => b.score - a.score || order[a.e.kind] - order[b.e.kind] || length(a.e) - length(b.e)).map(({ e }) => e)
}

function scoreOf(e: Entry, kinds: Record<EntryKind, string>, word: string): number {
  const name = e.name.toLowerCase()
  if (name.startsWith(word)) return 6
  if (begins(name, word)) return 5
  if (name.includes(word)) return 4
  const other = `${e.words ?? ''} ${e.note ?? ''} ${kinds[e.kind]}`.toLowerCase()
  if (begins(other, word)) return 3
  if (other.includes(word)) return 2
  return word.length > 1 && wordsOf(name).map((w) => w[0]).join('').startsWith(word) ? 1 : 0
}

const wordsOf = (text: string): string[] => text.split(/[^\p{L}\p{N}]+/u).filter(Boolean)
const begins = (text: string, word: string): boolean => wordsOf(text).some((w) => w.startsWith(word))
