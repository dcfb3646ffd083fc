/** How long a sent value is waited for, in milliseconds. */
const expires = 10_000
/** The number of values of an attribute that are waited for. */
const maxSent = 64

/**
 * The values that this page has sent and that the kernel has not repeated yet. A kernel repeats each
 * change to all viewers. Without this, a slider that is being dragged would jump back to values that
 * it had a moment ago.
 */
export class Echoes {
  readonly #sent = new Map<string, { json: string; at: number }[]>()

  sent(state: Record<string, unknown>, now: number): void {
    for (const [name, value] of Object.entries(state)) {
      const list = this.#sent.get(name) ?? []
      list.push({ json: JSON.stringify(value), at: now })
      if (list.length > maxSent) list.shift()
      this.#sent.set(name, list)
    }
  }

  /** Returns the attributes of a repeated change that are older than the shown ones. */
  old(state: Record<string, unknown>, now: number): Set<string> {
    const names = new Set<string>()
    for (const [name, value] of Object.entries(state)) {
      const list = (this.#sent.get(name) ?? []).filter((s) => now - s.at < expires)
      if (list.length === 0) {
        this.#sent.delete(name)
        continue
      }
      names.add(name)
      const json = JSON.stringify(value)
      const at = list.findIndex((s) => s.json === json)
      if (at >= 0) list.splice(0, at + 1)
      this.#sent.set(name, list)
    }
    return names
  }
}
