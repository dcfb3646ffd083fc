import { signal } from '@preact/signals'
import { SandgateError } from '@sandgate/client/base'
import { t } from './language/texts'
import { token } from './token'

/**
 * The routes of the server, such as "POST /v1/sessions/{id}/fork". Features that an older server
 * lacks are not shown.
 */
export const offered = signal<ReadonlySet<string>>(new Set())

export async function startOffers(): Promise<void> {
  try {
    const doc = (await (await fetch('/v1/openapi.json')).json()) as { paths: Record<string, Record<string, unknown>> }
    offered.value = new Set(Object.entries(doc.paths).flatMap(([path, ops]) => Object.keys(ops).map((m) => `${m.toUpperCase()} ${path}`)))
  } catch {
    // Then only features of every server are shown.
  }
}

export const offers = (operation: string): boolean => offered.value.has(operation)

/** Sends a request for which the client has no method. */
export async function rest<T>(method: string, path: string, body?: unknown): Promise<T> {
  const text = await (await ask(method, path, body)).text()
  return (text ? JSON.parse(text) : undefined) as T
}

/** Returns the content of a path. */
export async function restBlob(path: string): Promise<Blob> {
  return (await ask('GET', path)).blob()
}

async function ask(method: string, path: string, body?: unknown): Promise<Response> {
  let res: Response
  try {
    res = await fetch(path, {
      method, credentials: 'omit', redirect: 'error',
      headers: { Authorization: `Bearer ${token.peek()}`, ...(body === undefined ? {} : { 'Content-Type': body instanceof Blob ? 'application/octet-stream' : 'application/json' }) },
      ...(body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) }),
    })
  } catch (e) {
    throw new SandgateError('unavailable', t('the server cannot be reached'), { cause: e })
  }
  if (res.ok) return res
  const text = await res.text()
  let said: { kind?: string; message?: string } = {}
  try {
    said = (JSON.parse(text) as { error: typeof said }).error
  } catch {
    // The error page of a proxy.
  }
  throw new SandgateError(said.kind ?? 'unavailable', said.message ?? t('the server answered {status}', { status: res.status }))
}

/** Returns the address of a path in a session's files. An empty path is the user's home. */
export function filesPath(session: string, path: string): string {
  return `/v1/sessions/${encodeURIComponent(session)}/files/${path.split('/').map(encodeURIComponent).join('/')}`
}
