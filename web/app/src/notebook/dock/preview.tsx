import type { SandgateError } from '@sandgate/client/base'
import { useEffect, useState } from 'preact/hooks'
import { rich, t } from '../../language/texts'
import { rest } from '../../rest'
import { explain } from '../../ui/again'
import { Icon } from '../../ui/icon'
import { openPreview } from '../../ui/preview'
import { toast } from '../../ui/toast'
import type { Desk } from '../desk'
import { addressOf, parseAddress } from './address'
import { openTab } from './open'
import type { DockTab } from './state'

/** How long a program may take to answer on the port, in seconds. Waiting keeps the session awake. */
const patience = 10

type Tab = Extract<DockTab, { kind: 'preview' }>
type State = { url: string } | { problem: 'silent' | 'unset' | 'insecure' | Error }

/** Shows the page that a program of the session serves on a port, in a frame of another origin. */
export function Preview({ desk, tab, shown }: { desk: Desk; tab: Tab; shown: boolean }) {
  const { session, readOnly } = desk.main.notebook
  const [wanted, setWanted] = useState(shown)
  const [turn, setTurn] = useState(0)
  const [state, setState] = useState<State>()
  useEffect(() => {
    if (shown) setWanted(true)
  }, [shown])
  useEffect(() => {
    if (!wanted || readOnly) return
    let here = true
    setState(undefined)
    void load(session.id, tab).then((s) => here && setState(s))
    return () => {
      here = false
    }
  }, [wanted, turn, tab.path])
  const go = (text: string) => {
    const to = parseAddress(text, tab.port)
    if (!to) return toast(t('Enter an address of this session, such as {address}', { address: addressOf(tab) }))
    if (to.port === tab.port && to.path === tab.path) setTurn(turn + 1)
    else openTab(desk, { kind: 'preview', ...to })
  }
  const address = addressOf(tab)
  return (
    <div class="dock-preview">
      <form class="row dock-bar" onSubmit={(e) => { e.preventDefault(); go(new FormData(e.currentTarget).get('address') as string) }}>
        <button type="button" class="button icon quiet" aria-label={t('Reload')} title={t('Reload')} onClick={() => setTurn(turn + 1)}><Icon name="restart" /></button>
        <input key={address} class="field grow" name="address" aria-label={t('Address')} defaultValue={address} autocomplete="off" spellcheck={false} inputMode="url" />
        {!readOnly && <button type="button" class="button icon quiet" aria-label={t('Open in a new tab')} title={t('Open in a new tab')} onClick={() => void openPreview(`http://${address}`)}><Icon name="external" /></button>}
      </form>
      {readOnly ? <p class="dock-said muted">{t('Only users who may run code see previews.')}</p>
        : !state ? <p class="dock-said muted" role="status"><Icon name="spinner" spin /> {t('Waiting for a program on port {port}…', { port: tab.port })}</p>
        : 'problem' in state ? <div class="dock-said" role="alert"><p>{wordsOf(state.problem, tab.port)}</p><button type="button" class="button" onClick={() => setTurn(turn + 1)}>{t('Try again')}</button></div>
        : <iframe key={turn} src={state.url} title={t('Preview of port {port}', { port: tab.port })} sandbox="allow-scripts allow-same-origin allow-forms allow-modals allow-popups allow-downloads" referrerpolicy="no-referrer" />}
    </div>
  )
}

function wordsOf(problem: Extract<State, { problem: unknown }>['problem'], port: number) {
  switch (problem) {
    case 'silent': return t('No program answers on port {port}. Start one in a terminal or a cell, then try again.', { port })
    case 'unset': return rich('Previews have no host names at this address of the server. Its operator sets {setting}.', { setting: <code>ports_domain</code> })
    case 'insecure': return t('Browsers show a preview beside the notebook only over HTTPS. It can be opened in a new tab.')
    default: return explain(problem)
  }
}

/** Returns the address for the frame, once a program answers. */
async function load(session: string, { port, path }: Tab): Promise<State> {
  const ports = `/v1/sessions/${encodeURIComponent(session)}/ports`
  try {
    const url = new URL((await rest<{ url: string }>('POST', ports, { port, embed: true })).url)
    // The frame may run scripts as its origin, so that must not be the page's.
    if (url.origin === location.origin) return { problem: 'unset' }
    if (url.protocol !== 'https:' && !url.hostname.endsWith('.localhost')) return { problem: 'insecure' }
    await rest('GET', `${ports}/${port}/wait?seconds=${patience}`)
    const from = new URL(`http://localhost${path}`)
    url.pathname = from.pathname
    url.hash = from.hash
    for (const [k, v] of from.searchParams) url.searchParams.append(k, v)
    return { url: url.href }
  } catch (e) {
    const { kind } = e as SandgateError
    return { problem: kind === 'deadline_exceeded' ? 'silent' : kind === 'unsupported' ? 'unset' : e as Error }
  }
}
