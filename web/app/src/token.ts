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
  if (!token.value) void takeSignIn()
}

/**
 * Takes the token of a user who has signed in at the server's provider. It is
 * kept by this page alone; the next one asks for its own.
 */
async function takeSignIn(): Promise<void> {
  if (!(await provider())) return
  try {
    const res = await fetch('/auth/token', { method: 'POST', credentials: 'same-origin', redirect: 'error' })
    if (res.ok && !token.value) token.value = ((await res.json()) as { token: string }).token
  } catch {
    // Then the page for signing in says what to do.
  }
}

/** Where users sign in at a provider, if the server has one. */
export async function provider(): Promise<string | undefined> {
  try {
    const res = await fetch('/auth', { credentials: 'omit', redirect: 'error' })
    return res.ok ? ((await res.json()) as { sign_in: string }).sign_in : undefined
  } catch {
    return undefined
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
  if (token.value.startsWith('sgs_')) {
    void fetch('/auth/logout', { method: 'POST', credentials: 'same-origin', redirect: 'error' }).catch(() => undefined)
  }
  token.value = ''
}
