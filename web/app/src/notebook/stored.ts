// The copies of notebooks that the server keeps outside of sandboxes.
import type { NotebookVersion } from '@sandgate/client/base'
import { rest } from '../rest'

const home = '/home/user/'
const one = (id: string): string => `/v1/notebooks/${encodeURIComponent(id)}/versions`

/** Returns the id of the server's copy of a notebook; undefined if it has none. */
export async function storedID(session: string, path: string): Promise<string | undefined> {
  const { notebooks } = await rest<{ notebooks: { id: string; path: string }[] }>('GET', `/v1/notebooks?session=${encodeURIComponent(session)}`)
  return notebooks.find((n) => n.path === path || n.path === home + path)?.id
}

/** Returns the versions of a stored notebook, newest first. */
export async function versionsOf(id: string): Promise<NotebookVersion[]> {
  return (await rest<{ versions: NotebookVersion[] }>('GET', one(id))).versions
}

/** Returns the text of a version. */
export async function textOf(id: string, version: string): Promise<string> {
  let text = ''
  for (let offset: number | undefined = 0; offset !== undefined;) {
    const part: { text: string; next?: number } = await rest('GET', `${one(id)}/${encodeURIComponent(version)}?offset=${offset}`)
    text += part.text
    offset = part.next || undefined
  }
  return text
}

/** Gives a version a name, with which it is kept. An empty name removes it. */
export async function nameVersion(id: string, version: string, name: string): Promise<void> {
  await rest('PATCH', `${one(id)}/${encodeURIComponent(version)}`, { name })
}

/** Ends a version: the next save begins another one. */
export async function closeVersion(id: string, v: NotebookVersion): Promise<void> {
  await rest('PATCH', `${one(id)}/${encodeURIComponent(v.id)}`, { name: v.name ?? '', closed: true })
}

/** Returns the notebook of a session as the server has it; undefined if it has none. */
export async function storedCopy(session: string, path: string): Promise<string | undefined> {
  const id = await storedID(session, path)
  const newest = id && (await versionsOf(id))[0]
  return newest ? textOf(id, newest.id) : undefined
}
