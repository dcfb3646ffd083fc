import { useMemo } from 'preact/hooks'
import { t } from '../language/texts'
import { Icon } from '../ui/icon'
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

/** Starts to drag a cell with its gutter. */
export function dragCell(e: DragEvent, id: string, picture: HTMLElement | null): void {
  e.dataTransfer!.setData(dragged, id)
  e.dataTransfer!.effectAllowed = 'move'
  if (picture) e.dataTransfer!.setDragImage(picture, 20, 20)
}

/** Handles a cell that is dragged over the others: a line shows where it will be. */
export function useArrange(n: Notebook, main: { current: HTMLElement | null }) {
  return useMemo(() => {
    let shown: HTMLElement | undefined
    const mark = (el?: HTMLElement, where?: 'before' | 'after') => {
      if (shown !== el) delete shown?.dataset.drop
      shown = el
      if (el && where) el.dataset.drop = where
    }
    const under = (e: DragEvent): HTMLElement | undefined => [...main.current!.querySelectorAll<HTMLElement>('.cell:not([hidden])')].find((el) => {
      const { top, height } = el.getBoundingClientRect()
      return e.clientY < top + height / 2
    })
    return {
      onDragOver(e: DragEvent) {
        if (!e.dataTransfer?.types.includes(dragged)) return
        e.preventDefault()
        const over = under(e)
        const last = [...main.current!.querySelectorAll<HTMLElement>('.cell:not([hidden])')].at(-1)
        if (over) mark(over, 'before')
        else mark(last, 'after')
      },
      onDragLeave(e: DragEvent) {
        if (!main.current!.contains(e.relatedTarget as Node | null)) mark()
      },
      onDrop(e: DragEvent) {
        mark()
        const id = e.dataTransfer?.getData(dragged)
        if (!id) return
        e.preventDefault()
        n.moveTo(id, under(e)?.id.slice(5))
      },
    }
  }, [n])
}
