// Cells that move from one open notebook to another, or are copied there.
import { plural, t } from '../language/texts'
import { autosave } from '../settings'
import { toast } from '../ui/toast'
import { CellModel } from './cell'
import type { Move, Notebook } from './notebook'

/**
 * Moves cells to another notebook of the page, or copies them, before one of its cells or to its end.
 * They get new ids, and keep their outputs. Comments move with a cell, and are not copied. Returns
 * false, with a message, if the cells stay.
 */
export function transfer(from: Notebook, cells: CellModel[], to: Notebook, before: string | undefined, copy: boolean): boolean {
  if (!copy && cells.some((c) => c.busy)) {
    toast(t('A cell that runs cannot be moved. Stop it first, or copy it.'))
    return false
  }
  const made = cells.map((c) => renewed(c, from.language.peek(), !copy))
  const move = copy ? undefined : new Moved(from, cells, to, made)
  to.place(made, before, move)
  if (move) {
    // The cells are in one file or in both, never in none.
    if (autosave.peek()) void to.save()
    from.remove(cells, move)
  }
  from.said.value = copy ? plural(made.length, '1 cell copied to {name}', '{n} cells copied to {name}', { name: to.path }) : plural(made.length, '1 cell moved to {name}', '{n} cells moved to {name}', { name: to.path })
  return true
}

/** Returns a copy of a cell with a new id. main is the language of its notebook. */
function renewed(c: CellModel, main: string, comments: boolean): CellModel {
  const { id: _, ...json } = c.toJSON(main)
  if (!comments) delete json.metadata.sandgate
  const made = new CellModel(json, c.language.peek())
  made.editing.value = c.editing.peek()
  if (!c.busy) ran(c, made)
  return made
}

/** Takes over the facts of the last execution. Both notebooks use the same kernels. */
function ran(from: CellModel, to: CellModel): void {
  to.count.value = from.count.peek()
  to.state.value = from.state.peek()
  to.started.value = from.started.peek()
  to.elapsed.value = from.elapsed.peek()
  to.execution = from.execution
  to.channel = from.channel
}

/** A move, which is undone and repeated in both notebooks at once. */
class Moved implements Move {
  readonly #from: Notebook
  readonly #to: Notebook
  readonly #before: CellModel[]
  readonly #after: CellModel[]

  constructor(from: Notebook, before: CellModel[], to: Notebook, after: CellModel[]) {
    this.#from = from
    this.#before = before
    this.#to = to
    this.#after = after
  }

  follow(n: Notebook, undo: boolean): 'yes' | 'later' | 'never' {
    const [now, then] = undo ? [this.#after, this.#before] : [this.#before, this.#after]
    if (now.some((c) => c.busy)) {
      toast(t('A cell that runs cannot be moved. Stop it first, or copy it.'))
      return 'later'
    }
    const [leaves, gets] = undo ? [this.#to, this.#from] : [this.#from, this.#to]
    const other = n === this.#from ? this.#to : this.#from
    if (!other.revertMove(this, undo) && n === leaves) {
      toast(t('The cells stay here: {name} is closed, or its steps were undone.', { name: gets.path }))
      return 'never'
    }
    now.forEach((c, i) => carry(c, then[i]!)) // with what has changed since
    return 'yes'
  }
}

function carry(from: CellModel, to: CellModel): void {
  to.type.value = from.type.peek()
  to.language.value = from.language.peek()
  to.source.value = from.source.peek()
  to.comments.value = from.comments.peek()
  if (from.execution === to.execution && from.count.peek() === to.count.peek()) return
  to.output.clear()
  to.output.load(from.output.toJSON())
  ran(from, to)
}
