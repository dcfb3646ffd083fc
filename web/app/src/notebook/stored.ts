// The copies of notebooks that the server keeps outside of sandboxes.
import { rest } from '../rest'

const home = '/home/user/'

/** Returns the notebook of a session as the server has it; undefined if it has none. */
export async function storedCopy(session: string, path: string): Promise<string | undefined> {
  const { notebooks } = await rest<{ notebooks: { id: string; path: string }[] }>('GET', `/v1/notebooks?session=${encodeURIComponent(session)}`)
  const found = notebooks.find((n) => n.path === path || n.path === home + path)
  if (!found) return undefined
  const all = `/v1/notebooks/${encodeURIComponent(found.id)}/versions`
  const { versions } = await rest<{ versions: { id: string }[] }>('GET', all)
  let text = ''
  for (let offset: number | undefined = 0; offset !== undefined;) {
    const part: { text: string; next?: number } = await rest('GET', `${all}/${encodeURIComponent(versions[0]!.id)}?offset=${offset}`)
    text += part.text
    offset = part.next || undefined
  }
  return text
}
