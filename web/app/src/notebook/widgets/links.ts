import type { Member } from './member'
import { references } from './state'

/**
 * Models without a view that keep attributes of other models equal: jslink and jsdlink. One frame
 * carries out each link. If two did, their messages would cross.
 */
export class Links {
  readonly #links = new Map<string, { ends: Set<string>; by: Member | undefined }>()

  add(id: string, state: Record<string, unknown>): void {
    if (state._model_module !== '@jupyter-widgets/controls' || (state._model_name !== 'LinkModel' && state._model_name !== 'DirectionalLinkModel')) return
    this.#links.set(id, { ends: references([state.source, state._model_name === 'LinkModel' ? state.target : undefined]), by: undefined })
  }

  remove(id: string): void {
    this.#links.delete(id)
  }

  left(m: Member): void {
    for (const l of this.#links.values()) if (l.by === m) l.by = undefined
  }

  /** Gives each link to a frame that has one of the models that a user changes. */
  assign(members: Iterable<Member>): void {
    for (const [id, l] of this.#links) {
      if (l.by) continue
      for (const m of members) {
        if (![...l.ends].some((end) => m.has(end))) continue
        l.by = m
        m.link(id)
        break
      }
    }
  }

  clear(): void {
    this.#links.clear()
  }
}
