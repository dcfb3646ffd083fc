import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, closeCompletion, completionStatus, insertBracket, selectedCompletionIndex, startCompletion, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentLess, indentMore, isolateHistory, toggleComment } from '@codemirror/commands'
import { bracketMatching, codeFolding, foldGutter, foldKeymap, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language'
import { Compartment, type EditorSelection, EditorState, Prec, StateEffect, StateField, type Extension } from '@codemirror/state'
import { Decoration, drawSelection, EditorView, highlightSpecialChars, hoverTooltip, keymap, lineNumbers, rectangularSelection, runScopeHandlers, type DecorationSet, type Tooltip, showTooltip } from '@codemirror/view'
import { codePoints, type Completion, type Inspection } from '@sandgate/client/base'
import { t } from '../language/texts'
import { suggesting, type EditorKeys } from '../settings'
import { problemMarks, showProblems } from './code/marks'
import { colours, support } from './code/colours'
import type { Problem } from './code/ask'
import type { Signature } from './code/types'
import { amongArguments, onArgument, onCall, setParameter, setSignature, shownSignature, signature, signatureIn } from './signature'
import { acceptFirst, selectWhenAsked, suggestsIn } from './suggest'

export interface EditorHost {
  changed(source: string): void
  /** Called for Up in the first line and Down in the last one. */
  leave(by: -1 | 1): void
  escape(): void
  focused(): void
  /** asked is false for suggestions while code is typed, which start no kernel and wait for none. */
  complete(code: string, cursor: number, asked: boolean): Promise<Completion | undefined>
  inspect(code: string, cursor: number): Promise<Inspection | undefined>
  signature(code: string, cursor: number): Promise<Signature | undefined>
}

const highlight = HighlightStyle.define(colours.map(({ name: _, ...c }) => c))

const look = EditorView.theme({
  '&': { fontSize: 'var(--code)', backgroundColor: 'transparent', color: 'var(--ink)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { padding: '10px 0', caretColor: 'var(--ink)' },
  '.cm-line': { padding: '0 12px' },
  '.cm-fat-cursor': { background: 'var(--accent) !important', color: 'var(--accent-ink) !important' },
  '&:not(.cm-focused) .cm-fat-cursor': { background: 'none !important', outline: '1px solid var(--accent) !important', color: 'transparent !important' },
  '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--ink)', borderTop: '1px solid var(--line)' },
  '.cm-vim-panel': { padding: '2px 12px', fontFamily: 'var(--mono)', fontSize: 'var(--code)' },
  '.cm-vim-panel input': { border: 'none', outline: 'none', backgroundColor: 'transparent', color: 'inherit', font: 'inherit' },
  '.cm-foldGutter .cm-gutterElement': { padding: '0 2px 0 6px', cursor: 'pointer' },
  '.cm-foldPlaceholder': { backgroundColor: 'var(--accent-soft)', border: 'none', color: 'var(--muted)', padding: '0 6px' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)', borderLeftWidth: '2px' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--muted)', border: 'none' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'light-dark(#cfe6e3, #25504d) !important' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft) !important', outline: '1px solid var(--line-strong)' },
  '.cm-matchingBracket, .cm-nonmatchingBracket': { backgroundColor: 'transparent !important', outline: 'none' },
  '.cm-tooltip': { border: '1px solid var(--line)', borderRadius: 'var(--radius)', backgroundColor: 'var(--raised)', color: 'var(--ink)', boxShadow: 'var(--shadow)', overflow: 'hidden' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: 'var(--code)', maxHeight: '16em' },
  '.cm-tooltip-autocomplete > ul > li': { padding: '3px 10px !important', lineHeight: '1.5' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent) !important', color: 'var(--accent-ink) !important' },
  '.cm-completionIcon': { display: 'none' },
  '.cm-completionDetail': { color: 'inherit', opacity: '0.75', fontStyle: 'normal', marginInlineStart: '1.5em' },
  '.cm-inspect': { maxWidth: 'min(72ch, 90vw)', maxHeight: '18em', overflow: 'auto', padding: '8px 12px', whiteSpace: 'pre-wrap', fontFamily: 'var(--mono)', fontSize: 'var(--text-xs)' },
  '.cm-signature strong': { color: 'var(--accent)' },
  '.cm-signature p': { margin: '6px 0 0', fontFamily: 'var(--font)', color: 'var(--muted)' },
  '.cm-error-line': { backgroundColor: 'var(--danger-soft)' },
})

/** The line that an error points to, from 1; 0 means none. */
const setErrorLine = StateEffect.define<number>()
const errorLine = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(d, tr) {
    for (const e of tr.effects) {
      if (!e.is(setErrorLine)) continue
      return e.value >= 1 && e.value <= tr.state.doc.lines
        ? Decoration.set([Decoration.line({ class: 'cm-error-line' }).range(tr.state.doc.line(e.value).from)]) : Decoration.none
    }
    return tr.docChanged ? Decoration.none : d.map(tr.changes)
  },
  provide: (f) => EditorView.decorations.from(f),
})

/** The result of Shift-Tab, shown until something is typed. */
const setTip = StateEffect.define<Tooltip | null>()
const tip = StateField.define<Tooltip | null>({
  create: () => null,
  update(v, tr) {
    for (const e of tr.effects) if (e.is(setTip)) return e.value
    return tr.docChanged || tr.selection ? null : v
  },
  provide: (f) => showTooltip.from(f),
})

/** The name of an editor, and the texts of its library, in the language of the page. */
const words = (label: string): Extension => [
  EditorView.contentAttributes.of({ 'aria-label': label }),
  EditorState.phrases.of({
    'Completions': t('Completions'), 'Control character': t('Control character'), 'Selection deleted': t('Selection deleted'),
    'Fold line': t('Fold line'), 'Unfold line': t('Unfold line'), 'folded code': t('folded code'), 'unfold': t('unfold'),
    'Folded lines': t('Folded lines'), 'Unfolded lines': t('Unfolded lines'), 'to': t('to|a range of lines'),
  }),
]

/** With a coarse pointer, keys for code cover this many pixels at the bottom of the page. */
const codeBar = 64
const touch = matchMedia('(pointer: coarse)')
const apple = /Mac|iP(hone|ad)/.test(navigator.platform)

/** A cell's editor. */
export class Editor {
  readonly view: EditorView
  readonly #language = new Compartment()
  readonly #words = new Compartment()
  readonly #keys = new Compartment()
  readonly #numbers = new Compartment()
  readonly #folds = new Compartment()
  readonly #reached = new Compartment()
  readonly #undo = new Compartment()
  readonly #host: EditorHost
  #wanted = ''
  #wantedKeys: EditorKeys = 'standard'
  #asked = false // the completions that are shown were asked for
  #leave: (() => void) | undefined // while the text is shared
  #separate: (() => void) | undefined

  constructor(parent: HTMLElement, source: string, label: string, host: EditorHost, readOnly = false) {
    this.#host = host
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        doc: source,
        extensions: [
          // The keys of another editor come before all others.
          this.#keys.of([]),
          highlightSpecialChars(), this.#undo.of([history(), keymap.of(historyKeymap)]), drawSelection(), EditorState.allowMultipleSelections.of(true), rectangularSelection(), indentOnInput(),
          indentUnit.of('    '), EditorState.tabSize.of(4), syntaxHighlighting(highlight), bracketMatching(), closeBrackets(), EditorView.lineWrapping,
          ...(readOnly ? [EditorState.readOnly.of(true), EditorView.contentAttributes.of({ 'aria-readonly': 'true' })] : []),
          look, errorLine, tip, problemMarks, this.#language.of([]), this.#numbers.of([]), this.#folds.of([]), codeFolding(), this.#reached.of([]),
          EditorView.scrollMargins.of(() => (touch.matches ? { bottom: codeBar } : null)),
          autocompletion({ override: [(c) => this.#complete(c)], activateOnTyping: true, selectOnOpen: false, defaultKeymap: false, icons: false, maxRenderedOptions: 200, interactionDelay: 0 }),
          selectWhenAsked(() => this.#asked), signature, onCall((name, from) => void this.#sign(name, from)), onArgument((from) => void this.#argument(from)),
          hoverTooltip((_, pos) => this.#inspect(pos), { hoverTime: 700 }),
          this.#words.of(words(label)),
          EditorView.contentAttributes.of({ autocapitalize: 'off', autocorrect: 'off', spellcheck: 'false' }),
          // The update for a focus change comes 10 ms later, which is too late for a key that
          // follows a click.
          EditorView.domEventHandlers({ focus: () => host.focused(), blur: () => queueMicrotask(() => this.#hideTips()) }),
          EditorView.updateListener.of((u) => {
            if (u.docChanged && !this.#leave) host.changed(u.state.doc.toString())
          }),
          Prec.highest(keymap.of([
            { key: 'Tab', run: (v) => this.#tab(v) },
            { key: 'Shift-Tab', run: (v) => this.#shiftTab(v) },
            { key: 'Mod-]', run: indentMore }, { key: 'Mod-[', run: indentLess }, { key: 'Mod-/', run: toggleComment },
            { key: 'Escape', run: (v) => {
              if (completionStatus(v.state) === 'active' && selectedCompletionIndex(v.state) !== null) return false
              closeCompletion(v)
              if (v.state.field(signature)) v.dispatch({ effects: setSignature.of(null) })
              if (v.state.field(tip)) v.dispatch({ effects: setTip.of(null) })
              else host.escape()
              return true
            } },
            { key: 'Ctrl-m', run: () => { host.escape(); return true } },
            { key: 'ArrowUp', run: (v) => this.#edge(v, -1) },
            { key: 'ArrowDown', run: (v) => this.#edge(v, 1) },
          ])),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...foldKeymap, ...defaultKeymap.filter((k) => k.key !== 'Mod-Enter' && k.key !== 'Shift-Mod-k')]),
        ],
      }),
    })
  }

  async setLanguage(name: string): Promise<void> {
    if (this.#wanted === name) return
    this.#wanted = name
    const made = await support[name]?.().catch(() => undefined)
    if (this.#wanted === name) this.view.dispatch({ effects: this.#language.reconfigure(made ?? []) })
  }

  /** Shows texts in the language of the page, with another name. */
  setWords(label: string): void {
    this.view.dispatch({ effects: this.#words.reconfigure(words(label)) })
  }

  setNumbers(on: boolean): void {
    this.view.dispatch({ effects: this.#numbers.reconfigure(on ? lineNumbers() : []) })
  }

  setFolds(on: boolean): void {
    this.view.dispatch({ effects: this.#folds.reconfigure(on ? foldGutter() : []) })
  }

  async setKeys(name: EditorKeys): Promise<void> {
    if (this.#wantedKeys === name) return
    this.#wantedKeys = name
    const host = { leave: (by: -1 | 1) => this.#edge(this.view, by), escape: () => this.#host.escape(), separate: () => this.#step() }
    const made = await import('./keymap').then((m) => m.loadKeys(name, host)).catch(() => [])
    if (this.#wantedKeys !== name) return
    this.view.dispatch({ effects: this.#keys.reconfigure(made) })
    this.view.dom.dataset.keys = name
  }

  #step(): void {
    if (this.#separate) this.#separate()
    else this.view.dispatch({ annotations: isolateHistory.of('full') })
  }

  /** Sets whether the Tab key reaches the editor, which then takes the Tab key for itself. */
  setReached(on: boolean): void {
    this.view.dispatch({ effects: this.#reached.reconfigure(on ? [] : EditorView.contentAttributes.of({ tabindex: '-1' })) })
  }

  setErrorLine(n: number): void {
    const line = n >= 1 && n <= this.view.state.doc.lines ? this.view.state.doc.line(n) : undefined
    this.view.dispatch({ effects: setErrorLine.of(n), ...(line ? { selection: { anchor: line.from }, scrollIntoView: true } : {}) })
  }

  setProblems(problems: readonly Problem[]): void {
    showProblems(this.view, problems)
  }

  /** Shows another text, unless the text is shared. The cursor keeps its place. */
  set(source: string): void {
    if (!this.#leave) this.#show(source)
  }

  #show(source: string): void {
    const now = this.view.state.doc.toString()
    if (now === source) return
    const most = Math.min(now.length, source.length)
    let from = 0
    while (from < most && now[from] === source[from]) from++
    let end = 0
    while (end < most - from && now.at(-1 - end) === source.at(-1 - end)) end++
    this.view.dispatch({ changes: { from, to: now.length - end, insert: source.slice(from, source.length - end) } })
  }

  /**
   * Shows a text that others edit too, by means of an extension, until leave is called. separate
   * begins another step for undo.
   */
  share(source: string, extension: Extension, leave: () => void, separate: () => void): void {
    this.#leave?.()
    this.#leave = leave
    this.#separate = separate
    this.view.dispatch({ effects: this.#undo.reconfigure([]) })
    this.#show(source)
    this.view.dispatch({ effects: this.#undo.reconfigure(extension) })
  }

  get cursor(): number {
    return this.view.state.selection.main.head
  }

  focus(at?: 'start' | 'end'): void {
    if (at) this.view.dispatch({ selection: { anchor: at === 'start' ? 0 : this.view.state.doc.length } })
    this.view.focus()
  }

  /** Types a text, as a keyboard does. */
  type(text: string): void {
    const { state } = this.view
    this.view.dispatch(insertBracket(state, text) ?? state.update(state.replaceSelection(text), { userEvent: 'input.type', scrollIntoView: true }))
  }

  /**
   * Presses a key that a phone's keyboard lacks. command is ⌘ on macOS and iOS, and Ctrl elsewhere.
   */
  press(key: string, o: { command?: boolean; shift?: boolean } = {}): void {
    const keys = { ctrlKey: !!o.command && !apple, metaKey: !!o.command && apple, shiftKey: !!o.shift }
    runScopeHandlers(this.view, new KeyboardEvent('keydown', { key, ...keys }), 'editor')
  }

  redo(): void {
    if (apple) this.press('z', { command: true, shift: true })
    else this.press('y', { command: true })
  }

  get selection(): EditorSelection {
    return this.view.state.selection
  }

  /** Gives the editor the focus and its selection again. The browser lost them without an event. */
  restore(selection: EditorSelection): void {
    if (!this.view.hasFocus) this.view.focus()
    const [anchor, head] = [this.view.domAtPos(selection.main.anchor), this.view.domAtPos(selection.main.head)]
    getSelection()?.setBaseAndExtent(anchor.node, anchor.offset, head.node, head.offset)
  }

  select(from: number, to: number): void {
    this.view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true })
  }

  destroy(): void {
    this.#leave?.()
    this.view.destroy()
  }

  #edge(v: EditorView, by: -1 | 1): boolean {
    if (completionStatus(v.state) === 'active') return false
    const { main, ranges } = v.state.selection
    if (ranges.length > 1 || !main.empty) return false
    const line = v.state.doc.lineAt(main.head)
    if (by < 0 ? line.number !== 1 : line.number !== v.state.doc.lines) return false
    // A wrapped line has several rows.
    if (v.moveVertically(main, by > 0).head !== main.head && v.coordsAtPos(v.moveVertically(main, by > 0).head)?.top !== v.coordsAtPos(main.head)?.top) return false
    this.#host.leave(by)
    return true
  }

  /** Indents after white space, otherwise completes; accepts the selected completion. */
  #tab(v: EditorView): boolean {
    if (completionStatus(v.state) === 'active') return acceptFirst(v)
    const { main } = v.state.selection
    const line = v.state.doc.lineAt(main.head)
    const before = line.text.slice(0, main.head - line.from)
    if (!main.empty) return indentMore(v)
    if (/^\s*$/.test(before) || /\s$/.test(before)) {
      v.dispatch(v.state.replaceSelection('    '.slice(before.length % 4)))
      return true
    }
    return startCompletion(v)
  }

  #shiftTab(v: EditorView): boolean {
    const { main } = v.state.selection
    const line = v.state.doc.lineAt(main.head)
    if (!main.empty || /^\s*$/.test(line.text.slice(0, main.head - line.from))) return indentLess(v)
    const pos = main.head
    void this.#inspect(pos).then((found) => { if (v.hasFocus) v.dispatch({ effects: setTip.of(found) }) })
    return true
  }

  async #complete(c: CompletionContext): Promise<CompletionResult | null> {
    if (!c.explicit && !(suggesting.peek() && suggestsIn(c))) return null
    const code = c.state.doc.toString()
    const found = await this.#host.complete(code, codePoints(code, c.pos), c.explicit).catch(() => undefined)
    if (!found?.matches?.length || c.aborted) return null
    this.#asked = c.explicit
    return {
      from: utf16(code, found.cursor_start ?? 0), to: c.pos,
      options: found.matches.slice(0, 1000).map((m) => ({ label: m.text, ...(m.type ? { detail: m.type } : {}) })),
      validFor: /^[\w$]*$/,
    }
  }

  /** Descriptions would cover the next cell when the user has left this one. */
  #hideTips(): void {
    const { state } = this.view
    if (!this.view.hasFocus && (state.field(signature) || state.field(tip))) this.view.dispatch({ effects: [setSignature.of(null), setTip.of(null)] })
  }

  /** Shows the signature of the function whose name ends at a place. */
  async #sign(name: number, from: number): Promise<void> {
    if (!suggesting.peek()) return
    const code = this.view.state.doc.toString()
    const at = async (pos: number) => {
      const found = await this.#host.inspect(code, codePoints(code, pos)).catch(() => undefined)
      const said = found?.found ? found.data?.['text/plain'] : undefined
      return typeof said === 'string' ? signatureIn(said) : undefined
    }
    // IPython looks for the call around the cursor, other kernels for the name before it.
    const text = await this.#signature(code, from) ?? await at(from) ?? await at(name)
    // Unless the cursor has left the arguments meanwhile.
    const { state } = this.view
    const { head } = state.selection.main
    if (text && this.view.hasFocus && state.sliceDoc(name, from) === '(' && head >= from && amongArguments(state.sliceDoc(from, head))) this.view.dispatch({ effects: setSignature.of(shownSignature(from, text)) })
  }

  #signature(code: string, pos: number): Promise<Signature | undefined> {
    return this.#host.signature(code, codePoints(code, pos)).catch(() => undefined)
  }

  /** Shows the parameter at the cursor in the signature whose arguments begin at a place. */
  async #argument(from: number): Promise<void> {
    const { state } = this.view
    const found = await this.#signature(state.doc.toString(), state.selection.main.head)
    const now = this.view.state
    if (found && this.view.hasFocus && now.doc.eq(state.doc) && now.selection.main.head === state.selection.main.head) this.view.dispatch({ effects: setParameter.of(shownSignature(from, found)) })
  }

  async #inspect(pos: number): Promise<Tooltip | null> {
    const code = this.view.state.doc.toString()
    const found = await this.#host.inspect(code, codePoints(code, pos)).catch(() => undefined)
    const text = found?.found ? found.data?.['text/plain'] : undefined
    if (typeof text !== 'string' || !text.trim()) return null
    return {
      pos, above: true,
      create() {
        const dom = document.createElement('div')
        dom.className = 'cm-inspect'
        dom.textContent = text.replace(/\x1b\[[\d;]*m/g, '').slice(0, 20_000)
        return { dom }
      },
    }
  }
}

/** Converts a position in code points to an index of the string. */
export function utf16(text: string, point: number): number {
  let i = 0
  for (const c of text) {
    if (point-- <= 0) break
    i += c.length
  }
  return i
}
