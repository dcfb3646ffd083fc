import { t } from '../language/texts'
import { rest } from '../rest'
import { route } from '../router'
import { failed } from './toast'

const local = /^(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])$/

/** Returns the port of an address on the session's own machine; undefined for any other address. */
export function localPort(address: string): number | undefined {
  try {
    const { protocol, hostname, port } = new URL(address)
    if (!/^https?:$/.test(protocol) || !local.test(hostname)) return undefined
    return Number(port) || (protocol === 'https:' ? 443 : 80)
  } catch {
    return undefined
  }
}

/** Opens the page that a program of the session serves, such as http://localhost:8000/. */
export async function openPreview(address: string): Promise<void> {
  try {
    const { url } = await rest<{ url: string }>('POST', `/v1/sessions/${encodeURIComponent(route.peek().session)}/ports`, { port: localPort(address) })
    const [to, from] = [new URL(url), new URL(address)]
    to.pathname = from.pathname
    for (const [k, v] of from.searchParams) to.searchParams.append(k, v)
    window.open(to, '_blank', 'noopener,noreferrer')
  } catch (e) {
    failed(t('The preview was not opened'), e)
  }
}
