import { useEffect, useState } from 'preact/hooks'
import type { NotebookVersion } from '@sandgate/client/base'
import { plural, t } from '../../language/texts'
import { languageName } from '../../server'
import { explain } from '../../ui/again'
import { Dialog } from '../../ui/dialog'
import { CellModel } from '../cell'
import { parseNotebook, type CellJSON } from '../ipynb'
import type { Notebook } from '../notebook'
import { textOf } from '../stored'
import { compareCells, type CellChange } from './compare'
import type { Line } from './lines'
import { nameOf } from './when'

/** Stands for the notebook of the page in the choice of versions. */
export const now = 'now'

interface Props {
  notebook: Notebook
  stored: string
  versions: NotebookVersion[]
  from: string
  to: string
  close: () => void
  restore?: (v: NotebookVersion) => void
}

/** Compares two versions cell by cell. */
export function Difference({ notebook: n, stored, versions, restore, close, ...initial }: Props) {
  const [from, setFrom] = useState(initial.from)
  const [to, setTo] = useState(initial.to)
  const [cells, setCells] = useState<CellChange[]>()
  const [error, setError] = useState<Error>()
  useEffect(() => {
    let here = true
    setCells(undefined)
    setError(undefined)
    const read = async (id: string): Promise<CellJSON[]> => (id === now ? n.toJSON() : parseNotebook(await textOf(stored, id))).cells
    Promise.all([read(from), read(to)]).then(([a, b]) => here && setCells(compareCells(a, b, (c) => labelOf(c, n.language.peek()))), (e: Error) => here && setError(e))
    return () => {
      here = false
    }
  }, [from, to])
  const choice = (label: string, value: string, set: (v: string) => void) => (
    <label>{label}
      <select class="field" value={value} onChange={(e) => set(e.currentTarget.value)}>
        <option value={now}>{t('The notebook now')}</option>
        {versions.map((v) => <option key={v.id} value={v.id}>{nameOf(v)}{v.name ? ` (${nameOf({ ...v, name: '' })})` : ''}</option>)}
      </select>
    </label>
  )
  const wanted = versions.find((v) => v.id === from)
  return (
    <Dialog label={t('Compare versions')} class="difference" onClose={close}>
      <div class="dialog">
        <h2>{t('Compare versions')}</h2>
        <div class="sides">{choice(t('From|a version'), from, setFrom)}{choice(t('To|a version'), to, setTo)}</div>
        <p class="muted" role="status">{cells ? sum(cells) : error ? '' : t('Comparing…')}</p>
        {error && <p class="bad" role="alert">{t('The versions were not compared.')} {explain(error)}</p>}
        {cells && <div class="cell-changes" role="region" aria-label={t('Changed cells')} tabIndex={0}>{grouped(cells).map((c, i) => typeof c === 'number'
          ? <p key={i} class="muted unchanged">{plural(c, '1 unchanged cell', '{n} unchanged cells')}</p>
          : <Change key={i} cell={c} />)}</div>}
        <div class="actions">
          {restore && wanted && <button type="button" class="button" onClick={() => restore(wanted)}>{t('Restore “{version}”…', { version: nameOf(wanted) })}</button>}
          <button type="button" class="button primary" onClick={close}>{t('Done')}</button>
        </div>
      </div>
    </Dialog>
  )
}

/** The kind of a cell, and its language. */
function labelOf(c: CellJSON, main: string): string {
  if (c.cell_type !== 'code') return c.cell_type === 'markdown' ? t('Text') : t('Raw')
  return languageName(new CellModel({ ...c, outputs: [] }, main).language.peek())
}

function sum(cells: CellChange[]): string {
  const count = (kind: CellChange['kind']) => cells.filter((c) => c.kind === kind).length
  const [changed, added, removed, same] = [count('changed'), count('added'), count('removed'), count('same')]
  if (changed + added + removed === 0) return t('Nothing differs.')
  const changes = [
    changed && plural(changed, '{n} changed', '{n} changed'), added && plural(added, '{n} added', '{n} added'),
    removed && plural(removed, '{n} removed', '{n} removed'), plural(same, '{n} unchanged', '{n} unchanged'),
  ]
  return t('Cells: {changes}.', { changes: changes.filter(Boolean).join(', ') })
}

/** Joins unchanged cells to their number. */
function grouped(cells: CellChange[]): (CellChange | number)[] {
  const out: (CellChange | number)[] = []
  for (const c of cells) {
    if (c.kind !== 'same') out.push(c)
    else if (typeof out.at(-1) === 'number') out.push((out.pop() as number) + 1)
    else out.push(1)
  }
  return out
}

function Change({ cell: c }: { cell: CellChange }) {
  const changes = [
    c.kind !== 'changed' || c.lines.length > 0 ? kindOf(c.kind) : '',
    c.moved && t('moved|a cell'),
    c.labelBefore !== c.label && t('{before} became {after}', { before: c.labelBefore, after: c.label }),
    c.outputs && (c.lines.length ? t('the output differs too') : t('only the output differs')),
  ].filter(Boolean).join(', ')
  return (
    <section class={`cell-change ${c.kind}`}>
      <h3>{t('Cell {number}, {kind}: {changes}', { number: c.number, kind: c.label, changes })}</h3>
      {c.lines.length > 0 && <pre>{c.lines.map((l, i) => <Row key={i} line={l} />)}</pre>}
    </section>
  )
}

function kindOf(kind: CellChange['kind']): string {
  switch (kind) {
    case 'changed': return t('changed|part of a notebook')
    case 'added': return t('added|part of a notebook')
    case 'removed': return t('removed|part of a notebook')
    case 'same': return ''
  }
}

function Row({ line: l }: { line: Line }) {
  if (l.kind === 'gap') return <span class="line gap">{plural(l.count, '1 equal line', '{n} equal lines')}</span>
  const text = l.mark ? <>{l.text.slice(0, l.mark[0])}<mark>{l.text.slice(...l.mark)}</mark>{l.text.slice(l.mark[1])}</> : l.text || ' '
  if (l.kind === 'same') return <span class="line"><i aria-hidden="true"> </i><span>{text}</span></span>
  const Tag = l.kind === 'added' ? 'ins' : 'del'
  return <Tag class="line"><i aria-hidden="true">{l.kind === 'added' ? '+' : '−'}</i><span class="sr">{kindOf(l.kind)}: </span><span>{text}</span></Tag>
}
