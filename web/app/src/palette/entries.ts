import type { FileInfo } from '@sandgate/client/base'
import { stateName } from '../home/filter'
import { titlesOfSessions } from '../home/titles'
import { t } from '../language/texts'
import { filesPath, offers, rest } from '../rest'
import { consolePath, navigate, notebookPath, route, terminalPath } from '../router'
import { client, description, languageName, may } from '../server'
import { signOut, viewing } from '../token'
import { settingsOpen } from '../ui/bar'
import { choices, switches } from '../ui/choices'
import { ask } from '../ui/dialog'
import type { Entry } from '../ui/palette'
import { renameSession } from '../ui/rename'
import { failed, toast } from '../ui/toast'

/** The number of files that are searched in the home, and in each of its folders, to a depth. */
const maxFiles = 1000
const maxFolder = 500
const depth = 5

/** Returns an entry for each value of each setting. */
export function settingEntries(): Entry[] {
  return [
    { id: 'all', kind: 'Setting', name: t('All settings…'), words: t('preferences options'), run: () => (settingsOpen.value = true) },
    ...choices().flatMap(({ name, words, setting, options }) => options.map(({ value, label }): Entry => ({
      id: `${name}: ${label}`, kind: 'Setting', name: `${name}: ${label}`, words, ...(setting.peek() === value ? { note: t('now') } : {}), run: () => (setting.value = value),
    }))),
    ...switches().map(({ name, words, setting }): Entry => ({
      id: name, kind: 'Setting', name: setting.peek() ? t('{setting}: turn off', { setting: name }) : t('{setting}: turn on', { setting: name }), words, run: () => (setting.value = !setting.peek()),
    })),
  ]
}

/** The views of the console, with the scopes that they need. */
const views = (): [view: string, name: string, scope: string][] => [
  ['overview', t('Console: overview'), 'admin'], ['nodes', t('Console: nodes'), 'admin'], ['usage', t('Console: usage'), 'sessions:read'],
  ['tenants', t('Console: tenants and quotas'), 'keys'], ['keys', t('Console: keys'), 'keys'], ['audit', t('Console: audit log'), 'keys'],
]

/** Returns the commands that every page has. */
export function commonEntries(): Entry[] {
  const { page, session } = route.peek()
  const go = (id: string, name: string, to: string, words = ''): Entry => ({ id, kind: 'Command', name, words, run: () => navigate(to) })
  return [
    ...(page === 'home' || viewing.peek() ? [] : [go('home', t('Home: all sessions'), '/', t('start list'))]),
    ...(session && page !== 'notebook' ? [go('notebook', t('Open the notebook'), notebookPath(session))] : []),
    ...(session && page !== 'terminal' ? [{ ...go('terminal', t('Open the terminal'), '', t('shell console bash')), run: () => navigate(terminalPath(session), { open: true }) }] : []),
    ...(session && may('sessions:write') && !viewing.peek() ? sessionEntries(session) : []),
    ...(!viewing.peek() && description.peek() ? views().filter(([,, scope]) => may(scope)).map(([v, name]) => go(`console ${v}`, name, consolePath(v), t('administration operator'))) : []),
    { id: 'sign out', kind: 'Command', name: viewing.peek() ? t('Stop watching') : t('Sign out'), words: t('log out leave'), run: signOut },
  ]
}

/** Returns the commands for the session of the page. */
function sessionEntries(session: string): Entry[] {
  const at = `/v1/sessions/${encodeURIComponent(session)}`
  const entry = (id: string, name: string, words: string, what: string, f: () => Promise<unknown>): Entry =>
    ({ id, kind: 'Command', name, words, run: () => void f().catch((e: unknown) => failed(what, e)) })
  return [
    entry('rename session', t('Rename the session…'), t('title'), t('The session was not renamed'), async () => {
      await renameSession(session, (await client.peek()!.getSandbox(session)).info.name ?? '')
    }),
    ...(offers('POST /v1/sessions/{id}/fork') ? [entry('fork session', t('Fork the session'), t('copy clone duplicate branch'), t('The session was not forked'), async () => {
      const { sessions: [copy] } = await rest<{ sessions: { id: string }[] }>('POST', `${at}/fork`, {})
      toast(t('The copy has all variables, files and programs'), { label: t('Open'), run: () => navigate(notebookPath(copy!.id)) })
    })] : []),
    ...(offers('POST /v1/sessions/{id}/snapshots') ? [entry('snapshot session', t('Save a snapshot of the session…'), t('backup'), t('The snapshot was not saved'), async () => {
      const as = await ask({ title: t('Save a snapshot'), text: t('New sessions can start from it, with all variables, files and programs of this moment.'), value: '', placeholder: t('Name, such as data-loaded'), yes: t('Save') })
      if (as === undefined) return
      await rest('POST', `${at}/snapshots`, as.trim() ? { name: as.trim() } : {})
      toast(t('The snapshot is saved'))
    })] : []),
  ]
}

/** Returns the other sessions of the user, those that were used last first. */
export async function otherSessions(): Promise<Entry[]> {
  if (viewing.peek() || !may('sessions:read')) return []
  const here = route.peek().session
  const [all, titles] = await Promise.all([client.peek()!.sessions(), titlesOfSessions().catch((): ReadonlyMap<string, string> => new Map())])
  return all.filter((s) => s.id !== here && s.info.state !== 'lost').sort((a, b) => b.info.active_ms - a.info.active_ms).map(({ id, info }) => ({
    id, kind: 'Session', name: info.name || titles.get(id) || t('{language} session', { language: languageName(info.language) }), note: `${stateName(info.state)}, ${id.slice(0, 10)}`,
    words: `${id} ${info.language} ${Object.entries(info.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(' ')}`, run: () => navigate(notebookPath(id)),
  }))
}

interface Listing {
  path: string
  entries: (FileInfo & { raw?: string })[]
}

/**
 * Returns the files of the page's session, without hidden ones. open shows a file that is no
 * notebook.
 */
export async function sessionFiles(open: (path: string) => void): Promise<Entry[]> {
  const { session } = route.peek()
  if (!session || !offers('POST /v1/sessions/{id}/files/{path}')) return []
  const list = (path: string, query: string) => rest<Listing>('GET', `${filesPath(session, path)}?list&${query}`)
  const { path: home, entries } = await list('', `limit=${maxFiles}`)
  const hidden = (f: FileInfo) => f.path.slice(home.length).includes('/.')
  // A folder of hidden files can have more files than are listed, so each folder is listed alone.
  const folders = await Promise.all(entries.filter((f) => f.dir && !f.raw && !hidden(f)).map((f) => list(f.path, `depth=${depth}&limit=${maxFolder}`).then((l) => l.entries, () => [])))
  return [entries, ...folders].flat().filter((f) => !f.dir && !f.raw && !hidden(f)).map((f): Entry => {
    const path = f.path.slice(home.length + 1)
    const at = path.lastIndexOf('/')
    return {
      id: path, kind: 'File', name: path.slice(at + 1), words: path, ...(at > 0 ? { note: path.slice(0, at) } : {}),
      run: () => (path.endsWith('.ipynb') ? navigate(`${notebookPath(session)}?file=${encodeURIComponent(path)}`) : open(path)),
    }
  })
}
