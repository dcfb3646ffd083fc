import { computed, effect, signal } from '@preact/signals'
import { Sandgate, type Description, type SandgateError } from '@sandgate/client'
import { token, viewing } from './token'

type Connection =
  | { state: 'connecting'; tries: number }
  | { state: 'open' }
  | { state: 'waiting'; tries: number; ms: number; error: SandgateError }
  | { state: 'closed'; error: SandgateError }

/** What becomes of the WebSocket, for the banner. */
export const connection = signal<Connection | undefined>(undefined)
/** What the server offers; undefined until it has answered. */
export const description = signal<Description | undefined>(undefined)
/** Why the server cannot be used with this token, or at all. */
export const refused = signal<SandgateError | undefined>(undefined)

/** The client of the server that this page came from; undefined while nobody is signed in. */
export const client = signal<Sandgate | undefined>(undefined)
/** The languages, Python first: most come for it. */
export const languages = computed(() => [...(description.value?.languages ?? [])].sort((a, b) => Number(b.name === 'python') - Number(a.name === 'python')))

/** Signed in, there is a client; signed out, there is none and all that it held ends. */
export function startServer(): void {
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
        // Who watches by a link has nothing here to lose.
        if (s.state === 'closed' && s.error.kind === 'unauthenticated' && viewing.peek()) refused.value = s.error
      },
    })
    client.value = sg
    void describe(sg)
  })
}

/** Asks what the server offers. Fails into `refused`. */
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

/** Whether whoever looks may do that; until the server has told, they may. */
export const may = (scope: string): boolean => description.value?.scopes.includes(scope) ?? true

/** A language's name for people. */
export function languageName(name: string): string {
  return languages.value.find((l) => l.name === name)?.display_name ?? name
}
