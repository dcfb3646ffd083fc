import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { SandgateError } from '@sandgate/client/base'
import { rich, t } from '../language/texts'
import { notebookPath, route } from '../router'
import { client, describe, offline } from '../server'
import { explain } from '../ui/again'
import { Bar } from '../ui/bar'
import { Icon } from '../ui/icon'
import { keptNotebooks, KeptNotebook, type Kept, type KeptCell } from './kept'
import '../style/parts.css'
import './offline.css'

/** How often the page looks for the server. */
const lookEvery = 5000

/**
 * Shown while the server cannot be reached: the notebooks that this browser keeps can be read, and
 * edited as drafts. The real page comes back by itself.
 */
export function Offline({ error, children }: { error: SandgateError; children: ComponentChildren }) {
  useEffect(() => {
    const look = () => void (client.peek() && describe(client.peek()!))
    const timer = setInterval(look, lookEvery)
    addEventListener('online', look)
    return () => {
      clearInterval(timer)
      removeEventListener('online', look)
    }
  }, [])
  const { page, session, query } = route.value
  const path = query.get('file') ?? 'notebook.ipynb'
  const notebook = useMemo(() => (page === 'notebook' ? KeptNotebook.find(session, path) : undefined), [page, session, path])
  return (
    <>
      <Bar>{notebook && <div class="title"><span class="ellipsis">{path.replace(/\.ipynb$/, '')}</span></div>}<span class="grow" /></Bar>
      <main class="page offline">
        <div class="notice" role="status">
          <Icon name="warning" />
          <div class="grow">
            <h1>{t('The server cannot be reached')}</h1>
            <p>{offline.value ? t('This browser has no network.') : explain(error)} {t('This page tries again by itself.')}</p>
          </div>
          <div class="row">{children}</div>
        </div>
        {notebook ? <Draft key={`${session} ${path}`} notebook={notebook} /> : <List missing={page === 'notebook'} />}
      </main>
    </>
  )
}

function List({ missing }: { missing: boolean }) {
  const kept = keptNotebooks()
  return (
    <section aria-labelledby="kept">
      <h2 id="kept">{t('Notebooks in this browser')}</h2>
      {missing && <p>{t('This browser has no copy of the notebook that you opened.')}</p>}
      {kept.length === 0 && <p class="muted">{t('There are none. This browser keeps the notebooks that were saved last.')}</p>}
      {kept.length > 0 && <ul class="kept">
        {kept.map((k) => (
          <li key={`${k.session} ${k.path}`} class="row">
            <Icon name="notebook" />
            <div class="grow">
              <a href={`${notebookPath(k.session)}${k.path === 'notebook.ipynb' ? '' : `?file=${encodeURIComponent(k.path)}`}`}>{k.path}</a>
              <p class="muted">{about(k)}</p>
            </div>
          </li>
        ))}
      </ul>}
    </section>
  )
}

function about(k: Kept): ComponentChildren {
  const id = <code>{k.session.slice(0, 10)}</code>
  if (!k.changed) return rich('Session {id}', { id })
  return rich('Session {id}, {changes}', { id, changes: <strong>{t('with changes that are not saved yet')}</strong> })
}

function Draft({ notebook: n }: { notebook: KeptNotebook }) {
  const [cells, setCells] = useState(n.cells)
  const [kept, setKept] = useState<boolean>()
  const changed = () => setKept(n.keep())
  return (
    <>
      <p class="muted" role="status">{kept === undefined
        ? t('What you type is kept in this browser, and comes into the notebook when the server is back. Code cannot run now.')
        : kept
          ? t('Your changes are kept in this browser. They come into the notebook when the server is back.')
          : t('Your changes are not kept: this browser has no space. Copy them to another place.')}</p>
      {cells.map((c, i) => <Cell key={c.json.id} cell={c} n={i + 1} changed={changed} />)}
      <button type="button" class="button" onClick={() => { n.add(); setCells([...n.cells]); changed() }}><Icon name="add" />{t('Code')}</button>
    </>
  )
}

function Cell({ cell: c, n, changed }: { cell: KeptCell; n: number; changed: () => void }) {
  const at = useRef<HTMLDivElement>(null)
  const [source, setSource] = useState(c.source)
  useEffect(() => {
    if (c.json.outputs.length === 0) return
    void import('../notebook/output').then(({ OutputView }) => {
      const view = new OutputView()
      view.load(c.json.outputs)
      at.current?.replaceChildren(view.el)
    }, () => {}) // the browser does not have this part of the page
  }, [c])
  const code = c.json.cell_type === 'code'
  return (
    <section class="offline-cell" aria-label={t('Cell {n}', { n })}>
      <textarea class="field code" aria-label={code ? t('Code of cell {n}', { n }) : t('Text of cell {n}', { n })} spellcheck={!code} autocomplete="off"
        rows={Math.min(40, source.split('\n').length + 1)} value={source} onInput={(e) => { setSource(c.source = e.currentTarget.value); changed() }} />
      <div ref={at} />
    </section>
  )
}
