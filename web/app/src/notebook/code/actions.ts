// Actions of an editor that need a kernel: format, go to a definition, rename.
import { batch } from '@preact/signals'
import type { CellModel } from '../cell'
import type { Shell } from '../commands'
import type { Notebook } from '../notebook'
import { number, plural, t } from '../../language/texts'
import { ask as question } from '../../ui/dialog'
import { failed, toast } from '../../ui/toast'
import { ask, cellsOf, indexOf, type Place } from './ask'

const notHere = () => t('Run a cell first: the running kernel answers this')

/** Formats the code of cells, one after the other. */
export async function format(n: Notebook, which: CellModel[]): Promise<void> {
  try {
    let changed = 0
    for (const c of which) {
      const before = c.source.peek()
      if (c.type.peek() !== 'code' || before.trim() === '') continue
      const found = await ask<{ code: string }>(n, c, 'format')
      if (!found) return toast(n.kernelOf(c).kernel ? t('The kernel of this language formats no code') : notHere())
      // Unless it was edited meanwhile.
      if (c.source.peek() !== before || found.code === before) continue
      c.source.value = found.code
      changed++
    }
    n.said.value = changed ? t('The code is formatted') : t('The code was formatted already')
  } catch (e) {
    failed(t('The code was not formatted'), e)
  }
}

/** Goes to where the name at the cursor is defined: in a cell, or in a file. */
export async function goToDefinition(n: Notebook, c: CellModel, cursor: number, shell: Shell): Promise<void> {
  try {
    const found = await ask<Partial<Place> & { file?: string }>(n, c, 'definition', cursor)
    if (!found) return toast(n.kernelOf(c).kernel ? t('No definition was found') : notHere())
    if (found.file !== undefined) return shell.file(found.file, found.line ?? 1)
    const to = cellsOf(n, c.language.peek())[found.cell ?? -1]
    if (!to) return
    n.select(to.id)
    n.mode.value = 'edit'
    to.target.value = { index: indexOf(to.source.peek(), found.line ?? 1, found.column ?? 0) }
    n.focus()
  } catch (e) {
    failed(t('The definition was not found'), e)
  }
}

/** Renames the variable at the cursor in all cells, after the user has given its new name. */
export async function rename(n: Notebook, c: CellModel, cursor: number): Promise<void> {
  interface Found { name: string; places: Place[] }
  try {
    const found = await ask<Found>(n, c, 'names', cursor)
    if (!found) return toast(n.kernelOf(c).kernel ? t('There is no name at the cursor that can be changed') : notHere())
    const text = placesOf(found.places)
    const other = (await question({ title: t('Rename {name}', { name: found.name }), text, value: found.name, yes: t('Rename') }))?.trim()
    if (!other || other === found.name) return
    // The cells may have changed while the dialog was open.
    const now = await ask<Found>(n, c, 'names', cursor, { new: other })
    if (!now || now.name !== found.name) return toast(t('The code has changed meanwhile. Nothing was renamed'))
    const cells = cellsOf(n, c.language.peek())
    batch(() => {
      for (const [i, cell] of cells.entries()) {
        let source = cell.source.peek()
        for (const p of now.places.filter((x) => x.cell === i).reverse()) {
          const at = indexOf(source, p.line, p.column)
          source = source.slice(0, at) + (p.before ?? '') + other + (p.after ?? '') + source.slice(at + now.name.length)
        }
        cell.source.value = source
      }
    })
    n.said.value = t('{name} is {other} now', { name: found.name, other })
  } catch (e) {
    failed(t('The name was not changed'), e)
  }
}

function placesOf(places: Place[]): string {
  const cells = new Set(places.map((p) => p.cell)).size
  if (cells === 1) return plural(places.length, 'It is at 1 place in 1 cell.', 'It is at {n} places in 1 cell.')
  return t('It is at {places} places in {cells} cells.', { places: number(places.length), cells: number(cells) })
}
