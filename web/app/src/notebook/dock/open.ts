// Functions that open and move tabs beside the notebook.
import type { Sandbox, SandgateError } from '@sandgate/client/base'
import { t } from '../../language/texts'
import { rest } from '../../rest'
import { shellMarks } from '../../terminal/marks'
import { ask } from '../../ui/dialog'
import { failed, toast } from '../../ui/toast'
import type { Desk } from '../desk'
import { formatNotebook } from '../ipynb'
import { parseAddress } from './address'
import { keyOf, stepped, type Dock, type DockTab } from './state'

/** Shows a tab beside the notebook. Returns false, with a message, if there are too many. */
export function openTab(desk: Desk, tab: DockTab): boolean {
  const there = desk.dock.peek()?.dock.open(tab) ?? false
  if (!there) toast(t('Close a tab first: there are too many'))
  else if (innerWidth <= 900) desk.pane.value = undefined // it covers the tabs on a phone
  return there
}

/** Shows a file beside the notebook, or another notebook. Returns false, with a message, if not. */
export function openFile(desk: Desk, path: string): boolean {
  if (path !== desk.main.notebook.path) return openTab(desk, { kind: path.endsWith('.ipynb') ? 'notebook' : 'file', path })
  toast(t('This page already shows {name}', { name: path }))
  return false
}

/** Opens a terminal beside the notebook. */
export async function openTerminal(desk: Desk): Promise<void> {
  const { session } = desk.main.notebook
  try {
    const terminal = await session.terminal({ cols: 80, rows: 24, env: shellMarks })
    terminal.close() // the pane attaches itself
    if (!openTab(desk, { kind: 'terminal', id: terminal.id })) await session.closeChannel(terminal.id)
  } catch (e) {
    failed(t('No terminal could be opened'), e)
  }
}

/**
 * Asks for a name, and makes an empty notebook. folder ends with a slash, or is empty for the home.
 * Returns the path; undefined if there is no notebook.
 */
export async function newNotebook(session: Sandbox, folder = ''): Promise<string | undefined> {
  const name = (await ask({ title: t('New notebook'), value: 'untitled.ipynb', placeholder: t('Name'), yes: t('Create') }))?.trim()
  if (!name) return undefined
  const path = `${folder}${name}${name.endsWith('.ipynb') ? '' : '.ipynb'}`
  try {
    await session.files.write(path, formatNotebook({ cells: [], metadata: {}, nbformat_minor: 5 }), { over: null })
    return path
  } catch (e) {
    failed(t('The notebook was not created'), (e as SandgateError).kind === 'conflict' ? new Error(t('There is already a file {name}', { name: path })) : e)
    return undefined
  }
}

/** Makes a notebook, and opens it beside the page's own. */
export async function makeNotebook(desk: Desk): Promise<void> {
  const path = await newNotebook(desk.main.notebook.session)
  if (path) openFile(desk, path)
}

/** Asks for a port, and shows it beside the notebook. It offers a port on which a program listens. */
export async function openPreview(desk: Desk): Promise<void> {
  const list = await rest<{ ports: { port: number }[] | null }>('GET', `/v1/sessions/${encodeURIComponent(desk.main.notebook.session.id)}/ports`).catch(() => undefined)
  const ports = (list?.ports ?? []).map((p) => p.port)
  const address = await ask({
    title: t('Preview a port'), value: String(ports[0] ?? ''), placeholder: t('Port, such as 8000'), yes: t('Show'),
    text: ports.length ? t('Programs of the session answer on these ports: {ports}.', { ports: ports.join(', ') }) : t('No program of the session answers on a port yet.'),
  })
  if (address === undefined) return
  const at = parseAddress(address)
  if (!at) return toast(t('A port is a number from 1 to 65535.'))
  openTab(desk, { kind: 'preview', ...at })
}

/** The tab that the user has used last. */
function tabOf(dock: Dock): string | undefined {
  const { groups, current } = dock.state.peek()
  const g = groups[current]
  return g && keyOf(g.tabs[g.at]!)
}

/** Moves the focus to the tabs. */
export function enterTabs(dock: Dock): void {
  const key = tabOf(dock)
  dock.set({ hidden: false })
  if (key) dock.wanted.value = key
}

/** Moves the tab in use to the group beside its own, and the focus with it. */
export function moveTab(dock: Dock, by: 1 | -1): void {
  const key = tabOf(dock)
  if (!key) return
  if (dock.move(key, stepped(dock.state.peek(), key, by, true))) dock.wanted.value = key
  else toast(t('The tab has no group to move to'))
}
