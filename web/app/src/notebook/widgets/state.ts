import type { CommContent } from '@sandgate/client/base'

/** The place of a buffer in a state: keys and indexes. */
export type Path = (string | number)[]

/** A part of a model's state. buffers are in base64, and paths has the place of each. */
export interface Part {
  state: Record<string, unknown>
  paths: Path[]
  buffers: string[]
}

/** The state of a model, as far as the page knows it. */
export interface Model extends Part {
  /** Whether the whole state is known, and not only parts that have changed. */
  complete: boolean
}

const prefix = 'IPY_MODEL_'

export function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === 'object' && v !== null && !Array.isArray(v)
}

/** Reads the state in a message. Returns undefined if it has none. */
export function partOf(content: Pick<CommContent, 'data' | 'buffers'>): Part | undefined {
  const { state, buffer_paths } = content.data ?? {}
  if (!isObject(state)) return undefined
  const buffers = (Array.isArray(content.buffers) ? content.buffers : []).filter((b) => typeof b === 'string')
  const paths = (Array.isArray(buffer_paths) ? buffer_paths : []).filter((p): p is Path => Array.isArray(p) && p.length > 0)
  const n = Math.min(buffers.length, paths.length)
  return { state, paths: paths.slice(0, n), buffers: buffers.slice(0, n) }
}

/** Returns a's state with the attributes of b in place of its own. */
export function merge(a: Part, b: Part): Part {
  const own = a.paths.map((p, i) => [p, a.buffers[i]!] as const).filter(([p]) => !Object.hasOwn(b.state, String(p[0])) && !b.paths.some((q) => q[0] === p[0]))
  return {
    state: { ...a.state, ...b.state },
    paths: [...own.map(([p]) => p), ...b.paths],
    buffers: [...own.map(([, d]) => d), ...b.buffers],
  }
}

/** Returns the part without these attributes. */
export function without(p: Part, names: ReadonlySet<string>): Part {
  if (names.size === 0) return p
  const kept = p.paths.map((q, i) => [q, p.buffers[i]!] as const).filter(([q]) => !names.has(String(q[0])))
  return {
    state: Object.fromEntries(Object.entries(p.state).filter(([k]) => !names.has(k))),
    paths: kept.map(([q]) => q),
    buffers: kept.map(([, d]) => d),
  }
}

/** Whether a state names its model, as only whole states do. */
export function whole(state: Record<string, unknown>): boolean {
  return typeof state._model_name === 'string' && typeof state._model_module === 'string'
}

/** Returns the ids of the models that a state refers to. */
export function references(value: unknown, found: Set<string> = new Set()): Set<string> {
  const rest = [value]
  while (rest.length > 0) {
    const v = rest.pop()
    if (typeof v === 'string') {
      if (v.startsWith(prefix)) found.add(v.slice(prefix.length))
    } else if (typeof v === 'object' && v !== null) for (const x of Object.values(v)) rest.push(x)
  }
  return found
}

/** Splits the answer of jupyter.widget.control to request_states into the states of the models. */
export function statesOf(content: Pick<CommContent, 'data' | 'buffers'>): Map<string, Part> {
  const { states, buffer_paths } = content.data ?? {}
  const out = new Map<string, Part>()
  if (!isObject(states)) return out
  for (const [id, s] of Object.entries(states)) if (isObject(s) && isObject(s.state)) out.set(id, { state: s.state, paths: [], buffers: [] })
  for (const [i, p] of (Array.isArray(buffer_paths) ? buffer_paths : []).entries()) {
    // A path begins with the id and the key state.
    const data = content.buffers?.[i]
    if (!Array.isArray(p) || p.length < 3 || p[1] !== 'state' || typeof data !== 'string') continue
    const part = out.get(String(p[0]))
    part?.paths.push(p.slice(2) as Path)
    part?.buffers.push(data)
  }
  return out
}
