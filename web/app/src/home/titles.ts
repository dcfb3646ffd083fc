import { offers, rest } from '../rest'

/** Returns the titles of the notebooks of sessions: of each, the one that was saved last. */
export async function titlesOfSessions(): Promise<ReadonlyMap<string, string>> {
  const titles = new Map<string, string>()
  if (!offers('GET /v1/notebooks')) return titles
  const { notebooks } = await rest<{ notebooks: { session: string; title?: string }[] }>('GET', '/v1/notebooks')
  for (const { session, title } of notebooks) if (title && !titles.has(session)) titles.set(session, title)
  return titles
}
