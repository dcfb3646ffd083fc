import type { Signal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { rich, t } from '../language/texts'
import { languages } from '../server'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { appView } from './appview'
import { useArrange } from './arrange'
import { CellView } from './cell-view'
import type { View } from './desk'
import { facts } from './languages'
import type { Notebook } from './notebook'

interface Props {
  view: View
  /** The notebook of the page that has the keys. Only there the focus moves by itself. */
  current: Signal<View>
  /** It is the page's own notebook, and not one beside it. */
  main?: boolean
}

/** The cells of a notebook. It keeps the page's focus as in the model. */
export function Cells({ view, current, main = false }: Props) {
  const { notebook: n, editors, shell } = view
  const box = useRef<HTMLElement>(null)
  // Moves the focus once, at once or when the cell appears in the page. If the user has clicked
  // elsewhere meanwhile, that focus stays.
  const owed = useRef(false)
  n.element = (id) => box.current?.querySelector<HTMLElement>(`[data-cell="${CSS.escape(id)}"]`) ?? null
  n.focus = () => {
    owed.current = false
    if (current.peek() !== view) return
    const el = n.element(n.active.peek())
    const editor = editors.get(n.active.peek())
    owed.current = !el || (n.mode.peek() === 'edit' && !editor)
    if (owed.current) return
    if (n.mode.peek() === 'command' || !editor!.editor) el!.focus({ preventScroll: true })
    if (n.mode.peek() === 'edit') editor!.focus()
    el!.scrollIntoView({ block: 'nearest' })
  }
  useLayoutEffect(() => n.focus(), [n])
  // Drawing moves cells that others have moved. An editor in such a cell would lose the focus or the
  // cursor.
  const focused = document.activeElement
  const writing = box.current?.contains(focused) && focused!.closest('.cm-editor') ? editors.get(n.active.peek())?.editor : undefined
  const cursor = writing?.selection
  const place = getSelection()?.anchorNode
  useLayoutEffect(() => {
    if (owed.current) n.focus()
    else if (cursor && focused?.isConnected && (focused !== document.activeElement || place !== getSelection()?.anchorNode)) writing!.restore(cursor)
  })
  const enter = () => {
    current.value = view
    n.mode.value = 'command'
    n.focus()
  }
  const cells = n.cells.value
  const untouched = cells.length === 1 && cells[0]!.state.value === 'none' && (n.fresh || cells[0]!.source.value === '')
  const Box = main ? 'main' : 'section'
  return (
    <Box ref={box} class="cells" aria-label={t('Notebook {name}', { name: n.path })} {...useArrange(n, box, enter)}>
      {untouched && n.readOnly && <p class="welcome muted">{t('This notebook is empty. Cells and their output appear here when they are saved.')}</p>}
      {untouched && main && !n.readOnly && <Welcome notebook={n} />}
      {cells.map((c, i) => <CellView key={c.id} notebook={n} cell={c} index={i} editors={editors} shell={shell} />)}
      {!n.readOnly && !appView.value && <AddBar notebook={n} />}
    </Box>
  )
}

/** Loads the components for a session that has ended, or a notebook that cannot be opened. */
export function useGone(wanted: boolean): typeof import('./gone') | undefined {
  const [gone, setGone] = useState<typeof import('./gone')>()
  useEffect(() => {
    if (wanted) void import('./gone').then(setGone)
  }, [wanted])
  return gone
}

/**
 * Keeps what was typed last when the page is closed, and shows changes of others while the user is
 * active.
 */
export function useCare(n: Notebook): void {
  useEffect(() => {
    const keep = () => n.keepDraft()
    const stir = () => n.stir()
    const signs = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'focus'] as const
    addEventListener('pagehide', keep)
    for (const s of signs) addEventListener(s, stir, { passive: true, capture: true })
    return () => {
      removeEventListener('pagehide', keep)
      for (const s of signs) removeEventListener(s, stir, { capture: true })
    }
  }, [n])
}

function AddBar({ notebook: n }: { notebook: Notebook }) {
  const add = (type: 'code' | 'markdown', language?: string) => {
    n.insert(n.cells.peek().length, { cell_type: type }, language)
    n.mode.value = 'edit'
    n.focus()
  }
  return (
    <div class="add-bar">
      <button type="button" class="button quiet" onClick={() => add('code')}><Icon name="add" />{t('Code')}</button>
      <button type="button" class="button quiet" onClick={() => add('markdown')}><Icon name="add" />{t('Text')}</button>
      <Menu label={t('Other language')} class="button quiet" button={<><Icon name="add" />{t('Other language')}</>}>
        {() => languages.value.map((l) => <MenuItem key={l.name} onClick={() => add('code', l.name)}><i class="dot" style={{ background: facts(l.name).colour }} />{l.display_name}</MenuItem>)}
      </Menu>
    </div>
  )
}

function Welcome({ notebook: n }: { notebook: Notebook }) {
  const keys = { shift: <kbd>Shift</kbd>, enter: <kbd>Enter</kbd>, esc: <kbd>Esc</kbd>, h: <kbd>H</kbd> }
  return (
    <div class="welcome">
      <h1>{n.session.info.name || t('A new notebook')}</h1>
      <p class="muted">{rich('Write code and press {shift} {enter}. Cells of all languages share one machine and its files. Everything stays when you close this page, and your code keeps running. {esc} {h} shows all keys.', keys)}</p>
    </div>
  )
}
