// The rows of a grid as DOM nodes. Only those in sight exist.
import { t } from '../../language/texts'
import type { Column, Field, View } from './source'
import { Gone, type Source } from './source'

export const rowHeight = 28
export const headHeight = 44
/** The height up to which each row has its own place; browsers limit the height of elements. */
const maxHeight = 15_000_000
/** The height of the part that is in sight. */
const maxSight = 420
/** The rows of one request, and the parts that are kept. */
const part = 100
const maxParts = 60
/** The time after which the rows that a scroll has reached are requested. */
const restAfter = 60
const [minWidth, maxWidth, letter] = [64, 320, 7.5]
/** Rows and columns that exist around those in sight. */
const spare = 4

export interface Place {
  row: number
  column: number
}

export interface Events {
  /** The user asks for the menu of a column: sorting, filters, statistics. */
  menu(column: number): void
  /** The user sorts by a column: ascending, then descending, then not. */
  sort(column: number): void
  /** The selected fields changed. */
  selected(): void
  copy(): void
  /** The user asks for the whole value of a field. */
  open(at: Place): void
  leave(): void
  loaded(total: number): void
  gone(): void
  failed(e: unknown): void
}

let last = 0

/** The scrolling table: role grid, one field is active, and several can be selected. */
export class Rows {
  readonly el = document.createElement('div')
  /** The active field; row -1 is the head. */
  at: Place = { row: 0, column: 0 }
  anchor: Place = { row: 0, column: 0 }
  total: number
  readonly #id = `grid-${++last}`
  readonly #source: Source
  readonly #events: Events
  readonly #widths: number[]
  readonly #lefts: number[] // where each column begins
  readonly #index: number // the columns that stay in sight
  readonly #size = document.createElement('div')
  readonly #head = document.createElement('div')
  readonly #body = document.createElement('div')
  #view: View
  #parts = new Map<number, Field[][]>()
  #asked = new Set<number>()
  #failed = new Set<number>() // not requested again until the user scrolls
  readonly #resized = new ResizeObserver(() => this.draw())
  #ended = false
  #turn = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #first = 0 // the first row in sight

  constructor(source: Source, view: View, events: Events) {
    this.#source = source
    this.#view = view
    this.#events = events
    this.total = source.rows
    this.#index = source.columns.filter((c) => c.type === 'index').length
    this.#widths = source.columns.map((c) => width(c.name, c.type))
    this.#lefts = []
    this.el.className = 'grid'
    this.el.tabIndex = 0
    this.el.setAttribute('role', 'grid')
    this.el.setAttribute('aria-multiselectable', 'true')
    this.el.setAttribute('aria-readonly', 'true')
    this.el.setAttribute('aria-colcount', String(source.columns.length))
    this.#size.className = 'grid-size'
    this.#size.setAttribute('role', 'presentation')
    this.#head.className = 'grid-row grid-head'
    this.#head.setAttribute('role', 'row')
    this.#head.setAttribute('aria-rowindex', '1')
    this.#body.className = 'grid-body'
    this.#body.setAttribute('role', 'rowgroup')
    this.#size.append(this.#head, this.#body)
    this.el.append(this.#size)
    this.el.addEventListener('scroll', () => this.#scrolled(), { passive: true })
    this.el.addEventListener('keydown', (e) => this.#key(e))
    this.el.addEventListener('pointerdown', (e) => this.#pointer(e))
    // The end of the press would close a panel that its beginning has opened.
    this.el.addEventListener('click', (e) => {
      const at = placeOf(e.target)
      if (at && (e.target as Element).closest('.grid-menu')) events.menu(at.column)
    })
    this.el.addEventListener('dblclick', (e) => { if (placeOf(e.target)) events.open(this.at) })
    this.el.addEventListener('focus', () => this.#mark())
    this.el.addEventListener('blur', () => this.#mark())
  }

  get count(): number {
    return this.#source.columns.length
  }

  /** Shows other rows. */
  show(view: View): void {
    this.#view = view
    this.#turn++
    this.#parts.clear()
    this.#asked.clear()
    this.#failed.clear()
    this.at = this.anchor = { row: Math.min(this.at.row, 0), column: this.at.column }
    this.el.scrollTop = 0
    this.#first = 0
    void this.#load(0)
    this.draw()
  }

  /** Requests the rows around those in sight, and draws. */
  begin(): void {
    void this.#load(0).then(() => this.#fit())
    this.#resized.observe(this.el)
  }

  field(at: Place): Field | undefined {
    return this.#parts.get(Math.trunc(at.row / part))?.[at.row % part]?.[at.column]
  }

  /** The selected fields: from the first to the last row and column. */
  get selection(): { from: Place; to: Place } {
    const [a, b] = [this.anchor, this.at]
    return {
      from: { row: Math.max(0, Math.min(a.row, b.row)), column: Math.min(a.column, b.column) },
      to: { row: Math.max(0, Math.max(a.row, b.row)), column: Math.max(a.column, b.column) },
    }
  }

  async #load(number: number): Promise<void> {
    if (this.#ended || this.#parts.has(number) || this.#asked.has(number) || this.#failed.has(number)) return
    this.#asked.add(number)
    const turn = this.#turn
    try {
      const page = await this.#source.page(this.#view, number * part, part)
      if (turn !== this.#turn) return
      this.total = page.total
      this.#parts.set(number, page.rows)
      if (this.#parts.size > maxParts) this.#parts.delete(this.#parts.keys().next().value!)
      this.#events.loaded(page.total)
    } catch (e) {
      if (turn !== this.#turn) return
      this.#failed.add(number)
      if (e instanceof Gone) this.#events.gone()
      else this.#events.failed(e)
    } finally {
      if (turn === this.#turn) this.#asked.delete(number)
      this.draw()
    }
  }

  /** Makes columns as wide as their first values. */
  #fit(): void {
    for (const row of this.#parts.get(0)?.slice(0, 50) ?? []) {
      row.forEach((v, i) => (this.#widths[i] = Math.max(this.#widths[i]!, Math.min(maxWidth, textOf(v).length * letter + 26))))
    }
    this.draw()
  }

  #scrolled(): void {
    this.#failed.clear()
    const { scrollTop } = this.el
    const high = this.total * rowHeight
    const room = this.#room
    this.#first = high <= maxHeight ? Math.floor(scrollTop / rowHeight)
      : Math.round(scrollTop / Math.max(1, this.el.scrollHeight - this.el.clientHeight) * Math.max(0, this.total - room))
    this.draw()
  }

  /** The number of whole rows in sight. */
  get #room(): number {
    return Math.max(1, Math.floor((this.el.clientHeight - headHeight) / rowHeight))
  }

  /** Draws the rows and columns in sight, and requests the rows that are missing. */
  draw(): void {
    if (this.#ended) return
    const columns = this.#source.columns
    let left = 0
    columns.forEach((_, i) => {
      this.#lefts[i] = left
      left += this.#widths[i]!
    })
    const high = Math.min(maxHeight, this.total * rowHeight)
    this.el.style.height = `${Math.min(maxSight, headHeight + Math.max(1, this.total) * rowHeight + (left > this.el.clientWidth ? 16 : 2))}px`
    this.#size.style.width = `${left}px`
    this.#size.style.height = `${headHeight + high}px`
    this.el.setAttribute('aria-label', t('Table'))
    this.el.setAttribute('aria-rowcount', String(this.total + 1))
    const from = Math.max(0, this.#first - spare)
    const to = Math.min(this.total, this.#first + this.#room + spare + 2)
    const [low, end] = this.#across()
    this.#head.replaceChildren(...this.#cells(-1, low, end))
    const exact = this.total * rowHeight <= maxHeight
    this.#body.style.transform = `translateY(${exact ? from * rowHeight : this.el.scrollTop - (this.#first - from) * rowHeight}px)`
    const rows: HTMLElement[] = []
    for (let i = from; i < to; i++) {
      const row = document.createElement('div')
      row.className = 'grid-row'
      row.setAttribute('role', 'row')
      row.setAttribute('aria-rowindex', String(i + 2))
      row.append(...this.#cells(i, low, end))
      rows.push(row)
    }
    this.#body.replaceChildren(...rows)
    this.#mark()
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      for (let i = Math.trunc(from / part); i <= Math.trunc(Math.max(from, to - 1) / part); i++) void this.#load(i)
    }, restAfter)
  }

  /** Marks the active and the selected fields. Their elements stay, as a double click needs them. */
  #mark(): void {
    const { from, to } = this.selection
    for (const el of this.el.querySelectorAll<HTMLElement>('.grid-cell')) {
      const { row, column } = placeOf(el)!
      if (row >= 0) el.setAttribute('aria-selected', String(this.at.row >= 0 && row >= from.row && row <= to.row && column >= from.column && column <= to.column))
      el.classList.toggle('at', this.at.row === row && this.at.column === column)
    }
    const active = `${this.#id}-${this.at.row}-${this.at.column}`
    if (document.activeElement === this.el && this.el.querySelector(`[id="${active}"]`)) this.el.setAttribute('aria-activedescendant', active)
    else this.el.removeAttribute('aria-activedescendant')
  }

  /** The columns in sight beside those that stay. */
  #across(): [from: number, to: number] {
    const { scrollLeft, clientWidth } = this.el
    const start = Math.abs(scrollLeft)
    let from = this.#index
    while (from < this.count - 1 && this.#lefts[from + 1]! < start) from++
    let to = from
    while (to < this.count && this.#lefts[to]! < start + clientWidth) to++
    return [Math.max(this.#index, from - spare), Math.min(this.count, to + spare)]
  }

  #cells(row: number, from: number, to: number): HTMLElement[] {
    const made: HTMLElement[] = []
    for (let i = 0; i < this.#index; i++) made.push(this.#cell(row, i))
    const gap = document.createElement('div')
    gap.setAttribute('role', 'presentation')
    gap.style.flex = `0 0 ${(this.#lefts[from] ?? 0) - (this.#lefts[this.#index] ?? 0)}px`
    made.push(gap)
    for (let i = from; i < to; i++) made.push(this.#cell(row, i))
    return made
  }

  #cell(row: number, column: number): HTMLElement {
    const c = this.#source.columns[column]!
    const el = document.createElement('div')
    el.id = `${this.#id}-${row}-${column}`
    el.className = 'grid-cell'
    el.dataset.row = String(row)
    el.dataset.column = String(column)
    el.style.flex = `0 0 ${this.#widths[column]}px`
    el.setAttribute('aria-colindex', String(column + 1))
    el.setAttribute('role', row < 0 ? 'columnheader' : c.type === 'index' ? 'rowheader' : 'gridcell')
    if (c.type === 'index') {
      el.classList.add('index')
      el.style.insetInlineStart = `${this.#lefts[column]}px`
    }
    const number = c.type === 'integer' || c.type === 'number'
    if (number) el.classList.add('num')
    if (row < 0) this.#headCell(el, column)
    else {
      const v = this.field({ row, column })
      if (v === undefined) el.classList.add('waiting')
      else {
        el.textContent = typeof v === 'string' && c.type === 'time' ? v.replace('T', ' ') : textOf(v)
        if (v === null) el.classList.add('missing')
      }
    }
    return el
  }

  #headCell(el: HTMLElement, column: number): void {
    const c = this.#source.columns[column]!
    const sort = this.#view.sort?.column === column ? this.#view.sort : undefined
    el.setAttribute('aria-sort', sort ? (sort.descending ? 'descending' : 'ascending') : 'none')
    const name = document.createElement('span')
    name.className = 'grid-name'
    name.textContent = c.name
    const type = document.createElement('span')
    type.className = 'grid-type'
    const filtered = this.#view.filters.some((f) => f.column === column)
    type.textContent = filtered ? t('{type}, filtered', { type: nameOf(c.type) }) : nameOf(c.type)
    const mark = document.createElement('span')
    mark.className = 'grid-mark'
    mark.setAttribute('aria-hidden', 'true')
    mark.textContent = sort ? (sort.descending ? '↓' : '↑') : ''
    const menu = document.createElement('span')
    menu.className = 'grid-menu'
    menu.title = t('Filter and statistics')
    menu.setAttribute('aria-hidden', 'true')
    menu.textContent = '⋯'
    el.append(name, mark, menu, type)
  }

  /** Moves the active field, and shows it. */
  go(at: Place, extend = false): void {
    this.at = { row: Math.min(Math.max(-1, at.row), this.total - 1), column: Math.min(Math.max(0, at.column), this.count - 1) }
    if (!extend || this.at.row < 0) this.anchor = this.at
    const room = this.#room
    const [before, left] = [this.#first, this.el.scrollLeft]
    const { row, column } = this.at
    if (row >= 0 && (row < this.#first || row >= this.#first + room)) {
      const first = row < this.#first ? row : row - room + 1
      this.#first = first
      this.el.scrollTop = this.total * rowHeight <= maxHeight ? first * rowHeight
        : first / Math.max(1, this.total - room) * (this.el.scrollHeight - this.el.clientHeight)
    }
    if (column >= this.#index) {
      const sign = getComputedStyle(this.el).direction === 'rtl' ? -1 : 1
      const stay = this.#lefts[this.#index]!
      const [from, to] = [this.#lefts[column]! - stay, this.#lefts[column]! + this.#widths[column]! - this.el.clientWidth]
      const now = Math.abs(this.el.scrollLeft)
      if (now > from) this.el.scrollLeft = sign * from
      else if (now < to) this.el.scrollLeft = sign * to
    }
    if (before !== this.#first || left !== this.el.scrollLeft) this.draw()
    else this.#mark()
    this.#events.selected()
  }

  #key(e: KeyboardEvent): void {
    const mod = e.ctrlKey || e.metaKey
    const { row, column } = this.at
    const rtl = getComputedStyle(this.el).direction === 'rtl' ? -1 : 1
    const to: Record<string, Place> = {
      ArrowDown: { row: mod ? this.total - 1 : row + 1, column }, ArrowUp: { row: mod ? 0 : row - 1, column },
      ArrowRight: { row, column: column + rtl }, ArrowLeft: { row, column: column - rtl },
      PageDown: { row: row + this.#room, column }, PageUp: { row: Math.max(0, row - this.#room), column },
      Home: { row: mod ? 0 : row, column: 0 }, End: { row: mod ? this.total - 1 : row, column: this.count - 1 },
    }
    if (e.altKey && e.key === 'ArrowDown') this.#events.menu(column)
    else if (to[e.key]) this.go(to[e.key]!, e.shiftKey)
    else if (mod && e.key.toLowerCase() === 'a') {
      this.anchor = { row: 0, column: 0 }
      this.at = { row: this.total - 1, column: this.count - 1 }
      this.#mark()
      this.#events.selected()
    } else if (mod && e.key.toLowerCase() === 'c') this.#events.copy()
    else if (e.key === 'Enter' && row < 0) this.#events.sort(column)
    else if (e.key === 'Enter') this.#events.open(this.at)
    else if (e.key === 'Escape') this.#events.leave()
    else return
    e.preventDefault()
    e.stopPropagation()
  }

  #pointer(e: PointerEvent): void {
    const at = placeOf(e.target)
    if (!at || e.button !== 0) return
    if ((e.target as Element).closest('.grid-menu')) {
      return this.go(at)
    }
    this.go(at, e.shiftKey)
    if (at.row < 0) return this.#events.sort(at.column)
    if (e.pointerType !== 'mouse') return
    const move = (m: PointerEvent) => {
      const over = placeOf(document.elementFromPoint(m.clientX, m.clientY))
      if (over && over.row >= 0 && this.el.contains(document.elementFromPoint(m.clientX, m.clientY))) this.go(over, true)
    }
    this.el.addEventListener('pointermove', move)
    addEventListener('pointerup', () => this.el.removeEventListener('pointermove', move), { once: true })
  }

  /** The place of a column's head in the window, for its menu. */
  headOf(column: number): DOMRect {
    return (this.el.querySelector(`[id="${this.#id}--1-${column}"]`) ?? this.el).getBoundingClientRect()
  }

  dispose(): void {
    clearTimeout(this.#timer)
    this.#resized.disconnect()
    this.#ended = true
    this.#turn++
  }
}

function placeOf(target: EventTarget | null): Place | undefined {
  const cell = target instanceof Element ? target.closest<HTMLElement>('.grid-cell') : null
  return cell ? { row: Number(cell.dataset.row), column: Number(cell.dataset.column) } : undefined
}

function nameOf(type: Column['type']): string {
  switch (type) {
    case 'index': return t('index|of rows')
    case 'integer': return t('integer')
    case 'number': return t('number|type of a column')
    case 'boolean': return t('boolean')
    case 'time': return t('time|type of a column')
    case 'text': return t('text|type of a column')
  }
}

function width(name: string, type: Column['type']): number {
  return Math.min(maxWidth, Math.max(minWidth, name.length * 8.5 + 62, nameOf(type).length * 6.5 + 26))
}

/** Returns a value as the grid shows it: numbers with at most six digits behind the point. */
export function textOf(v: Field): string {
  if (v === null) return 'null'
  if (typeof v !== 'number' || Number.isInteger(v)) return String(v).replace(/\s+/g, ' ')
  const size = Math.abs(v)
  return size >= 1e-4 && size < 1e9 ? String(Number(v.toFixed(6))) : v.toExponential(5)
}
