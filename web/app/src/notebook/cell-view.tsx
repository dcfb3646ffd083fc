import { effect, useSignalEffect } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { number, plural, t } from '../language/texts'
import { languages, languageName } from '../server'
import { editorKeys, foldMarks, lineNumbers } from '../settings'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { appView } from './appview'
import { dragCell, InsertBar } from './arrange'
import type { CellModel } from './cell'
import { indexOf } from './code/ask'
import { commands, type Shell } from './commands'
import type { Editor } from './editor'
import { keysOf } from './keys'
import { facts } from './languages'
import type { Notebook } from './notebook'
import { headingLevel, sectionOf } from './sections'

/** The editors of the cells that have one. Code that moves the focus uses it. */
export type Editors = Map<string, { focus(at?: 'start' | 'end'): void; editor: Editor | undefined }>

interface Props {
  notebook: Notebook
  cell: CellModel
  index: number
  editors: Editors
  shell: Shell
}

export function CellView({ notebook: n, cell: c, index, editors, shell }: Props) {
  const type = c.type.value
  const active = n.active.value === c.id
  const selected = active || n.selected.value.includes(c)
  const state = c.state.value
  const name = type === 'code' ? languageName(c.language.value) : type === 'markdown' ? t('Text') : t('Raw')
  const words = {
    none: '', queued: t('waiting|a cell'), running: t('running|a cell'), ok: t('done|a cell'), error: t('failed|a cell'), aborted: t('not run|a cell'), lost: t('lost|a cell'),
  }[state]
  const box = useRef<HTMLElement>(null)
  const rendered = type === 'markdown' && !c.editing.value
  return (
    <section ref={box} id={n.prefix + c.id} data-cell={c.id} hidden={n.hidden.value.has(c)} class={`cell ${type}${active ? ' active' : ''}${selected ? ' selected' : ''}`} data-state={state} data-mode={active ? n.mode.value : undefined}
      aria-label={words ? t('Cell {n}, {name}, {state}', { n: index + 1, name, state: words }) : t('Cell {n}, {name}', { n: index + 1, name })} tabIndex={active ? 0 : -1}
      onFocusIn={(e) => { if (n.active.peek() !== c.id && e.target !== box.current) n.select(c.id) }}
      onMouseDown={(e) => {
        if ((e.target as Element).closest('button, a, input, select, summary, .cm-editor, .source-static')) return
        if (selected && !e.shiftKey && n.selected.peek().length > 1 && (e.target as Element).closest('.gutter')) return // it may be a drag
        n.select(c.id, e.shiftKey)
        n.mode.value = 'command'
      }}>
      {!n.readOnly && <InsertBar notebook={n} index={index} />}
      <Gutter notebook={n} cell={c} box={box} />
      <Others notebook={n} cell={c} />
      <div class="cell-main">
        {type === 'code' && !(active && !n.readOnly) && n.mixed.value && <span class="language-tag" aria-hidden="true"><i class="dot" style={{ background: facts(c.language.value).colour }} />{facts(c.language.value).short}</span>}
        {active && !n.readOnly && <Tools notebook={n} cell={c} shell={shell} />}
        {rendered ? <Rendered notebook={n} cell={c} /> : <Source notebook={n} cell={c} editors={editors} index={index} />}
        {type === 'code' && c.problems.value.length > 0 && <Problems notebook={n} cell={c} />}
        {type === 'code' && <Output notebook={n} cell={c} index={index} />}
        <Comments notebook={n} cell={c} />
      </div>
    </section>
  )
}

function Others({ notebook: n, cell: c }: { notebook: Notebook; cell: CellModel }) {
  const InCell = n.people.value?.PeopleInCell
  const sharing = n.sharing.value
  return InCell && sharing ? <InCell sharing={sharing} cell={c.id} /> : null
}

/** Shows the comments of a cell. Their code is loaded with the first one. */
function Comments({ notebook: n, cell: c }: { notebook: Notebook; cell: CellModel }) {
  const shown = c.comments.value.length > 0 || c.commenting.value
  useEffect(() => {
    if (shown) void import('./comments/thread').then((m) => (n.thread.value = m))
  }, [shown])
  const Thread = n.thread.value?.Thread
  return shown && Thread ? <Thread notebook={n} cell={c} /> : null
}

/**
 * Shows a button to run or stop, the progress, and a grip to drag the cell. The second click of a
 * double click does not stop what the first one began.
 */
function Gutter({ notebook: n, cell: c, box }: { notebook: Notebook; cell: CellModel; box: { current: HTMLElement | null } }) {
  const state = c.state.value
  const started = useRef(-Infinity)
  const drag = dragCell(n, c, box)
  if (c.type.value !== 'code') return <div class="gutter" {...drag}><Fold notebook={n} cell={c} /></div>
  return (
    <div class="gutter" {...drag}>
      {n.readOnly
        ? c.busy && <span class="run busy"><Icon name={state === 'queued' ? 'queue' : 'spinner'} spin={state === 'running'} /></span>
        : c.busy
        ? <button type="button" class="run busy" aria-label={t('Stop')} title={t('Stop (I I)')} onClick={(e) => { if (e.timeStamp - started.current > 500) void n.interrupt() }}><Icon name={state === 'queued' ? 'queue' : 'spinner'} spin={state === 'running'} /><span class="stop-mark"><Icon name="stop" /></span></button>
        : <button type="button" class="run" aria-label={t('Run this cell')} title={t('Run (Ctrl+Enter)')} onClick={(e) => { started.current = e.timeStamp; n.select(c.id); n.run([c]) }}><Icon name="play" /></button>}
      <span class="count num" aria-hidden="true">{state === 'queued' ? '…' : (n.mixed.value ? c.order.value : null) ?? c.count.value ?? ''}</span>
    </div>
  )
}

/** Folds the section below a heading. */
function Fold({ notebook: n, cell: c }: { notebook: Notebook; cell: CellModel }) {
  if (headingLevel(c) === 0 || c.editing.value) return null
  const count = sectionOf(n.cells.value, c).length
  const folded = c.section.value
  const label = folded ? plural(count, 'Show the 1 cell of this section', 'Show the {n} cells of this section') : plural(count, 'Fold the section of 1 cell', 'Fold the section of {n} cells')
  const title = folded ? plural(count, 'Show 1 cell', 'Show {n} cells') : t('Fold the section')
  return (
    <button type="button" class="fold" aria-expanded={!folded} disabled={count === 0} aria-label={label} title={title}
      onClick={() => { n.select(c.id); c.section.value = !folded }}><span aria-hidden="true">{folded ? '▸' : '▾'}</span></button>
  )
}

function Tools({ notebook: n, cell: c, shell }: { notebook: Notebook; cell: CellModel; shell: Shell }) {
  const code = c.type.value === 'code'
  const name = code ? languageName(c.language.value) : c.type.value === 'markdown' ? t('Text') : t('Raw')
  const run = (id: string) => () => {
    n.select(c.id)
    commands()[id]!.run(n, shell)
  }
  return (
    <div class="tools" role="toolbar" aria-label={t('Cell')}>
      <Menu label={t('Language: {name}', { name: code ? name : t('Text') })} class="button quiet language" button={<><i class="dot" style={{ background: code ? facts(c.language.value).colour : 'var(--muted)' }} />{name}</>}>
        {() => (
          <>
            {languages.value.map((l) => (
              <MenuItem key={l.name} checked={code && c.language.value === l.name} onClick={() => n.setLanguage(c, l.name)}><i class="dot" style={{ background: facts(l.name).colour }} />{l.display_name}</MenuItem>
            ))}
            <hr />
            <MenuItem checked={c.type.value === 'markdown'} onClick={run('to-markdown')} keys="M">{t('Text (Markdown)')}</MenuItem>
            <MenuItem checked={c.type.value === 'raw'} onClick={run('to-raw')} keys="R">{t('Raw')}</MenuItem>
          </>
        )}
      </Menu>
      <button type="button" class="button icon quiet wide" aria-label={t('Move up')} title={t('Move up')} onClick={run('move-up')}><Icon name="up" /></button>
      <button type="button" class="button icon quiet wide" aria-label={t('Move down')} title={t('Move down')} onClick={run('move-down')}><Icon name="down" /></button>
      <button type="button" class="button icon quiet wide" aria-label={t('Delete')} title={t('Delete (D D)')} onClick={run('delete')}><Icon name="trash" /></button>
      <Menu label={t('More for this cell')} button={<Icon name="more" />}>
        {() => {
          const all = commands()
          const item = (id: string) => <MenuItem key={id} onClick={run(id)} {...(keysOf(id)[0] ? { keys: keysOf(id)[0]! } : {})} disabled={(id === 'replay' || id === 'download-output') && c.execution === 0}>{all[id]!.name}</MenuItem>
          return (
            <>
              {['insert-above', 'insert-below', 'move-up', 'move-down', 'move-to', 'copy-to'].map(item)}<hr />
              {['cut', 'copy', 'paste-below', 'merge', 'delete'].map(item)}<hr />
              {code && <>{['run-above', 'run-below', 'format'].map(item)}<hr /></>}
              {item('comment')}
              {code && <><hr />{['fold-output', 'scroll-output', 'clear-output', 'download-output', 'replay'].map(item)}</>}
            </>
          )
        }}
      </Menu>
    </div>
  )
}

/** Shows the editor when it is loaded and the cell is near; before that, its text. */
function Source({ notebook: n, cell: c, editors, index }: { notebook: Notebook; cell: CellModel; editors: Editors; index: number }) {
  const at = useRef<HTMLDivElement>(null)
  const [ready, setReady] = useState(false)
  useLayoutEffect(() => {
    let gone = false
    let wanted: { at?: 'start' | 'end' | undefined } | undefined
    let loading = false
    const stops: (() => void)[] = []
    const mount = async () => {
      if (loading) return
      loading = true
      const [{ Editor }, { Types }] = await Promise.all([import('./editor'), import('./code/types')])
      const shared = n.sharing.peek() && await import('./shared/collab')
      if (gone || !at.current) return
      const types = new Types(n, c)
      const editor = new Editor(at.current, c.source.peek(), t('Code of cell {n}', { n: index + 1 }), {
        changed: (s) => (c.source.value = s),
        leave: (by) => {
          const cells = n.cells.peek()
          const to = cells[cells.indexOf(c) + by]
          if (!to) return
          n.select(to.id)
          if (to.type.peek() === 'code' || to.editing.peek()) editors.get(to.id)?.focus(by > 0 ? 'start' : 'end')
          else {
            n.mode.value = 'command'
            n.focus()
          }
        },
        escape: () => {
          n.mode.value = 'command'
          n.focus()
        },
        focused: () => {
          n.select(c.id)
          n.mode.value = 'edit'
        },
        complete: (code, cursor, asked) => types.complete(code, cursor, asked),
        inspect: (code, cursor) => types.inspect(code, cursor),
        signature: (code, cursor) => types.signature(code, cursor),
      }, n.readOnly)
      entry.editor = editor
      stops.push(
        effect(() => {
          void n.sharing.value?.generation.value
          const text = shared && n.sharing.value?.textOf(c)
          if (text) shared.shareEditor(editor, text.text, text.members)
          else editor.set(c.source.value)
        }),
        effect(() => void editor.setLanguage(c.type.value === 'code' ? c.language.value : '')),
        effect(() => editor.setWords(t('Code of cell {n}', { n: index + 1 }))),
        effect(() => editor.setNumbers(lineNumbers.value)),
        effect(() => editor.setFolds(foldMarks.value)),
        effect(() => void editor.setKeys(editorKeys.value)),
        effect(() => editor.setErrorLine(c.errorLine.value)),
        effect(() => editor.setProblems(c.problems.value)),
        effect(() => {
          const to = c.target.value
          if (!to) return
          editor.select(Math.min(to.index, c.source.peek().length), Math.min(to.index, c.source.peek().length))
          c.target.value = undefined
        }),
        effect(() => editor.setReached(n.mode.value === 'edit' && n.active.value === c.id)),
        () => editor.destroy(),
      )
      setReady(true)
      if (!n.readOnly) void import('./code/problems').then((m) => { if (!gone) stops.push(m.watchProblems(n, c)) }, () => {})
      // Unless the user has moved the focus meanwhile, to another cell or outside of the cells.
      const focused = document.activeElement
      if (wanted && n.active.peek() === c.id && n.mode.peek() === 'edit' && (!focused || focused === document.body || focused.closest('.cell'))) editor.focus(n.typedAhead === c.id ? 'end' : wanted.at)
      if (n.typedAhead === c.id) n.typedAhead = ''
    }
    const entry = {
      editor: undefined as Editor | undefined,
      focus(place?: 'start' | 'end') {
        if (entry.editor) entry.editor.focus(place)
        else {
          wanted = { at: place }
          void mount()
        }
      },
    }
    editors.set(c.id, entry)
    const near = new IntersectionObserver((seen) => {
      if (seen.some((s) => s.isIntersecting)) void mount()
    }, { rootMargin: '400px' })
    near.observe(at.current!)
    if (n.active.peek() === c.id && n.mode.peek() === 'edit') n.focus()
    return () => {
      gone = true
      near.disconnect()
      for (const s of stops) s()
      if (editors.get(c.id) === entry) editors.delete(c.id)
    }
  }, [c])
  return (
    <div class="source" ref={at} onClick={() => { if (!ready) { n.select(c.id); n.mode.value = 'edit'; editors.get(c.id)?.focus() } }}>
      {!ready && <pre class="source-static">{c.source.value || ' '}</pre>}
    </div>
  )
}

/** Lists the first problems of the code. A click goes to the place. */
function Problems({ notebook: n, cell: c }: { notebook: Notebook; cell: CellModel }) {
  const all = c.problems.value
  const more = all.length - 3
  return (
    <div class="problems" role="group" aria-label={t('Problems')}>
      {all.slice(0, 3).map((p) => (
        <button key={`${p.line}:${p.column}:${p.message}`} type="button" class={p.severity} title={t('Go to the place')} onClick={() => {
          n.select(c.id)
          n.mode.value = 'edit'
          c.target.value = { index: indexOf(c.source.peek(), p.line, p.column) }
          n.focus()
        }}><Icon name="warning" /><span>{p === all[2] && more > 0 ? plural(more, 'Line {line}: {message}, and 1 more', 'Line {line}: {message}, and {n} more', { line: p.line, message: p.message }) : t('Line {line}: {message}', { line: p.line, message: p.message })}</span></button>
      ))}
    </div>
  )
}

/** Shows a Markdown cell as a page. */
function Rendered({ notebook: n, cell: c }: { notebook: Notebook; cell: CellModel }) {
  const at = useRef<HTMLDivElement>(null)
  useSignalEffect(() => {
    const source = c.source.value
    void import('./markdown').then(({ markdown }) => {
      if (at.current && source === c.source.peek()) at.current.replaceChildren(markdown(source, c.json.attachments))
    })
  })
  const edit = () => {
    if (n.readOnly || appView.peek()) return
    n.select(c.id)
    c.editing.value = true
    n.mode.value = 'edit'
    n.focus()
  }
  return (
    <div class="rendered" onDblClick={edit}>
      <div ref={at}>{c.source.value.trim() ? <pre class="source-static">{c.source.value}</pre> : null}</div>
      {c.section.value && n.cells.value.length > 1 && <button type="button" class="button quiet folded" onClick={() => (c.section.value = false)}>{plural(sectionOf(n.cells.value, c).length, 'Show 1 folded cell', 'Show {n} folded cells')}</button>}
      {!c.source.value.trim() && <p class="muted">{n.readOnly ? t('Empty text.') : t('Empty text. Press Enter to write.')}</p>}
    </div>
  )
}

function Output({ notebook: n, cell: c, index }: { notebook: Notebook; cell: CellModel; index: number }) {
  const at = useRef<HTMLDivElement>(null)
  const folded = c.folded.value
  useEffect(() => {
    if (!folded) at.current?.append(c.output.el)
  }, [c, folded])
  return (
    <>
      {folded
        ? <button type="button" class="button quiet folded" onClick={() => (c.folded.value = false)}>{t('Show the output')}</button>
        : <div ref={at} class="output-box" role="region" aria-label={t('Output of cell {n}', { n: index + 1 })} />}
      <Status cell={c} notebook={n} />
    </>
  )
}

/** Shows the state of the execution, and how long it took. */
function Status({ cell: c }: { cell: CellModel; notebook: Notebook }) {
  const state = c.state.value
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    if (state !== 'running') return
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 100)
    return () => clearInterval(timer)
  }, [state])
  if (state === 'none') return null
  const time = duration(state === 'running' ? Math.max(0, now - c.started.value) : c.elapsed.value)
  const text = {
    queued: t('Queued'), running: t('Running {time}', { time }), ok: t('Done in {time}', { time }), error: t('Failed after {time}', { time }),
    aborted: t('Not run'), lost: t('Lost|a cell'),
  }[state]
  return <div class={`cell-status ${state}`}><Icon name={({ ok: 'check', error: 'warning', aborted: 'close', lost: 'warning', queued: 'queue', running: 'spinner' } as const)[state]} spin={state === 'running'} /><span class="num">{text}</span></div>
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${number(ms / 1000, { minimumFractionDigits: 1, maximumFractionDigits: 1 })} s`
  const s = Math.trunc(ms / 1000)
  if (s < 3600) return `${Math.trunc(s / 60)} min ${s % 60} s`
  return `${Math.trunc(s / 3600)} h ${Math.trunc((s % 3600) / 60)} min`
}
