// Footnotes of Markdown: [^name] in the text, and [^name]: before the note.
import type { MarkdownIt } from 'markdown-it'

export interface Note {
  text: string
  /** Its place among the notes that the text refers to; 0 if it does not. */
  number: number
}

export type Notes = Map<string, Note>

/** The notes of the text that is parsed. */
const notesOf = (env: unknown): Notes => ((env as { notes?: Notes }).notes ??= new Map())

/** Takes the notes out of a text, and makes a token of the type footnote for each reference. */
export function footnotes(md: MarkdownIt): void {
  md.block.ruler.before('reference', 'footnote', (state, start, end, silent) => {
    const line = (n: number) => state.src.slice(state.bMarks[n]! + state.tShift[n]!, state.eMarks[n])
    const first = /^\[\^([^\]\s]{1,100})\]:\s*(.*)$/.exec(line(start))
    if (!first || state.sCount[start]! - state.blkIndent >= 4) return false
    if (silent) return true
    let text = first[2]!
    let next = start + 1
    // The lines of a note that follow the first one are indented.
    for (; next < end && line(next) !== '' && state.sCount[next]! - state.blkIndent >= 2; next++) text += `\n${line(next)}`
    const notes = notesOf(state.env)
    if (!notes.has(first[1]!)) notes.set(first[1]!, { text, number: 0 })
    state.line = next
    return true
  }, { alt: ['paragraph', 'reference'] })
  md.inline.ruler.before('link', 'footnote', (state, silent) => {
    const found = /^\[\^([^\]\s]{1,100})\]/.exec(state.src.slice(state.pos, state.pos + 104))
    const notes = notesOf(state.env)
    const note = found && notes.get(found[1]!)
    if (!note) return false
    if (!silent) {
      if (note.number === 0) note.number = 1 + [...notes.values()].filter((n) => n.number > 0).length
      state.push('footnote', '', 0).meta = { number: note.number }
    }
    state.pos += found[0].length
    return true
  })
}
