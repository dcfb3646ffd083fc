import { computed, signal } from '@preact/signals'

const name = 'sandgate.token'
/** Set while this browser's user is signed in at the server's provider. */
const providerName = 'sandgate.provider'
/** The token of a share link, stored by this tab, for this session. */
const viewName = 'sandgate.view'
const viewPrefix = 'sgv_'

/**
 * The access token. It comes in the fragment of the address that `sandgate serve` prints, which
 * browsers send to no server, and is removed from the address bar at once. This browser stores it
 * until sign-out, so that a link to a session opens in a second tab. Output of programs never runs
 * in this origin.
 */
export const token = signal<string>('')

/**
 * A token of the address while another one is in use. The sender of the address can read the data of
 * the token's sessions, so that the page asks before it uses the token.
 */
export const offered = signal<string>('')

/** The page was opened with a share link: it is for one session, and changes nothing. */
export const viewing = computed(() => token.value.startsWith(viewPrefix))

/** Returns the page of the session whose share link this tab has. */
function ownView(): string | undefined {
  try {
    const v = JSON.parse(sessionStorage.getItem(viewName) ?? 'null') as { at: string; token: string } | null
    return v && (location.pathname === v.at || location.pathname.startsWith(`${v.at}/`)) ? v.token : undefined
  } catch {
    return undefined
  }
}

export function takeToken(): void {
  const view = new URLSearchParams(location.hash.slice(1)).get('view')
  if (view?.startsWith(viewPrefix)) {
    history.replaceState(null, '', location.pathname + location.search)
    try {
      sessionStorage.setItem(viewName, JSON.stringify({ at: location.pathname.split('/').slice(0, 3).join('/'), token: view }))
    } catch {
      // Then it lasts as long as this page.
    }
    token.value = view
    return
  }
  const seen = ownView()
  if (seen) {
    token.value = seen
    return
  }
  const given = new URLSearchParams(location.hash.slice(1)).get('token')
  if (given) history.replaceState(null, '', location.pathname + location.search)
  if (!token.value) token.value = stored(name)
  if (token.value) offer(given)
  else if (!given) void takeSignIn()
  else if (!stored(providerName)) signIn(given)
  else void takeSignIn().then(() => (token.value ? offer(given) : signIn(given)))
}

function stored(key: string): string {
  try {
    return localStorage.getItem(key) ?? ''
  } catch {
    return '' // the browser stores nothing
  }
}

/** Offers a token of the address, unless it is in use already. */
function offer(given: string | null): void {
  if (given && given !== token.value) offered.value = given
}

/**
 * Takes the token of a user who has signed in at the server's provider. Only this page holds it;
 * the next page requests its own.
 */
async function takeSignIn(): Promise<void> {
  if (!(await provider())) return
  try {
    const res = await fetch('/auth/token', { method: 'POST', credentials: 'same-origin', redirect: 'error' })
    if (!res.ok || token.value) return
    token.value = ((await res.json()) as { token: string }).token
    localStorage.setItem(providerName, '1')
  } catch {
    // Then the sign-in page explains what to do.
  }
}

/** Returns the address for signing in at a provider, if the server has one. */
export async function provider(): Promise<string | undefined> {
  try {
    const res = await fetch('/auth', { credentials: 'omit', redirect: 'error' })
    return res.ok ? ((await res.json()) as { sign_in: string }).sign_in : undefined
  } catch {
    return undefined
  }
}

export function signIn(t: string): void {
  // The user may also paste the whole printed address.
  const given = /#(?:.*&)?token=([^&\s]+)/.exec(t)?.[1]
  token.value = (given ? decodeURIComponent(given) : t).trim()
  try {
    localStorage.setItem(name, token.value)
  } catch {
    // Then it lasts as long as this page.
  }
}

export function signOut(): void {
  if (viewing.peek()) {
    try {
      sessionStorage.removeItem(viewName)
    } catch {
      // There is none.
    }
    location.assign('/') // with the stored credentials of this browser
    return
  }
  try {
    localStorage.removeItem(name)
    localStorage.removeItem(providerName)
    // The notebooks that this browser keeps, and the places of files and terminals.
    for (const key of Object.keys(localStorage)) if (/^sandgate\.(copy\.|copies$|draft\.|dock\.|pane\.|terminals\.)/.test(key)) localStorage.removeItem(key)
  } catch {
    // There is none.
  }
  if (token.value.startsWith('sgs_')) {
    void fetch('/auth/logout', { method: 'POST', credentials: 'same-origin', redirect: 'error' }).catch(() => undefined)
  }
  token.value = ''
}
