/** Checks of text from programs and clipboards. */

// Control characters, and characters that change the direction of text or are invisible.
const unseen = /[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g

/** Returns a program's title for its tab: plain, at most 80 characters. */
export function cleanTitle(title: string): string {
  const t = title.replace(unseen, '').trim()
  return t.length > 80 ? t.slice(0, 79) + '…' : t
}

/**
 * Removes everything from a paste that a terminal would treat as a key or a sequence. The server
 * does the same.
 */
export function cleanPaste(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(/[\x00-\x08\x0b-\x1f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/\x7f/g, '\u2421').replace(/[\x80-\x9f]/g, '\ufffd')
}

/**
 * Whether data that a terminal sends is an answer to a program's query: state, colours, size, name,
 * focus.
 */
export function isAnswer(data: string): boolean {
  return /^\x1b(?:\[[?>=]?[\d;]*(?:[cnRy]|\$y|t)|\[\?[\d;]*S|\[[IO]|\][\s\S]*|P[\s\S]*)$/.test(data)
}

/**
 * Returns the text of OSC 52, which a program puts on the clipboard; undefined for a query or
 * invalid base64.
 */
export function clipboardText(data: string): string | undefined {
  const b64 = data.slice(data.indexOf(';') + 1)
  if (b64 === '?' || b64 === '' || b64.length > 140_000) return undefined
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(b64), (c) => c.charCodeAt(0)))
  } catch {
    return undefined
  }
}

/** A file and a line in text, such as src/main.go:12:3 or File "a.py", line 7. */
export interface Place {
  index: number
  length: number
  path: string
  line: number
}

const places = [/(?:^|[\s"'(])((?:[\w.~-]*\/)*[\w.-]+\.\w{1,8}):(\d{1,6})(?::\d+)?/g, /File "([^"<>]+)", line (\d+)/g]

export function findPlaces(text: string): Place[] {
  return places.flatMap((re) => [...text.matchAll(re)].map((m) => {
    const lead = re === places[0] ? m[0].indexOf(m[1]!) : 0
    return { index: m.index + lead, length: m[0].length - lead, path: m[1]!, line: Number(m[2]) }
  })).filter((p) => !p.path.includes('..') && !p.path.startsWith('~'))
}
