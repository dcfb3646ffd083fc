import type { CellModel } from './cell'

/** Returns the level of the heading that a text cell begins with; 0 for none. */
export function headingLevel(c: CellModel): number {
  if (c.type.value !== 'markdown') return 0
  return /^\s*(#{1,6})\s+\S/.exec(c.source.value)?.[1]?.length ?? 0
}

/** Returns the cells below a heading, up to the next heading of the same level or a higher one. */
export function sectionOf(cells: readonly CellModel[], heading: CellModel): CellModel[] {
  const level = headingLevel(heading)
  const from = cells.indexOf(heading) + 1
  if (level === 0 || from === 0) return []
  let to = from
  while (to < cells.length && (headingLevel(cells[to]!) || 7) > level) to++
  return cells.slice(from, to)
}

/** Returns the cells that folded headings hide. */
export function hiddenCells(cells: readonly CellModel[]): ReadonlySet<CellModel> {
  const hidden = new Set<CellModel>()
  for (const c of cells) if (c.section.value) for (const x of sectionOf(cells, c)) hidden.add(x)
  return hidden
}
