import type * as Y from 'yjs'
import { t } from '../../language/texts'

/** The state of a member that the others see. */
export interface MemberState {
  user: { name: string; color: string; colorLight: string }
  /** The selection in an editor, as positions of Yjs. */
  cursor?: { anchor: unknown; head: unknown } | null
  /** The cell in which the member is. */
  cell?: string
}

type Listener = (change: { added: number[]; updated: number[]; removed: number[] }, origin: unknown) => void

const palette = ['#b3261e', '#a15c00', '#4d6b00', '#00704a', '#006b8f', '#3d5afe', '#7b3ff2', '#b0137d']

/** The name of this user, which the browser remembers. */
export function savedName(): string {
  try {
    return localStorage.getItem('sandgate.name') ?? ''
  } catch {
    return ''
  }
}

export function saveName(name: string): void {
  try {
    localStorage.setItem('sandgate.name', name)
  } catch {
    // The browser stores nothing.
  }
}

export function userOf(client: number): MemberState['user'] {
  const color = palette[client % palette.length]!
  return { name: savedName() || t('Guest {n}', { n: 100 + client % 900 }), color, colorLight: `${color}33` }
}

/**
 * The members of a document, and what they show of themselves. It has the part of the interface of
 * Yjs's Awareness that editors use. The server says who has left, so nothing ends by time.
 */
export class Members {
  readonly doc: Y.Doc
  /** Called when this member shows something else. */
  tell: () => void = () => {}
  readonly #states = new Map<number, MemberState>()
  readonly #listeners = new Set<Listener>()

  constructor(doc: Y.Doc) {
    this.doc = doc
    this.#states.set(doc.clientID, { user: userOf(doc.clientID) })
  }

  getStates(): Map<number, MemberState> {
    return this.#states
  }

  getLocalState(): MemberState {
    return this.#states.get(this.doc.clientID)!
  }

  setLocalStateField<K extends keyof MemberState>(field: K, value: MemberState[K]): void {
    this.#states.set(this.doc.clientID, { ...this.getLocalState(), [field]: value })
    this.tell()
    this.#report({ added: [], updated: [this.doc.clientID], removed: [] }, 'local')
  }

  on(_: 'change', f: Listener): void {
    this.#listeners.add(f)
  }

  off(_: 'change', f: Listener): void {
    this.#listeners.delete(f)
  }

  /** Takes what another member shows, which is checked because editors draw it. */
  set(client: number, state: unknown): void {
    const s = (typeof state === 'object' && state !== null ? state : {}) as Partial<MemberState>
    const given = String(s.user?.color)
    if (!/^#[0-9a-f]{6}$/.test(given)) return
    const name = String(s.user?.name ?? '').slice(0, 40) || t('Guest')
    const before = this.#states.get(client)
    const added = before ? [] : [client]
    // An editor draws the name at a cursor again only if the colour differs.
    const alpha = before && (before.user.name === name) === before.user.color.endsWith('fe') ? 'fe' : 'ff'
    this.#states.set(client, {
      user: { name, color: given + alpha, colorLight: `${given}33` },
      ...(s.cursor ? { cursor: s.cursor } : {}), ...(typeof s.cell === 'string' ? { cell: s.cell } : {}),
    })
    this.#report({ added, updated: added.length ? [] : [client], removed: [] }, 'remote')
  }

  remove(clients: number[]): void {
    const removed = clients.filter((c) => c !== this.doc.clientID && this.#states.delete(c))
    if (removed.length) this.#report({ added: [], updated: [], removed }, 'remote')
  }

  /** Forgets the others: the connection was lost. */
  alone(): void {
    this.remove([...this.#states.keys()])
  }

  #report(change: Parameters<Listener>[0], origin: unknown): void {
    for (const f of [...this.#listeners]) f(change, origin)
  }
}
