import { plural } from '../language/texts'

/** The number of members of one level that are shown. Further ones are shown after a click. */
const page = 100

/** Shows JSON as text nodes that fold. */
export function jsonTree(value: unknown): HTMLElement {
  const el = document.createElement('div')
  el.className = 'json'
  el.append(tree(undefined, value, true))
  return el
}

function tree(key: string | undefined, value: unknown, open: boolean): HTMLElement {
  if (typeof value !== 'object' || value === null) {
    const line = document.createElement('div')
    line.className = 'json-line'
    line.append(...label(key), leaf(value))
    return line
  }
  const details = document.createElement('details')
  const summary = document.createElement('summary')
  const entries = Array.isArray(value) ? value.map((v, i): [string, unknown] => [String(i), v]) : Object.entries(value)
  const size = document.createElement('span')
  size.className = 'muted'
  size.textContent = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`
  summary.append(...label(key), size)
  details.append(summary)
  let made = false
  const make = () => {
    if (made) return
    made = true
    more(details, entries, 0)
  }
  details.addEventListener('toggle', make)
  if (open) {
    details.open = true
    make()
  }
  return details
}

function more(into: HTMLElement, entries: [string, unknown][], from: number): void {
  for (const [k, v] of entries.slice(from, from + page)) into.append(tree(k, v, false))
  const left = entries.length - from - page
  if (left <= 0) return
  const b = document.createElement('button')
  b.className = 'button quiet'
  b.textContent = plural(left, '{n} more', '{n} more')
  b.addEventListener('click', () => {
    b.remove()
    more(into, entries, from + page)
  })
  into.append(b)
}

function label(key: string | undefined): Node[] {
  if (key === undefined) return []
  const k = document.createElement('span')
  k.className = 'json-key'
  k.textContent = key
  return [k, document.createTextNode(': ')]
}

function leaf(value: unknown): HTMLElement {
  const v = document.createElement('span')
  v.className = `json-${value === null ? 'null' : typeof value}`
  v.textContent = String(JSON.stringify(value))
  return v
}
