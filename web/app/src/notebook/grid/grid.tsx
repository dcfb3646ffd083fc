import { render } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { save } from '../rich'
import { Icon } from '../../ui/icon'
import { Menu, MenuItem } from '../../ui/menu'
import { failed, toast } from '../../ui/toast'
import { ColumnPanel } from './column'
import { LocalSource } from './local'
import { recordsTable, resourceTable } from './records'
import { Rows, type Place } from './rows'
import { Gone, KernelSource, tableForm, type Ask, type Field, type Format, type Source, type View } from './source'
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
    failed: (e) => failed('The rows were not loaded', e),
  }), [source])
  useLayoutEffect(() => {
    place.current!.replaceChildren(rows.el)
    rows.begin()
    return () => rows.dispose()
  }, [rows])

  const fields = async (from: Place, to: Place): Promise<Field[][]> => {
    const all: Field[][] = []
    for (let i = from.row; i <= to.row; i += step) all.push(...(await source.page(now.current, i, Math.min(step, to.row - i + 1))).rows)
    return all.map((r) => r.slice(from.column, to.column + 1))
  }
  const copy = async (whole = false) => {
    const { from, to } = whole ? { from: { row: 0, column: 0 }, to: { row: rows.total - 1, column: rows.count - 1 } } : rows.selection
    const count = (to.row - from.row + 1) * (to.column - from.column + 1)
    if (count > maxCopied) return toast(`${count.toLocaleString('en')} values are too many to copy. Download the table as CSV`)
    try {
      const lines = (await fields(from, to)).map((r) => r.map((v) => (v === null ? '' : String(v).replace(/[\t\r\n]+/g, ' '))).join('\t'))
      if (whole) lines.unshift(source.columns.map((c) => c.name).join('\t'))
      await navigator.clipboard.writeText(lines.join('\n'))
      toast(count === 1 ? 'The value is copied' : `${count.toLocaleString('en')} values are copied`)
    } catch (e) {
      failed('The values were not copied', e)
    }
  }
  const open = async (at: Place) => {
    try {
      const v = (await source.page(now.current, at.row, 1)).rows[0]?.[at.column] ?? null // not cut
      setValue(v === null ? 'null' : String(v))
    } catch (e) {
      const v = rows.field(at)
      if (e instanceof Gone && v !== undefined) return setValue(String(v))
      failed('The value was not loaded', e)
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
        if (next !== null) setProgress(`Preparing the file: ${Math.round(100 * next / p.total)} %`)
      }
      save(new Blob(parts, { type: format === 'csv' ? 'text/csv' : 'application/vnd.apache.parquet' }), `table.${format}`)
    } catch (e) {
      failed('The table was not downloaded', e)
    } finally {
      setProgress(undefined)
    }
  }
  const count = (n: number, word: string) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`
  const values = source.columns.filter((c) => c.type !== 'index').length
  return (
    <>
      <div class="grid-tools row" role="toolbar" aria-label="Table">
        <span class="muted num" role="status">{progress ?? `${count(total, 'row')}${total < source.rows ? ` of ${source.rows.toLocaleString('en')}` : ''}, ${count(values, 'column')}${chosen > 1 ? `, ${chosen.toLocaleString('en')} values selected` : ''}`}</span>
        {progress && <button type="button" class="button quiet" onClick={() => (stop.current = true)}>Cancel</button>}
        {view.filters.map((f) => {
          const name = source.columns[f.column]!.name || 'index'
          const words = `${name} ${f.is} ${f.value ?? ''}`.trim()
          return <button key={f.column} type="button" class="button pill" aria-label={`${words}: remove this filter`} title="Remove this filter" onClick={() => change({ ...view, filters: view.filters.filter((x) => x !== f) })}>{words}<Icon name="close" /></button>
        })}
        <span class="grow" />
        <button type="button" class="button icon quiet" aria-label="Copy the table" title="Copy the table" onClick={() => void copy(true)}><Icon name="copy" /></button>
        <Menu label="Download the table" button={<Icon name="download" />}>
          {() => (
            <>
              <MenuItem onClick={() => void download('csv')}>Download as CSV</MenuItem>
              {kernel && source !== later?.source && <MenuItem onClick={() => void download('parquet')}>Download as Parquet</MenuItem>}
            </>
          )}
        </Menu>
      </div>
      <div ref={place} />
      {source === later?.source && <p class="out-note">These are the first {later.source.rows.toLocaleString('en')} of {later.rows.toLocaleString('en')} rows. Run the cell again to see all of them.</p>}
      {panel && <ColumnPanel key={panel.column} source={source} view={view} column={panel.column} at={panel.at} show={change} close={() => { setPanel(undefined); rows.el.focus() }} />}
      {value !== undefined && <Value text={value} close={() => setValue(undefined)} />}
    </>
  )
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
    <dialog ref={box} aria-label="Value" onClose={close}>
      <div class="dialog">
        <pre class="grid-value" tabIndex={0}>{text}</pre>
        <div class="actions"><button type="button" class="button" onClick={() => box.current!.close()}>Close</button></div>
      </div>
    </dialog>
  )
}

