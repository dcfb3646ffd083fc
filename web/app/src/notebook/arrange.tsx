import { useMemo } from 'preact/hooks'
import { t } from '../language/texts'
import { Icon } from '../ui/icon'
import { failed } from '../ui/toast'
import type { CellModel } from './cell'
import type { Notebook } from './notebook'

const dragged = 'application/x-sandgate-cell'

/** Buttons above a cell that insert another one. They are for the pointer: keys have A and B. */
export function InsertBar({ notebook: n, index }: { notebook: Notebook; index: number }) {
  const add = (cell_type: 'code' | 'markdown') => {
    const cells = n.cells.peek()
    const near = [cells[index - 1], cells[index]].find((c) => c?.type.peek() === 'code')
    n.insert(index, { cell_type }, near?.language.peek())
    n.mode.value = 'edit'
    n.focus()
  }
  return (
    <div class="insert">
      <button type="button" tabIndex={-1} aria-label={t('Insert code before cell {n}', { n: index + 1 })} title={t('Insert code here')} onClick={() => add('code')}><Icon name="add" />{t('Code')}</button>
      <button type="button" tabIndex={-1} aria-label={t('Insert text before cell {n}', { n: index + 1 })} title={t('Insert text here')} onClick={() => add('markdown')}><Icon name="add" />{t('Text')}</button>
    </div>
  )
}

/** The cells that are dragged, and their notebook. */
let held: { notebook: Notebook; cells: CellModel[] } | undefined

/** Lets a cell be dragged by its grip, with the other cells of the selection that it is in. */
export function dragCell(n: Notebook, c: CellModel, picture: { current: HTMLElement | null }) {
  return {
    draggable: !n.readOnly,
    title: n.readOnly ? undefined : t('Drag to move the cell, with Ctrl to copy it'),
    onDragStart(e: DragEvent) {
      const all = n.selected.peek()
      held = { notebook: n, cells: all.includes(c) ? all : [c] }
      e.dataTransfer!.setData(dragged, 'cells') // Firefox drags nothing that is empty
      e.dataTransfer!.effectAllowed = 'copyMove'
      if (picture.current) e.dataTransfer!.setDragImage(picture.current, 20, 20)
    },
    onDragEnd: () => (held = undefined),
    // A press on a selected cell may begin a drag of all of them.
    onClick: (e: MouseEvent) => { if (!(e.target as Element).closest('button') && !e.shiftKey) n.select(c.id) },
  }
}

const wantsCopy = (e: DragEvent): boolean => e.ctrlKey || e.altKey

/**
 * Handles cells that are dragged over those of a notebook, its own or others: a line shows where they
 * will be. enter gives the notebook the keys.
 */
export function useArrange(n: Notebook, main: { current: HTMLElement | null }, enter: () => void) {
  return useMemo(() => {
    let shown: HTMLElement | undefined
    const mark = (el?: HTMLElement, where?: 'before' | 'after') => {
      if (shown !== el) delete shown?.dataset.drop
      shown = el
      if (el && where) el.dataset.drop = where
    }
    const all = () => [...main.current!.querySelectorAll<HTMLElement>('.cell:not([hidden])')]
    const under = (e: DragEvent): HTMLElement | undefined => all().find((el) => {
      const { top, height } = el.getBoundingClientRect()
      return e.clientY < top + height / 2
    })
    return {
      onDragOver(e: DragEvent) {
        if (!held || n.readOnly || !e.dataTransfer?.types.includes(dragged)) return
        e.preventDefault()
        e.dataTransfer.dropEffect = wantsCopy(e) ? 'copy' : 'move'
        const over = under(e)
        if (over) mark(over, 'before')
        else mark(all().at(-1), 'after')
      },
      onDragLeave(e: DragEvent) {
        if (!main.current!.contains(e.relatedTarget as Node | null)) mark()
      },
      onDrop(e: DragEvent) {
        mark()
        const from = held
        if (!from || n.readOnly || !e.dataTransfer?.types.includes(dragged)) return
        e.preventDefault()
        const [before, copy] = [under(e)?.dataset.cell, wantsCopy(e)]
        if (from.notebook === n && !copy) return n.moveTo(from.cells, before)
        void import('./transfer').then((m) => { if (m.transfer(from.notebook, from.cells, n, before, copy)) enter() }, (error: unknown) => failed(t('The cells were not moved'), error))
      },
    }
  }, [n])
}
