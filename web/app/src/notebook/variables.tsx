import { useEffect, useRef, useState } from 'preact/hooks'
import type { Variable } from '@sandgate/client/base'
import { t } from '../language/texts'
import { languageName } from '../server'
import { bytes } from '../ui/bytes'
import type { KernelLink } from './kernels'
import type { PaneProps } from './pane'
import { grouped, type VariableKind } from './variablekinds'
import './variables.css'

/** Lists the variables of the running kernels. It is updated when a cell has ended. */
export function Variables({ notebook: n }: PaneProps) {
  const all = n.kernels.all.value.filter((k) => k.state.value !== 'none')
  const [chosen, choose] = useState<string | undefined>()
  const language = chosen && all.some((k) => k.language === chosen) ? chosen : (n.find(n.active.value)?.language.value ?? all[0]?.language)
  const kernel = all.find((k) => k.language === language) ?? all[0]
  const [found, setFound] = useState<{ language: string; list: Variable[] } | undefined>()
  const [error, setError] = useState<string | undefined>()
  const [filter, setFilter] = useState('')
  const [open, setOpen] = useState<string>()
  const turn = n.turns.value
  const busy = kernel?.state.value === 'busy'
  useEffect(() => {
    if (!kernel?.kernel) return
    const stop = new AbortController()
    kernel.kernel.variables({ signal: stop.signal }).then((list) => {
      setFound({ language: kernel.language, list })
      setError(undefined)
    }, (e: Error) => !stop.signal.aborted && setError(e.message))
    return () => stop.abort()
  }, [kernel, kernel?.kernel, turn, busy])
  if (!kernel) return <p class="muted empty">{t('No kernel is running. Run a cell to see its variables here.')}</p>
  const list = found?.language === kernel.language ? found.list : undefined
  const shown = grouped(list ?? [], filter)
  const groups: [VariableKind, string][] = [['value', t('Values')], ['function', t('Functions and classes')], ['module', t('Modules')]]
  return (
    <>
      {all.length > 1 && (
        <div class="kernel-tabs" role="tablist" aria-label={t('Kernel')}>
          {all.map((k) => <button key={k.language} type="button" role="tab" aria-selected={k === kernel} class="button quiet" onClick={() => choose(k.language)}>{languageName(k.language)}</button>)}
        </div>
      )}
      {error && <p class="bad">{error}</p>}
      {!list && !error && <p class="muted empty">{busy ? t('The kernel is busy.') : t('Asking…')}</p>}
      {list?.length === 0 && <p class="muted empty">{t('No variables yet.')}</p>}
      {list && list.length > 0 && (
        <>
          <input class="field" type="search" aria-label={t('Filter variables')} placeholder={t('Filter by name, type or value')} value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
          <div class="variables-list">{groups.map(([kind, title]) => shown[kind].length > 0 && (
            <details key={`${kind}${filter !== ''}`} open={kind === 'value' || filter !== ''}>
              <summary>{title} ({shown[kind].length})</summary>
              <table class="variables" aria-label={title}>
                <thead class="sr"><tr><th scope="col">{t('Name and type')}</th><th scope="col">{t('Value')}</th></tr></thead>
                <tbody>
                  {shown[kind].flatMap((v) => [
                    <tr key={v.name}><th scope="row"><button type="button" class="variable" aria-expanded={open === v.name} title={t('Show the whole value')} onClick={() => setOpen(open === v.name ? undefined : v.name)}>{v.name}</button><span class="muted">{v.type}{v.size && ` ${v.size}`}</span></th><td><code title={v.value}>{v.value}</code></td></tr>,
                    open === v.name && <tr key={`${v.name} value`}><td colSpan={2}><Value kernel={kernel} name={v.name} turn={turn} /></td></tr>,
                  ])}
                </tbody>
              </table>
            </details>
          ))}</div>
          {groups.every(([kind]) => shown[kind].length === 0) && <p class="muted empty" role="status">{t('No variable matches.')}</p>}
        </>
      )}
    </>
  )
}

interface Answer {
  table?: unknown
  text?: string
  cut?: boolean
  bytes?: number | null
}

/** The whole value of a variable: a table, or text. It is asked for again when a cell has ended. */
function Value({ kernel, name, turn }: { kernel: KernelLink; name: string; turn: number }) {
  const [answer, setAnswer] = useState<Answer>()
  const [error, setError] = useState('')
  const at = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let here = true
    void valueOf(kernel, name).then((a) => {
      if (!here) return
      setAnswer(a)
      setError(a ? '' : t('The kernel cannot show it.'))
    }, (e: Error) => here && setError(e.message))
    return () => {
      here = false
    }
  }, [kernel, name, turn])
  useEffect(() => {
    if (!answer?.table || !at.current) return
    let grid: HTMLElement | undefined
    let here = true
    void import('./grid/grid').then((m) => {
      grid = m.kernelGrid(answer.table, (about) => kernel.ask(about))
      if (here && grid) at.current?.replaceChildren(grid)
    }, (e: Error) => setError(e.message))
    return () => {
      here = false
      ;(grid as { dispose?: () => void } | undefined)?.dispose?.()
    }
  }, [answer])
  return (
    <div class="value" role="region" aria-label={t('Value of {name}', { name })}>
      {error && <p class="bad">{error}</p>}
      {!answer && !error && <p class="muted">{t('Asking…')}</p>}
      {answer?.text !== undefined && <pre tabIndex={0}>{answer.text}{answer.cut && ' …'}</pre>}
      <div ref={at} />
      {typeof answer?.bytes === 'number' && <p class="muted num">{t('{size} of memory', { size: bytes(answer.bytes) })}</p>}
    </div>
  )
}

/** Kernels that cannot show values describe the name. */
async function valueOf(kernel: KernelLink, name: string): Promise<Answer | undefined> {
  const answer = await kernel.ask({ kind: 'value', name })
  if (answer) return answer
  const reply = await kernel.kernel?.inspect(name, name.length, { signal: AbortSignal.timeout(5000) })
  const text = reply?.found ? reply.data?.['text/plain'] : undefined
  // eslint-disable-next-line no-control-regex
  return typeof text === 'string' ? { text: text.replace(/\x1b\[[\d;]*m/g, '') } : undefined
}
