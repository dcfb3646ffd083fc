import type { Variable } from '@sandgate/client/base'

export type VariableKind = 'value' | 'function' | 'module'

/** Returns the group of a variable, by its type in its language. */
export function kindOfVariable(type: string): VariableKind {
  if (/^(module|package|ModuleType|Module)$/.test(type)) return 'module'
  // Classes of Python have the type of their metaclass.
  return /^(type|class|ABCMeta|EnumType|EnumMeta|Function|AsyncFunction|GeneratorFunction|Closure|ufunc|method|builtin_function_or_method|function\b.*|func\(.*)$/.test(type) ? 'function' : 'value'
}

/** Returns the variables of each group that have all words in their name, type or value. */
export function grouped(all: Variable[], filter: string): Record<VariableKind, Variable[]> {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean)
  const out: Record<VariableKind, Variable[]> = { value: [], function: [], module: [] }
  for (const v of all) {
    const text = `${v.name} ${v.type} ${v.value}`.toLowerCase()
    if (words.every((w) => text.includes(w))) out[kindOfVariable(v.type)].push(v)
  }
  return out
}
