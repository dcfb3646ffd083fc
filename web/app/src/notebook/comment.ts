/** A comment on a cell. */
export interface Comment {
  id: string
  /** The name of the author, as the author chose it. */
  by: string
  /** The time, in milliseconds since 1970 UTC. */
  at: number
  text: string
  /** The comments up to this one are resolved. */
  resolved?: boolean
}

/** The most characters of a comment, and the most comments of a cell. */
export const maxText = 10_000
export const maxComments = 200

/** Reads the comments of a file. Entries that are no comments are left out. */
export function readComments(v: unknown): Comment[] {
  if (!Array.isArray(v)) return []
  const out: Comment[] = []
  for (const c of v as Partial<Comment>[]) {
    if (typeof c !== 'object' || c === null || typeof c.id !== 'string' || typeof c.text !== 'string' || out.some((o) => o.id === c.id)) continue
    out.push({
      id: c.id.slice(0, 64), by: typeof c.by === 'string' ? c.by.slice(0, 40) : '', at: typeof c.at === 'number' && Number.isFinite(c.at) ? c.at : 0,
      text: c.text.slice(0, maxText), ...(c.resolved === true ? { resolved: true } : {}),
    })
  }
  return sortComments(out).slice(-maxComments)
}

/** Sorts comments by their time; those of the same time have the same order on all pages. */
export function sortComments(list: Comment[]): Comment[] {
  return list.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1))
}

export const sameComments = (a: Comment[], b: Comment[]): boolean => a === b || JSON.stringify(a) === JSON.stringify(b)

/** Whether a thread has comments, and all of them are resolved. */
export const isResolved = (list: Comment[]): boolean => list.length > 0 && list.at(-1)!.resolved === true
