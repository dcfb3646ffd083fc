import { signal } from '@preact/signals'
import { viewing } from './token'

/**
 * The location: / is home, /s/<session> its notebook, /s/<session>/terminal its terminals, and
 * /console/<view> a view of the console.
 */
export interface Route {
  page: 'home' | 'notebook' | 'terminal' | 'console' | 'missing'
  session: string
  /** The view of the console; empty on other pages. */
  view: string
  query: URLSearchParams
}

export function parse(url: URL): Route {
  const [root, session = '', view = '', ...rest] = url.pathname.split('/').slice(1).map(decode)
  const query = url.searchParams
  if (root === '' && session === '') return { page: 'home', session: '', view: '', query }
  if (root === 'console' && view === '' && rest.length === 0) return { page: 'console', session: '', view: session, query }
  if (root === 's' && session && rest.length === 0) {
    if (view === '') return { page: 'notebook', session, view: '', query }
    if (view === 'terminal') return { page: 'terminal', session, view: '', query }
  }
  return { page: 'missing', session: '', view: '', query }
}

function decode(s: string): string {
  try {
    return decodeURIComponent(s)
  } catch {
    return s
  }
}

export const route = signal<Route>(parse(new URL(location.href)))

/**
 * Goes to an address of this application. With open, the page of terminals opens one if there is
 * none; an address alone starts nothing.
 */
export function navigate(to: string, o: { replace?: boolean; open?: boolean } = {}): void {
  const url = new URL(to, location.href)
  // A share link is only valid for its session.
  if (viewing.peek() && parse(url).session !== route.peek().session) return location.assign(url)
  const state = o.open ? { open: true } : null
  if (o.replace) history.replaceState(state, '', url)
  else history.pushState(state, '', url)
  arrived(!o.replace)
}

function arrived(top: boolean): void {
  route.value = parse(new URL(location.href))
  if (top) scrollTo(0, 0)
}

/** Handles links of this application without loading the page again. */
export function startRouter(): void {
  addEventListener('popstate', () => arrived(false))
  document.addEventListener('click', (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
    const a = (e.target as Element | null)?.closest?.('a')
    if (!a || a.target || a.hasAttribute('download') || a.origin !== location.origin) return
    if (parse(new URL(a.href)).page === 'missing') return
    e.preventDefault()
    navigate(a.href, { open: a.dataset.open !== undefined })
  })
}

export const consolePath = (view: string) => `/console/${view}`
export const notebookPath = (session: string) => `/s/${encodeURIComponent(session)}`
export const terminalPath = (session: string) => `/s/${encodeURIComponent(session)}/terminal`
/** Returns the path of the replay of a channel's output, or of one execution. */
export const castPath = (session: string, channel: string, cell?: number) => `${terminalPath(session)}?cast=${encodeURIComponent(channel)}${cell ? `&cell=${cell}` : ''}`
