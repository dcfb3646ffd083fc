import { viewing } from './token'

/** How long after the start the service worker is registered, so that the page comes first. */
const after = 3000

interface Policies {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string }
}

/**
 * Registers the service worker, with which the application starts without the server too. A page
 * without TLS has none, except on this machine.
 */
export function startWorker(): void {
  if (!('serviceWorker' in navigator) || viewing.peek() || import.meta.env.DEV) return
  // The page's content policy takes no plain text as the address of a script.
  const policy = (globalThis as { trustedTypes?: Policies }).trustedTypes?.createPolicy('worker', { createScriptURL: (url) => url })
  const address = '/worker.js'
  setTimeout(() => {
    void navigator.serviceWorker.register(policy?.createScriptURL(address) ?? address).catch(() => {}) // then it is as before
  }, after)
}
