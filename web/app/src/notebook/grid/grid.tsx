import { render } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { language, number, plural, t } from '../../language/texts'
import { save } from '../rich'
import { Icon } from '../../ui/icon'
import { Menu, MenuItem } from '../../ui/menu'
import { failed, toast } from '../../ui/toast'
import { ColumnPanel } from './column'
import { LocalSource } from './local'
import { recordsTable, resourceTable } from './records'
import { Rows, type Place } from './rows'
import { Gone, KernelSource, tableForm, type Ask, type Field, type Filter, type Format, type Source, type View } from './source'
import './grid.css'

/** The fields that are copied at most. */
const maxCopied = 200_000
/** The rows of one request when fields are copied. */
const step = 500

/** Returns the grid of a table that a kernel holds; undefined for another value. */
export function kernelGrid(value: unknown, ask: Ask): HTMLElement | undefined {
  const form = tableForm(value)
  if (!form) return undefined
  const first = new LocalSource(form.columns, form.first)
  const kernel = new KernelSource(form, ask)
  return shown(form.whole ? first : kernel, form.whole ? undefined : { source: first, rows: form.rows }, form.parquet ? kernel : undefined)
}

/** Returns the grid of data that is in an output as a whole; undefined if it is no table. */
export function dataGrid(value: unknown): HTMLElement | undefined {
  const source = resourceTable(value) ?? recordsTable(value)
  return source && shown(source)
}

function shown(source: Source, later?: { source: Source; rows: number }, kernel?: Source): HTMLElement {
  const el = document.createElement('div')
  el.className = 'data-grid'
  render(<Grid first={source} later={later} kernel={kernel} />, el)
  return Object.assign(el, { dispose: () => render(null, el) })
}

interface Props {
  first: Source
  /** Shown when the kernel does not hold the table any more: its first rows. */
  later: { source: Source; rows: number } | undefined
  /** Writes files of formats that the page cannot write. */
  kernel: Source | undefined
}

function Grid({ first, later, kernel }: Props) {
  const [source, setSource] = useState(first)
  const [view, setView] = useState<View>({ filters: [] })
  const [total, setTotal] = useState(first.rows)
  const [panel, setPanel] = useState<{ column: number; at: DOMRect }>()
  const [value, setValue] = useState<string>()
  const [chosen, setChosen] = useState(1)
  const [progress, setProgress] = useState<string>()
  const stop = useRef(false)
  const place = useRef<HTMLDivElement>(null)
  const now = useRef(view)
  now.current = view

  const change = (v: View) => {
    now.current = v // a second click may come before the next drawing
    setView(v)
    setChosen(1)
    rows.show(v)
    rows.el.focus()
  }
  const rows: Rows = useMemo(() => new Rows(source, view, {
    menu: (column) => setPanel({ column, at: rows.headOf(column) }),
    sort: (column) => {
      const s = now.current.sort
      const { sort: _, ...rest } = now.current
      change(s?.column !== column ? { ...rest, sort: { column, descending: false } } : s.descending ? rest : { ...rest, sort: { column, descending: true } })
    },
    selected: () => {
      const { from, to } = rows.selection
      setChosen((to.row - from.row + 1) * (to.column - from.column + 1))
    },
    copy: () => void copy(),
    open: (at) => void open(at),
    leave: () => rows.el.closest<HTMLElement>('.cell')?.focus(),
    loaded: setTotal,
    gone: () => {
      if (!later || source === later.source) return
      setView({ filters: [] })
      setSource(later.source)
    },
    failed: (e) => failed(t('The rows were not loaded'), e),
  }), [source])
  useLayoutEffect(() => {
    place.current!.replaceChildren(rows.el)
    rows.begin()
    return () => rows.dispose()
  }, [rows])
  useLayoutEffect(() => rows.draw(), [language.value])

  const fields = async (from: Place, to: Place): Promise<Field[][]> => {
    const all: Field[][] = []
    for (let i = from.row; i <= to.row; i += step) all.push(...(await source.page(now.current, i, Math.min(step, to.row - i + 1))).rows)
    return all.map((r) => r.slice(from.column, to.column + 1))
  }
  const copy = async (whole = false) => {
    const { from, to } = whole ? { from: { row: 0, column: 0 }, to: { row: rows.total - 1, column: rows.count - 1 } } : rows.selection
    const count = (to.row - from.row + 1) * (to.column - from.column + 1)
    if (count > maxCopied) return toast(t('{n} values are too many to copy. Download the table as CSV', { n: number(count) }))
    try {
      const lines = (await fields(from, to)).map((r) => r.map((v) => (v === null ? '' : String(v).replace(/[\t\r\n]+/g, ' '))).join('\t'))
      if (whole) lines.unshift(source.columns.map((c) => c.name).join('\t'))
      await navigator.clipboard.writeText(lines.join('\n'))
      toast(plural(count, 'The value is copied', '{n} values are copied'))
    } catch (e) {
      failed(t('The values were not copied'), e)
    }
  }
  const open = async (at: Place) => {
    try {
      const v = (await source.page(now.current, at.row, 1)).rows[0]?.[at.column] ?? null // not cut
      setValue(v === null ? 'null' : String(v))
    } catch (e) {
      const v = rows.field(at)
      if (e instanceof Gone && v !== undefined) return setValue(String(v))
      failed(t('The value was not loaded'), e)
    }
  }
  const download = async (format: Format) => {
    stop.current = false
    const from = format === 'parquet' && kernel ? kernel : source
    const parts: BlobPart[] = []
    try {
      for (let next: number | null = 0; next !== null;) {
        const p = await from.part(now.current, format, next)
        parts.push(p.data)
        next = p.next
        if (stop.current) return
        if (next !== null) setProgress(t('Preparing the file: {percent} %', { percent: Math.round(100 * next / p.total) }))
      }
      save(new Blob(parts, { type: format === 'csv' ? 'text/csv' : 'application/vnd.apache.parquet' }), `table.${format}`)
    } catch (e) {
      failed(t('The table was not downloaded'), e)
    } finally {
      setProgress(undefined)
    }
  }
  const values = source.columns.filter((c) => c.type !== 'index').length
  const facts = [
    total < source.rows ? plural(total, '{n} row of {all}', '{n} rows of {all}', { all: number(source.rows) }) : plural(total, '{n} row', '{n} rows'),
    plural(values, '{n} column', '{n} columns'),
    chosen > 1 && plural(chosen, '{n} value selected', '{n} values selected'),
  ]
  return (
    <>
      <div class="grid-tools row" role="toolbar" aria-label={t('Table')}>
        <span class="muted num" role="status">{progress ?? facts.filter(Boolean).join(', ')}</span>
        {progress && <button type="button" class="button quiet" onClick={() => (stop.current = true)}>{t('Cancel')}</button>}
        {view.filters.map((f) => {
          const filter = filterText(source.columns[f.column]!.name || t('index|of rows'), f)
          return <button key={f.column} type="button" class="button pill" aria-label={t('{filter}: remove this filter', { filter })} title={t('Remove this filter')} onClick={() => change({ ...view, filters: view.filters.filter((x) => x !== f) })}>{filter}<Icon name="close" /></button>
        })}
        <span class="grow" />
        <button type="button" class="button icon quiet" aria-label={t('Copy the table')} title={t('Copy the table')} onClick={() => void copy(true)}><Icon name="copy" /></button>
        <Menu label={t('Download the table')} button={<Icon name="download" />}>
          {() => (
            <>
              <MenuItem onClick={() => void download('csv')}>{t('Download as CSV')}</MenuItem>
              {kernel && source !== later?.source && <MenuItem onClick={() => void download('parquet')}>{t('Download as Parquet')}</MenuItem>}
            </>
          )}
        </Menu>
      </div>
      <div ref={place} />
      {source === later?.source && <p class="out-note">{t('These are the first {n} of {all} rows. Run the cell again to see all of them.', { n: number(later.source.rows), all: number(later.rows) })}</p>}
      {panel && <ColumnPanel key={panel.column} source={source} view={view} column={panel.column} at={panel.at} show={change} close={() => { setPanel(undefined); rows.el.focus() }} />}
      {value !== undefined && <Value text={value} close={() => setValue(undefined)} />}
    </>
  )
}

function filterText(column: string, { is, value = '' }: Filter): string {
  switch (is) {
    case 'contains': return t('{column} contains {value}', { column, value })
    case 'missing': return t('{column} missing', { column })
    case 'present': return t('{column} present', { column })
    default: return `${column} ${is} ${value}`
  }
}

/**
 * Shows the whole value of a field. The browser returns the focus when the dialog closes. The event
 * of the close is later: the focus may be elsewhere by then.
 */
function Value({ text, close }: { text: string; close: () => void }) {
  const box = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    box.current!.showModal()
  }, [])
  return (
    <dialog ref={box} aria-label={t('Value')} onClose={close}>
      <div class="dialog">
        <pre class="grid-value" tabIndex={0}>{text}</pre>
        <div class="actions"><button type="button" class="button" onClick={() => box.current!.close()}>{t('Close')}</button></div>
      </div>
    </dialog>
  )
}

