import { useMemo, useState } from 'preact/hooks'
import { number, plural, t } from '../../language/texts'
import { isNumeric, parseTable, sorted } from './csv'

/** The number of rows that are read, and that are shown at a time. */
const maxRows = 100_000
const page = 200

/** Shows the values of a file as a table that can be sorted and filtered. */
export function FileTable({ text, separator }: { text: string; separator: string }) {
  const table = useMemo(() => parseTable(text, separator, maxRows), [text])
  const numeric = useMemo(() => table.head.map((_, i) => isNumeric(table.rows, i)), [table])
  const [by, setBy] = useState<{ column: number; down: boolean }>()
  const [filter, setFilter] = useState('')
  const [shown, setShown] = useState(page)
  const words = filter.trim().toLowerCase()
  const found = useMemo(() => words ? table.rows.filter((r) => r.some((v) => v.toLowerCase().includes(words))) : table.rows, [table, words])
  const rows = useMemo(() => by ? sorted(found, by.column, by.down) : found, [found, by])
  const columns = plural(table.head.length, '1 column', '{n} columns')
  const most = { all: number(table.rows.length), columns }
  const count = words ? plural(found.length, '1 row of {all}, {columns}', '{n} rows of {all}, {columns}', most) : plural(found.length, '1 row, {columns}', '{n} rows, {columns}', most)
  const left = Math.min(page, rows.length - shown)
  return (
    <div class="file-table">
      <div class="row">
        <input class="field" type="search" aria-label={t('Filter rows')} placeholder={t('Filter rows')} value={filter} onInput={(e) => { setFilter(e.currentTarget.value); setShown(page) }} />
        <span class="muted num" role="status">{table.more ? t('{count}. The file has more', { count }) : count}</span>
      </div>
      <div class="table-box" role="region" aria-label={t('Table')} tabIndex={0}>
        <table>
          <thead><tr>{table.head.map((name, i) => (
            <th key={i} scope="col" class={numeric[i] ? 'num' : undefined} aria-sort={by?.column === i ? (by.down ? 'descending' : 'ascending') : 'none'}>
              <button type="button" title={t('Sort by {name}', { name })} onClick={() => setBy(by?.column !== i ? { column: i, down: false } : by.down ? undefined : { column: i, down: true })}>
                {name || t('(no name)')}<span aria-hidden="true">{by?.column === i ? (by.down ? ' ↓' : ' ↑') : ''}</span>
              </button>
            </th>
          ))}</tr></thead>
          <tbody>{rows.slice(0, shown).map((r, k) => <tr key={k}>{table.head.map((_, i) => <td key={i} class={numeric[i] ? 'num' : undefined}>{r[i] ?? ''}</td>)}</tr>)}</tbody>
        </table>
        {rows.length > shown && <button type="button" class="button quiet" onClick={() => setShown(shown + page)}>{plural(left, 'Show 1 more row', 'Show {n} more rows')}</button>}
      </div>
    </div>
  )
}
