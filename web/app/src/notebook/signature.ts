// The signature of a function, while its arguments are typed.
import { StateEffect, StateField, type Transaction } from '@codemirror/state'
import { EditorView, showTooltip, type Tooltip, type ViewUpdate } from '@codemirror/view'

interface Shown {
  /** Where the arguments begin. */
  from: number
  tooltip: Tooltip
  /** The call that has this one among its arguments. */
  outer?: Shown | null
}

/** The number of characters of arguments up to which a signature is shown. */
const maxArguments = 2000
const maxText = 400

export const setSignature = StateEffect.define<Shown | null>()

/** Whether the cursor is among the arguments that begin at from. */
export function amongArguments(text: string): boolean {
  if (text.length > maxArguments) return false
  let depth = 0
  for (const c of text) {
    if (c === '(') depth++
    else if (c === ')' && depth-- === 0) return false
  }
  return true
}

function after(v: Shown | null | undefined, tr: Transaction): Shown | null {
  if (!v) return null
  const from = tr.changes.mapPos(v.from, -1)
  const head = tr.state.selection.main.head
  if (head < from || !amongArguments(tr.state.sliceDoc(from, head))) return after(v.outer, tr)
  return { from, tooltip: from === v.from ? v.tooltip : { ...v.tooltip, pos: from }, outer: after(v.outer, tr) }
}

export const signature = StateField.define<Shown | null>({
  create: () => null,
  update(v, tr) {
    const now = tr.docChanged || tr.selection ? after(v, tr) : v
    for (const e of tr.effects) if (e.is(setSignature)) return e.value && { ...e.value, outer: now }
    return now
  },
  provide: (f) => showTooltip.from(f, (v) => v?.tooltip ?? null),
})

/** Returns the signature in a kernel's description of a function: the lines before the rest. */
export function signatureIn(said: string): string | undefined {
  // eslint-disable-next-line no-control-regex
  const text = said.replace(/\x1b\[[\d;]*m/g, '').trim()
  const python = /^(?:Init signature|Signature|Call signature):\s*([^]*?)(?=^\w[\w ]*:|$(?![^]))/m.exec(text)?.[1]
  const first = (python ?? text.split(/\n\s*\n|\n/)[0] ?? '').trim()
  return first.includes('(') ? first.slice(0, maxText) : undefined
}

/** Calls ask with the place of the arguments when an opening parenthesis after a name was typed. */
export function onCall(ask: (name: number, from: number) => void) {
  return EditorView.updateListener.of((u: ViewUpdate) => {
    if (!u.docChanged || !u.transactions.some((t) => t.isUserEvent('input.type'))) return
    const head = u.state.selection.main.head
    if (!/[\p{L}\p{N}_$\])]\($/u.test(u.state.sliceDoc(Math.max(0, head - 2), head))) return
    ask(head - 1, head)
  })
}

export function shownSignature(from: number, text: string): Shown {
  return {
    from,
    tooltip: {
      pos: from, above: true,
      create() {
        const dom = document.createElement('div')
        dom.className = 'cm-inspect cm-signature'
        dom.textContent = text
        return { dom }
      },
    },
  }
}
