import { signal } from '@preact/signals'

const name = 'sandgate.token'

/**
 * The access token. It comes in the fragment of the address that `sandgate
 * serve` prints, which browsers send to nobody, and is taken out of the address
 * bar at once. It is kept in this browser until sign-out, so that a link to a
 * session opens in a second tab. Output of programs never runs in this origin.
 */
export const token = signal<string>('')

export function takeToken(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get('token')
  if (given) {
    history.replaceState(null, '', location.pathname + location.search)
    signIn(given)
    return
  }
  try {
    token.value = localStorage.getItem(name) ?? ''
  } catch {
    // A browser that keeps nothing.
  }
}

export function signIn(t: string): void {
  // The whole printed address may be pasted too.
  const given = /#(?:.*&)?token=([^&\s]+)/.exec(t)?.[1]
  token.value = (given ? decodeURIComponent(given) : t).trim()
  try {
    localStorage.setItem(name, token.value)
  } catch {
    // Then it lasts as long as this page.
  }
}

export function signOut(): void {
  try {
    localStorage.removeItem(name)
  } catch {
    // There is none.
  }
  token.value = ''
}
