import type { ComponentType } from 'preact'
import { useState } from 'preact/hooks'
import type { Sandbox } from '@sandgate/client/base'
import { plural, rich, t } from '../language/texts'
import { facts } from '../notebook/languages'
import { offers, rest } from '../rest'
import { navigate, notebookPath, terminalPath } from '../router'
import { languageName, may } from '../server'
import { ask, confirm } from '../ui/dialog'
import { expiryOrNone } from '../ui/expiry'
import { Icon } from '../ui/icon'
import { Memory } from '../ui/memory'
import { Menu, MenuItem } from '../ui/menu'
import { renameSession } from '../ui/rename'
import { failed, toast } from '../ui/toast'
import { labelsOf, lostBecause, stateName, stateOf } from './filter'
import type { Preview } from './previews'
import { lookAtSnapshots } from './snapshots'

/** The facts about a session that a list does not have. */
export interface Detail {
  usage?: { memory_bytes: number; memory_max_bytes?: number } | undefined
  last?: string
  previews?: Preview[]
}

interface Props {
  session: Sandbox
  detail: Detail
  /** The title of its notebook. */
  title?: string | undefined
  changed: () => Promise<void>
  onLabel: (label: string) => void
  picked?: boolean
  /** Is there while sessions are selected. */
  onPick?: (on: boolean) => void
}

export function Row({ session: s, detail: { usage, last, previews }, title, changed, onLabel, picked, onPick }: Props) {
  const i = s.info
  const lost = i.state === 'lost'
  const word = stateOf(i)
  const act = (what: string, f: () => Promise<unknown>) => void f().then(changed, (e: unknown) => failed(what, e))
  const at = (op: string) => `/v1/sessions/${encodeURIComponent(s.id)}${op && `/${op}`}`
  const name = i.name || title || t('{language} session', { language: languageName(i.language) })
  const terminals = i.channels?.filter((c) => c.kind === 'terminal' && c.state !== 'exited').length ?? 0
  const [Over, setOver] = useState<ComponentType | undefined>()
  const manage = () => void import('./previews').then(
    ({ Previews }) => setOver(() => () => <Previews session={s} name={name} onClose={() => { setOver(undefined); void changed() }} />), (e: unknown) => failed(t('This part of the page could not be loaded'), e))
  return (
    <li class={`session ${word}`}>
      {Over && <Over />}
      {onPick && <input type="checkbox" class="pick" aria-label={t('Select {name}', { name })} checked={picked} onChange={(e) => onPick(e.currentTarget.checked)} />}
      <span class="language-badge" style={{ background: facts(i.language).colour }} aria-hidden="true">{facts(i.language).short}</span>
      <div class="grow">
        <a class="session-name" href={notebookPath(s.id)}>{name}</a>
        <p class="muted about">
          <span class={`state ${word}`}><i class="dot" />{lost && i.reason ? lostBecause(i.reason) : stateName(word)}</span>
          <span>{ago(i.active_ms)}</span>
          {!lost && <span class="expiry">{expiryOrNone(i)}</span>}
          {usage && <Memory used={usage.memory_bytes} most={usage.memory_max_bytes} />}
          {i.template && <span>{t('from {template}', { template: i.template })}</span>}
          {i.origin && <span>{rich('copy of {session}', { session: <code>{i.origin.slice(0, 10)}</code> })}</span>}
          {labelsOf(i).map((label) => <button key={label} type="button" class="label" aria-label={t('Show sessions with {label}', { label })} onClick={() => onLabel(label)}>{label}</button>)}
          {previews?.map((p) => p.url && <a key={p.id} class="label" href={p.url} target="_blank" rel="noreferrer noopener" aria-label={t('Open the preview {name}', { name: previewName(p) })}>{previewName(p)}</a>)}
          {i.keep_alive && <span>{t('kept awake')}</span>}
          {terminals > 0 && <span>{plural(terminals, '{n} terminal', '{n} terminals')}</span>}
          <code class="id" title={s.id}>{s.id.slice(0, 10)}</code>
        </p>
        {last && <pre class="last-output">{last}</pre>}
      </div>
      {!lost && <a class="button quiet open-terminal" href={terminalPath(s.id)} data-open aria-label={t('Terminal of {name}', { name })}><Icon name="terminal" /></a>}
      <Menu label={t('More for {name}', { name })} button={<Icon name="more" />}>
        {() => (
          <>
            {!lost && <MenuItem onClick={() => navigate(notebookPath(s.id))}><Icon name="notebook" />{t('Open')}</MenuItem>}
            <MenuItem onClick={() => void renameSession(s.id, i.name ?? '', name).then((done) => { if (done) void changed() })}><Icon name="edit" />{t('Rename…')}</MenuItem>
            {offers('POST /v1/sessions/{id}/fork') && !lost && <MenuItem onClick={() => act(t('The session was not forked'), async () => {
              const { sessions: [copy] } = await rest<{ sessions: { id: string }[] }>('POST', at('fork'), { name: t('{name} (copy)', { name }) })
              toast(t('The copy has all variables, files and programs'), { label: t('Open'), run: () => navigate(notebookPath(copy!.id)) })
            })}><Icon name="fork" />{t('Fork')}</MenuItem>}
            {offers('POST /v1/sessions/{id}/snapshots') && !lost && <MenuItem onClick={async () => {
              const as = await ask({ title: t('Save a snapshot'), text: t('New sessions can start from it, with all variables, files and programs of this moment.'), value: '', placeholder: t('Name, such as data-loaded'), yes: t('Save') })
              if (as === undefined) return
              act(t('The snapshot was not saved'), async () => {
                await rest('POST', at('snapshots'), as.trim() ? { name: as.trim() } : {})
                await lookAtSnapshots()
              })
            }}><Icon name="download" />{t('Save a snapshot…')}</MenuItem>}
            {offers('GET /v1/sessions/{id}/ports/links') && may('sessions:write') && !lost && <MenuItem onClick={manage}><Icon name="share" />{t('Preview links…')}</MenuItem>}
            {offers('POST /v1/sessions/{id}/pause') && i.state === 'running' && <MenuItem onClick={() => act(t('The session was not paused'), () => rest('POST', at('pause')))}><Icon name="pause" />{t('Pause')}</MenuItem>}
            {i.state === 'running' || i.state === 'paused'
              ? <MenuItem onClick={() => act(t('The session was not hibernated'), () => rest('POST', at('hibernate')))}><Icon name="moon" />{t('Hibernate')}</MenuItem>
              : !lost && <MenuItem onClick={() => act(t('The session was not resumed'), () => rest('POST', at('resume')))}><Icon name="play" />{t('Resume')}</MenuItem>}
            {i.state === 'paused' && <MenuItem onClick={() => act(t('The session was not resumed'), () => rest('POST', at('resume')))}><Icon name="play" />{t('Resume')}</MenuItem>}
            {!lost && <MenuItem onClick={() => act(t('The session was not changed'), () => rest('PATCH', at(''), { keep_alive: !i.keep_alive }))}><Icon name="sun" />{i.keep_alive ? t('Pause when idle') : t('Keep awake')}</MenuItem>}
            <hr />
            <MenuItem danger onClick={async () => {
              if (await confirm({ title: lost ? t('Remove “{name}”?', { name }) : t('End “{name}”?', { name }), text: lost ? t('Its sandbox is already gone. This removes it from the list.') : t('Its variables, files and running programs are deleted. Download the files that you need first.'), yes: lost ? t('Remove') : t('End session'), danger: true })) {
                act(t('The session was not ended'), () => s.delete())
              }
            }}><Icon name="trash" />{lost ? t('Remove') : t('End session…')}</MenuItem>
          </>
        )}
      </Menu>
    </li>
  )
}

const previewName = (p: Preview) => p.label || t('Port {port}', { port: p.port })

function ago(ms: number): string {
  const s = Math.max(0, (Date.now() - ms) / 1000)
  if (s < 60) return t('active just now')
  if (s < 3600) return t('active {n} min ago', { n: Math.round(s / 60) })
  if (s < 86_400) return t('active {n} h ago', { n: Math.round(s / 3600) })
  return plural(Math.round(s / 86_400), 'active {n} d ago', 'active {n} d ago')
}
