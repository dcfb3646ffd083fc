export interface Table {
  head: string[]
  rows: string[][]
  /** There are more rows than were read. */
  more: boolean
}

/** Reads rows of values that a sign separates. A value in quotes can have the sign and lines. */
export function parseTable(text: string, separator: string, maxRows: number): Table {
  const rows: string[][] = []
  let row: string[] = []
  let i = text.charCodeAt(0) === 0xfeff ? 1 : 0
  let more = false
  while (i < text.length) {
    let value = ''
    if (text[i] === '"') {
      for (i++; i < text.length; i++) {
        const end = text.indexOf('"', i)
        value += text.slice(i, end < 0 ? undefined : end)
        i = end < 0 ? text.length : end
        if (text[i + 1] !== '"') break
        value += '"'
        i++
      }
      i++
    }
    let end = i
    while (end < text.length && text[end] !== separator && text[end] !== '\n' && text[end] !== '\r') end++
    row.push(value + text.slice(i, end))
    i = end
    if (text[i] === separator) {
      i++
      if (i === text.length) row.push('')
      else continue
    }
    if (text[i] === '\r') i++
    if (text[i] === '\n') i++
    if (rows.length > maxRows) {
      more = true
      break
    }
    rows.push(row)
    row = []
  }
  const [head = [], ...rest] = rows
  return { head, rows: rest.filter((r) => r.length > 1 || r[0] !== ''), more }
}

const number = (s: string | undefined): number => (s === undefined || s.trim() === '' ? NaN : Number(s))

/** Whether all values of a column are numbers, except empty ones. */
export const isNumeric = (rows: string[][], column: number): boolean =>
  rows.some((r) => r[column]) && rows.every((r) => !r[column]?.trim() || !Number.isNaN(number(r[column])))

/** Returns the rows in the order of a column, empty values last. */
export function sorted(rows: string[][], column: number, down: boolean): string[][] {
  const numeric = isNumeric(rows, column)
  const order = new Intl.Collator(undefined, { numeric: true }).compare
  const empty = (r: string[]) => !r[column]?.trim()
  return rows.toSorted((a, b) => {
    if (empty(a) || empty(b)) return Number(empty(a)) - Number(empty(b))
    const by = numeric ? number(a[column]) - number(b[column]) : order(a[column]!, b[column]!)
    return down ? -by : by
  })
}
