// The signature of a function, while its arguments are typed.
import { StateEffect, StateField, type Transaction } from '@codemirror/state'
import { EditorView, showTooltip, type Tooltip, type ViewUpdate } from '@codemirror/view'
import { plural } from '../language/texts'
import type { Signature } from './code/types'

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
/** The time after the last key until the signature is looked at again, in milliseconds. */
const pause = 120

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

/** Replaces the signature that is shown, when another parameter is typed. */
export const setParameter = StateEffect.define<Shown>()

export const signature = StateField.define<Shown | null>({
  create: () => null,
  update(v, tr) {
    const now = tr.docChanged || tr.selection ? after(v, tr) : v
    for (const e of tr.effects) {
      if (e.is(setSignature)) return e.value && { ...e.value, outer: now }
      if (e.is(setParameter)) return now && { ...e.value, outer: now.outer ?? null }
    }
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

/** Calls ask when the cursor has moved, or something was typed, while a signature is shown. */
export function onArgument(ask: (from: number) => void) {
  let timer: ReturnType<typeof setTimeout> | undefined
  return EditorView.updateListener.of((u: ViewUpdate) => {
    if (!u.docChanged && !u.selectionSet) return
    clearTimeout(timer)
    if (!u.state.field(signature)) return
    timer = setTimeout(() => {
      const shown = u.view.state.field(signature)
      if (shown) ask(shown.from)
    }, pause)
  })
}

/** Shows a signature. The active parameter stands out, if it is known. */
export function shownSignature(from: number, said: string | Signature): Shown {
  return {
    from,
    tooltip: {
      pos: from, above: true,
      create() {
        const dom = document.createElement('div')
        dom.className = 'cm-inspect cm-signature'
        if (typeof said === 'string') dom.textContent = said
        else dom.append(...parts(said))
        return { dom }
      },
    },
  }
}

function parts({ label, parameters, active, doc, more }: Signature): (string | HTMLElement)[] {
  const [from, to] = parameters[active] ?? [0, 0]
  const strong = document.createElement('strong')
  strong.textContent = label.slice(from, to)
  const out: (string | HTMLElement)[] = [label.slice(0, from), strong, label.slice(to)]
  if (more) out.push(`  ${plural(more, '+ 1 other form', '+ {n} other forms')}`)
  const text = doc?.split(/\n\s*\n/)[0]?.trim().slice(0, maxText)
  if (text) {
    const p = document.createElement('p')
    p.textContent = text
    out.push(p)
  }
  return out
}
