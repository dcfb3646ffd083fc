/** The parts of the key of an execution: the notebook's file, and its cell. */
export interface CellKey {
  /** Empty for keys of earlier versions, which do not name the file. */
  file: string
  cell: string
}

/** Returns a short hash, such as the name of a notebook in keys. */
export function shortHash(text: string): string {
  let a = 0xdeadbeef
  let b = 0x41c6ce57
  for (const c of text) {
    a = Math.imul(a ^ c.codePointAt(0)!, 2654435761)
    b = Math.imul(b ^ c.codePointAt(0)!, 1597334677)
  }
  return (4294967296 * (b & 0xfffff) + (a >>> 0)).toString(36).padStart(10, '0').slice(-10)
}

/** Returns the key of one execution of a cell. No two executions have the same key. */
export function newKey(file: string, cell: string): string {
  return `nb.${file}.${cell}.${Math.random().toString(36).slice(2, 12)}`
}

/** Reads a key; undefined for executions that are not of a notebook. */
export function parseKey(key: string): CellKey | undefined {
  const [, file = '', cell] = /^nb\.(?:(\w{10})\.)?([\w-]{1,64})\.\w+$/.exec(key) ?? []
  return cell ? { file, cell } : undefined
}
