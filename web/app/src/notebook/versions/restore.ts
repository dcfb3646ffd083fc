import { batch, effect } from '@preact/signals'
import { t } from '../../language/texts'
import { CellModel } from '../cell'
import { parseNotebook, type CellJSON, type NotebookJSON } from '../ipynb'
import { languageOf } from '../languages'
import type { Notebook } from '../notebook'
import { closeVersion, textOf, versionsOf } from '../stored'

/** How often a restore begins again because somebody edits meanwhile. */
const maxTries = 3

/**
 * Replaces the cells by those of a stored version. The state before it becomes a version first, or
 * nothing is restored.
 */
export async function restore(n: Notebook, stored: string, version: string): Promise<void> {
  const target = parseNotebook(await textOf(stored, version))
  for (let tries = 1; ; tries++) {
    await save(n)
    const present = sources(n.toJSON().cells)
    const newest = (await versionsOf(stored))[0]
    const kept = newest && sources(parseNotebook(await textOf(stored, newest.id)).cells)
    if (newest && kept === present) {
      await closeVersion(stored, newest)
      if (sources(n.toJSON().cells) === present) break
    }
    if (tries === maxTries) {
      throw new Error(kept === present
        ? t('Somebody edits the notebook at the moment. Nothing was restored')
        : t('The server has not stored the present state as a version, so nothing was restored. The notebook may be larger than 8 MiB, or your space may be full'))
    }
  }
  apply(n, target)
  await save(n)
}

/** Returns a text that is equal for equal sources; outputs change while a cell runs. */
const sources = (cells: CellJSON[]): string => JSON.stringify(cells.map((c) => [c.id, c.cell_type, c.source]))

/** Saves the notebook, and waits for a save that another change has begun. */
export async function save(n: Notebook): Promise<void> {
  await n.save()
  await new Promise<void>((resolve) => {
    const stop = effect(() => {
      if (n.saved.value === 'saving') return
      queueMicrotask(() => {
        stop()
        resolve()
      })
    })
  })
  if (n.saved.peek() === 'failed') throw new Error(t('The notebook could not be saved'))
}

/** Shows the cells of another version. Cells that run keep their outputs. */
function apply(n: Notebook, target: NotebookJSON): void {
  const spec = target.metadata.kernelspec as { name?: unknown; language?: unknown } | undefined
  const main = languageOf(spec?.name) ?? languageOf(spec?.language) ?? n.language.peek()
  batch(() => {
    n.language.value = main
    const next = target.cells.map((j) => {
      const fresh = new CellModel(j, main)
      const c = n.find(j.id)
      if (!c) return fresh
      c.type.value = j.cell_type
      c.source.value = j.source
      c.language.value = fresh.language.peek()
      c.folded.value = fresh.folded.peek()
      c.editing.value = false
      Object.assign(c.json, { attachments: undefined }, fresh.json)
      if (!c.busy) {
        c.output.clear()
        c.output.load(j.outputs)
        c.count.value = j.execution_count
        c.state.value = 'none'
        c.execution = 0
      }
      return c
    })
    n.show(next.length ? next : [new CellModel({}, main)])
  })
  for (const c of n.cells.peek()) n.touch(c)
}
