// Jupyter's notebook format, version 4. Untouched content is written as it was read.
import { t } from '../language/texts'

export interface Bundle {
  [mime: string]: unknown
}

export type OutputJSON =
  | { output_type: 'stream'; name: 'stdout' | 'stderr'; text: string }
  | { output_type: 'display_data'; data: Bundle; metadata: Record<string, unknown> }
  | { output_type: 'execute_result'; data: Bundle; metadata: Record<string, unknown>; execution_count: number | null }
  | { output_type: 'error'; ename: string; evalue: string; traceback: string[] }

export type CellType = 'code' | 'markdown' | 'raw'

export interface CellJSON {
  id: string
  cell_type: CellType
  source: string
  metadata: Record<string, unknown>
  execution_count: number | null
  outputs: OutputJSON[]
  attachments?: Record<string, Bundle>
}

export interface NotebookJSON {
  cells: CellJSON[]
  metadata: Record<string, unknown>
  nbformat_minor: number
}

/** The error for a notebook that cannot be read. */
export class NotNotebook extends Error {}

export const newCellID = (): string => Array.from(crypto.getRandomValues(new Uint8Array(4)), (b) => b.toString(16).padStart(2, '0')).join('')

/** Returns a copy of a notebook. Its cells have ids of their own, and nothing is of a session. */
export function copied(n: NotebookJSON): NotebookJSON {
  const { sandgate: _, ...metadata } = n.metadata
  return { ...n, metadata, cells: n.cells.map((c) => ({ ...c, id: newCellID() })) }
}

type Raw = Record<string, unknown>
const isRaw = (v: unknown): v is Raw => typeof v === 'object' && v !== null && !Array.isArray(v)
const object = (v: unknown): Raw => (isRaw(v) ? v : {})

/** Joins text that is stored as lines. */
function joined(v: unknown): string {
  return Array.isArray(v) ? v.map((s) => (typeof s === 'string' ? s : '')).join('') : typeof v === 'string' ? v : ''
}

/** Splits text like Python's splitlines, which Jupyter uses. */
function lines(s: string): string[] {
  // eslint-disable-next-line no-control-regex
  return s === '' ? [] : s.split(/(?<=\n|\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029])/)
}

/** Whether the data of a MIME type is JSON. Other data is text, which files store as lines. */
const isJSON = (mime: string) => /^application\/(?:.*\+)?json$/.test(mime)

function bundle(v: unknown): Bundle {
  const out: Bundle = {}
  for (const [mime, data] of Object.entries(object(v))) out[mime] = isJSON(mime) ? data : joined(data)
  return out
}

export function parseNotebook(text: string): NotebookJSON {
  let raw: unknown
  try {
    raw = JSON.parse(text)
  } catch {
    throw new NotNotebook(t('The file is not a notebook: it is not JSON.'))
  }
  if (!isRaw(raw) || !Array.isArray(raw.cells)) {
    throw new NotNotebook(isRaw(raw) && raw.nbformat === 3
      ? t('The notebook has format 3, from before 2015. Convert it with jupyter nbconvert --to notebook.')
      : t('The file is not a notebook: it has no cells.'))
  }
  if (typeof raw.nbformat === 'number' && raw.nbformat !== 4) throw new NotNotebook(t('The notebook has format {format}; Sandgate reads format 4.', { format: raw.nbformat }))
  const seen = new Set<string>()
  const cells = raw.cells.filter(isRaw).map((c): CellJSON => {
    let id = typeof c.id === 'string' && /^[\w-]{1,64}$/.test(c.id) ? c.id : newCellID()
    if (seen.has(id)) id = newCellID()
    seen.add(id)
    const type = c.cell_type === 'markdown' || c.cell_type === 'raw' ? c.cell_type : 'code'
    return {
      id, cell_type: type, source: joined(c.source), metadata: object(c.metadata),
      execution_count: typeof c.execution_count === 'number' ? c.execution_count : null,
      outputs: Array.isArray(c.outputs) ? c.outputs.flatMap(output) : [],
      ...(isRaw(c.attachments) ? { attachments: Object.fromEntries(Object.entries(c.attachments).map(([k, v]) => [k, bundle(v)])) } : {}),
    }
  })
  return { cells, metadata: object(raw.metadata), nbformat_minor: typeof raw.nbformat_minor === 'number' ? raw.nbformat_minor : 5 }
}

function output(o: unknown): OutputJSON[] {
  if (!isRaw(o)) return []
  switch (o.output_type) {
    case 'stream':
      return [{ output_type: 'stream', name: o.name === 'stderr' ? 'stderr' : 'stdout', text: joined(o.text) }]
    case 'display_data':
      return [{ output_type: 'display_data', data: bundle(o.data), metadata: object(o.metadata) }]
    case 'execute_result':
      return [{
        output_type: 'execute_result', data: bundle(o.data), metadata: object(o.metadata),
        execution_count: typeof o.execution_count === 'number' ? o.execution_count : null,
      }]
    case 'error':
      return [{
        output_type: 'error', ename: String(o.ename ?? ''), evalue: String(o.evalue ?? ''),
        traceback: Array.isArray(o.traceback) ? o.traceback.map(String) : [],
      }]
  }
  return []
}

/** Writes the file with the order of keys, the lines and the indentation of Jupyter. */
export function formatNotebook(n: NotebookJSON): string {
  const packed = (b: Bundle) => Object.fromEntries(Object.entries(b).map(([mime, v]) =>
    [mime, !isJSON(mime) && typeof v === 'string' && !/^(?:image\/(?!svg)|audio\/|video\/|application\/pdf)/.test(mime) ? lines(v) : v]))
  const cells = n.cells.map((c) => ({
    ...(c.attachments ? { attachments: Object.fromEntries(Object.entries(c.attachments).map(([k, v]) => [k, packed(v)])) } : {}),
    cell_type: c.cell_type,
    ...(c.cell_type === 'code' ? {
      execution_count: c.execution_count,
      outputs: c.outputs.map((o) => o.output_type === 'stream' ? { ...o, text: lines(o.text) } : 'data' in o ? { ...o, data: packed(o.data) } : o),
    } : {}),
    ...(n.nbformat_minor >= 5 ? { id: c.id } : {}),
    metadata: c.metadata,
    source: lines(c.source),
  }))
  return `${JSON.stringify(sorted({ cells, metadata: n.metadata, nbformat: 4, nbformat_minor: n.nbformat_minor }), null, 1)}\n`
}

function sorted(v: unknown): unknown {
  if (Array.isArray(v)) return v.map(sorted)
  if (!isRaw(v)) return v
  return Object.fromEntries(Object.keys(v).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)).map((k) => [k, sorted(v[k])]))
}
