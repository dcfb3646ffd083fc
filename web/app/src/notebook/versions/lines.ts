/** A line of a text that was compared with another. */
export type Line =
  | { kind: 'same' | 'added' | 'removed'; text: string; /** The part that differs from its counterpart. */ mark?: [from: number, to: number] }
  | { kind: 'gap'; count: number }

/** Beyond this number of pairs of lines, the changed middle is shown as removed and added. */
const maxPairs = 1_000_000
/** The number of equal lines that are shown around a change. */
const around = 3

/** Compares two texts by lines. Long runs of equal lines are left out. */
export function compareLines(before: string, after: string): Line[] {
  const a = before.split('\n')
  const b = after.split('\n')
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++
  const same = (text: string): Changed => ({ kind: 'same', text })
  return fold([
    ...a.slice(0, start).map(same),
    ...marked(middle(a.slice(start, a.length - end), b.slice(start, b.length - end))),
    ...a.slice(a.length - end).map(same),
  ])
}

type Changed = Exclude<Line, { kind: 'gap' }>

/** Finds the longest common subsequence of the lines. */
function middle(a: string[], b: string[]): Changed[] {
  const removed = a.map((text): Changed => ({ kind: 'removed', text }))
  const added = b.map((text): Changed => ({ kind: 'added', text }))
  if (a.length * b.length > maxPairs) return [...removed, ...added]
  const width = b.length + 1
  const longest = new Uint32Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j]
        ? longest[(i + 1) * width + j + 1]! + 1
        : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!)
    }
  }
  const out: Changed[] = []
  let i = 0
  let j = 0
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      out.push({ kind: 'same', text: a[i++]! })
      j++
    } else if (longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!) out.push(removed[i++]!)
    else out.push(added[j++]!)
  }
  return [...out, ...removed.slice(i), ...added.slice(j)]
}

/** Marks what differs in lines that replace others. */
function marked(lines: Changed[]): Changed[] {
  for (let i = 0; i < lines.length;) {
    let r = i
    while (lines[r]?.kind === 'removed') r++
    let e = r
    while (lines[e]?.kind === 'added') e++
    if (r > i && e - r === r - i) for (let k = i; k < r; k++) markPair(lines[k]!, lines[k + r - i]!)
    i = Math.max(e, i + 1)
  }
  return lines
}

function markPair(a: Changed, b: Changed): void {
  const shorter = Math.min(a.text.length, b.text.length)
  let from = 0
  while (from < shorter && a.text[from] === b.text[from]) from++
  let end = 0
  while (end < shorter - from && a.text.at(-1 - end) === b.text.at(-1 - end)) end++
  if (from + end < shorter / 3) return // they have little in common
  a.mark = [from, a.text.length - end]
  b.mark = [from, b.text.length - end]
}

function fold(lines: Changed[]): Line[] {
  const near = new Set<number>()
  lines.forEach((l, i) => {
    if (l.kind !== 'same') for (let k = i - around; k <= i + around; k++) near.add(k)
  })
  const out: Line[] = []
  lines.forEach((l, i) => {
    if (near.has(i)) return out.push(l)
    const last = out.at(-1)
    if (last?.kind === 'gap') last.count++
    else out.push({ kind: 'gap', count: 1 })
  })
  return out
}
