import { computed, effect, signal } from '@preact/signals'
import { Sandgate, type Description, type SandgateError } from '@sandgate/client/base'
import { token, viewing } from './token'

type Connection =
  | { state: 'connecting'; tries: number }
  | { state: 'open' }
  | { state: 'waiting'; tries: number; ms: number; error: SandgateError }
  | { state: 'closed'; error: SandgateError }

/** The state of the WebSocket, for the banner. */
export const connection = signal<Connection | undefined>(undefined)
/** The browser has no network. */
export const offline = signal(!navigator.onLine)
/** The features of the server; undefined until it has answered. */
export const description = signal<Description | undefined>(undefined)
/** The reason why the server cannot be used with this token, or at all. */
export const refused = signal<SandgateError | undefined>(undefined)

/** The client of this page's server; undefined while no user is signed in. */
export const client = signal<Sandgate | undefined>(undefined)
/** The languages, with Python first, because most users want it. */
export const languages = computed(() => [...(description.value?.languages ?? [])].sort((a, b) => Number(b.name === 'python') - Number(a.name === 'python')))

/** A client exists while the user is signed in. Signing out closes it and everything it holds. */
export function startServer(): void {
  for (const type of ['online', 'offline']) addEventListener(type, () => (offline.value = !navigator.onLine))
  effect(() => {
    const secret = token.value
    client.peek()?.close()
    connection.value = description.value = refused.value = undefined
    if (!secret) {
      client.value = undefined
      return
    }
    const sg: Sandgate = new Sandgate({
      url: location.origin, token: secret, name: 'sandgate-web',
      onState: (s) => {
        if (client.peek() !== sg) return
        connection.value = s
        // A user of a share link has nothing to lose here.
        if (s.state === 'closed' && s.error.kind === 'unauthenticated' && viewing.peek()) refused.value = s.error
      },
    })
    client.value = sg
    void describe(sg)
  })
}

/** Requests the features of the server. Stores an error in `refused`. */
export async function describe(sg: Sandgate): Promise<void> {
  try {
    const d = await sg.describe()
    if (client.peek() !== sg) return
    description.value = d
    refused.value = undefined
  } catch (e) {
    if (client.peek() === sg) refused.value = e as SandgateError
  }
}

/** Whether the user has the scope. Until the server has answered, it is assumed. */
export const may = (scope: string): boolean => description.value?.scopes.includes(scope) ?? true

/** A language's name for people. */
export function languageName(name: string): string {
  return languages.value.find((l) => l.name === name)?.display_name ?? name
}
