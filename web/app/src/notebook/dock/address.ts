import { isPort } from './state'

/**
 * Reads an address of a program in the session, such as 8000, localhost:8000/page or /page.
 * Without a port it is on the given one. Returns undefined for addresses elsewhere.
 */
export function parseAddress(text: string, port = 0): { port: number; path: string } | undefined {
  const found = /^(?:(?:https?:\/\/)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?=[:/]|$))?:?(\d{1,5})?(\/\S*)?$/.exec(text.trim())
  if (!found) return undefined
  const at = found[1] === undefined ? port : Number(found[1])
  return isPort(at) ? { port: at, path: found[2] ?? '/' } : undefined
}

/** Returns the address as people write it. */
export const addressOf = ({ port, path }: { port: number; path: string }): string => `localhost:${port}${path}`
