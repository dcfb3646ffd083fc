import type { Presence, Sandbox } from '@sandgate/client/base'
import { useEffect, useState } from 'preact/hooks'
import { t } from '../language/texts'
import { languageName } from '../server'
import { autosave } from '../settings'
import { Icon } from '../ui/icon'
import { Memory } from '../ui/memory'
import { Menu, MenuItem } from '../ui/menu'
import { People } from '../ui/presence'
import { duration } from './cell-view'
import { commands, restart } from './commands'
import type { View } from './desk'
import { keysOf } from './keys'
import { facts } from './languages'
import type { Notebook } from './notebook'

/** The item of a menu for a command. */
export function CommandItem({ view, id }: { view: View; id: string }) {
  const keys = keysOf(id)[0]
  const c = commands()[id]!
  return <MenuItem onClick={() => c.run(view.notebook, view.shell)} {...(keys ? { keys } : {})}>{c.name}</MenuItem>
}

/** Says whether the notebook is saved. */
export function SaveState({ notebook: n }: { notebook: Notebook }) {
  const state = n.ended.value === undefined ? n.saved.value : 'failed'
  const words = { saved: t('Saved'), unsaved: autosave.value ? t('Editing') : t('Unsaved changes'), saving: t('Saving…'), failed: t('Not saved') }
  return <span class={`save-state ${n.saved.value}`}>{words[state]}</span>
}

/** Shows who edits the notebook by name, and the number of those who only watch. */
export function Everybody({ notebook: n, presence }: { notebook: Notebook; presence?: Presence | undefined }) {
  const Here = n.people.value?.PeopleHere
  const sharing = n.sharing.value
  return <>{(!sharing || !!presence?.viewers) && <People presence={presence} readOnly={n.readOnly} />}{Here && sharing && <Here notebook={n} sharing={sharing} />}</>
}

/**
 * The state of the kernels, and buttons to run and stop cells. shared says that other notebooks use
 * the kernels too.
 */
export function RunControls({ view, shared = false }: { view: View; shared?: boolean }) {
  const n = view.notebook
  return (
    <>
      <KernelChip view={view} shared={shared} />
      {!n.readOnly && <span class="split-button">
        <button type="button" class="button" aria-label={t('Run all')} title={t('Run all')} onClick={() => n.runAll()}><Icon name="play" /><span class="wide">{t('Run all')}</span></button>
        <Menu label={t('More ways to run')} class="button icon" button={<Icon name="more" />}>
          {() => <>{['run', 'run-above', 'run-below'].map((id) => <CommandItem key={id} view={view} id={id} />)}<hr />{['restart', 'restart-run', 'clear-outputs'].map((id) => <CommandItem key={id} view={view} id={id} />)}</>}
        </Menu>
      </span>}
      {/* It is no neighbour that moves under the pointer: a double click on Run all would stop it. */}
      {!n.readOnly && <StopButton notebook={n} />}
    </>
  )
}

/** Shows the state of the kernels in words. */
function KernelChip({ view, shared }: { view: View; shared: boolean }) {
  const n = view.notebook
  const all = n.kernels.all.value
  const has = (state: string) => all.some((k) => k.state.value === state)
  const state = n.ended.value !== undefined ? 'ended' : has('dead') ? 'dead' : has('starting') ? 'starting' : has('busy') ? 'busy' : has('idle') ? 'ready' : 'not-started'
  const word = { ended: t('Ended'), dead: t('Dead'), starting: t('Starting'), busy: t('Busy'), ready: t('Ready'), 'not-started': t('Not started') }[state]
  const words = { none: t('none|the state of a kernel'), starting: t('starting|the state of a kernel'), idle: t('idle|the state of a kernel'), busy: t('busy|the state of a kernel'), dead: t('dead|the state of a kernel') }
  return (
    <Menu label={t('Kernels: {state}', { state: word })} class={`button quiet chip ${state}`} button={<><i class="dot" /><span class="wide">{word}</span></>}>
      {() => (
        <>
          {all.length === 0 && <p class="usage muted">{t('No kernel is running. Run a cell to start one.')}</p>}
          {all.map((k) => (
            <div key={k.language} class="kernel" role="group" aria-label={languageName(k.language)}>
              <i class="dot" style={{ background: facts(k.language).colour }} /><span class="grow">{languageName(k.language)} <span class="muted">{words[k.state.value]}</span></span>
              {!n.readOnly && <MenuItem disabled={k.state.value !== 'busy'} onClick={() => void n.interrupt(undefined, k)}>{t('Interrupt')}</MenuItem>}
              {!n.readOnly && <MenuItem onClick={() => void restart(n, k.language)}>{t('Restart…')}</MenuItem>}
            </div>
          ))}
          <hr />
          {shared && <p class="usage muted">{t('All notebooks of the session share its kernels and their variables.')}</p>}
          <Usage notebook={n} />
        </>
      )}
    </Menu>
  )
}

/** Shows the resource use of the session, and its limit, while the menu is open. */
function Usage({ notebook: n }: { notebook: Notebook }) {
  const [used, setUsed] = useState<Sandbox['info']['usage']>()
  useEffect(() => {
    const look = () => void n.session.refresh().then((i) => setUsed(i.usage), () => {}) // a session that is not running uses nothing
    look()
    const timer = setInterval(look, 2000)
    return () => clearInterval(timer)
  }, [n])
  if (!used) return null
  return (
    <p class="usage muted">
      {t('Memory')} <Memory used={used.memory_bytes} most={used.memory_max_bytes} drawn /><br />{t('{time} of processor time', { time: duration(used.cpu_ms) })}
    </p>
  )
}

/** Interrupts. If that has not helped within 3 s, it kills. */
function StopButton({ notebook: n }: { notebook: Notebook }) {
  const busy = n.kernels.busy.value
  const [asked, setAsked] = useState<'no' | 'asked' | 'force'>('no')
  useEffect(() => {
    if (!busy) setAsked('no')
  }, [busy])
  useEffect(() => {
    if (asked !== 'asked') return
    const timer = setTimeout(() => setAsked('force'), 3000)
    return () => clearTimeout(timer)
  }, [asked])
  if (!busy) return null
  const words = { no: t('Stop'), asked: t('Stopping…'), force: t('Force stop') }[asked]
  return (
    <button type="button" class={asked === 'force' ? 'button danger stop' : 'button stop'} aria-label={words} title={words} onClick={() => {
      if (asked === 'force') void n.interrupt(1)
      else {
        setAsked('asked')
        void n.interrupt()
      }
    }}><Icon name="stop" /><span class="wide">{words}</span></button>
  )
}
