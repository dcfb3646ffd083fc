import { useState } from 'preact/hooks'
import type { NodeInfo } from '@sandgate/client/base'
import { number, plural, rich, t, time } from '../language/texts'
import { rest } from '../rest'
import { confirm } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed } from '../ui/toast'
import { stateOf, usesOf, versionsOf, type Use } from './capacity'
import { Shown, useLoaded } from './load'
import { Pools } from './pools'

const lookEvery = 3000
const states = (): Record<string, string> => ({ ready: t('Ready'), draining: t('Draining'), drained: t('Drained'), unreachable: t('Unreachable') })

/** The nodes of the server: their state, version and capacity, and drains. */
export function Nodes() {
  const nodes = useLoaded(async () => (await rest<{ nodes: NodeInfo[] }>('GET', '/v1/nodes')).nodes, [], lookEvery)
  return (
    <Shown of={nodes}>
      {(list) => {
        const open = list.filter((n) => n.state === 'ready')
        const versions = versionsOf(list)
        return (
          <>
            <section aria-labelledby="capacity">
              <h2 id="capacity">{t('Capacity')}</h2>
              <dl class="tiles">
                <div class="tile"><dt>{t('Nodes that take sessions')}</dt><dd>{t('{n} of {all}', { n: number(open.length), all: number(list.length) })}</dd></div>
                {usesOf(open).map((u) => <div key={u.name} class="tile"><dt>{u.name}</dt><dd>{u.text}<Level label={t('{resource} of nodes that take sessions', { resource: u.name })} use={u} /></dd></div>)}
              </dl>
            </section>
            {versions.length > 1 && <div class="notice warn" role="status"><Icon name="info" />{t('The nodes run different versions: {versions}.', { versions: versions.join(', ') })}</div>}
            <section aria-labelledby="nodes">
              <h2 id="nodes">{t('Nodes')}</h2>
              <ul class="nodes">{list.map((n) => <Node key={n.name} node={n} alone={list.length === 1} changed={nodes.again} />)}</ul>
            </section>
            <Pools />
          </>
        )
      }}
    </Shown>
  )
}

function Level({ label, use }: { label: string; use: Use }) {
  return <meter class="meter" min={0} max={1} high={0.9} value={Math.min(1, use.used / use.most)} aria-label={label} />
}

function Node({ node: n, alone, changed }: { node: NodeInfo; alone: boolean; changed: () => Promise<void> }) {
  const [asking, setAsking] = useState(false)
  const note = stateOf(n)
  const set = async (draining: boolean) => {
    setAsking(true)
    await rest('PATCH', `/v1/nodes/${encodeURIComponent(n.name)}`, { draining })
      .catch((e: unknown) => failed(draining ? t('The drain was not started') : t('The node was not changed'), e))
    await changed()
    setAsking(false)
  }
  const held = n.sessions + n.hibernated
  const drain = async () => {
    const text = [
      plural(held, 'It takes no new sessions, and its session moves to other nodes, where code and terminals continue.',
        'It takes no new sessions, and its {n} sessions move to other nodes, where code and terminals continue.'),
      alone && t('There is no other node now: the sessions continue when one is there.'),
      t('You can let the node take sessions again at any time.'),
    ].filter(Boolean).join(' ')
    if (await confirm({ title: t('Drain {node}?', { node: n.name }), text, yes: t('Drain') })) await set(true)
  }
  return (
    <li class="node" aria-label={t('Node {name}', { name: n.name })}>
      <div class="heading">
        <h3>{n.name}</h3>
        <span class={n.state === 'ready' ? 'badge' : 'badge warn'}>{states()[n.state] ?? n.state}</span>
        <span class="grow" />
        {n.state !== 'unreachable' && n.movable && (
          <Menu label={t('More for {name}', { name: n.name })} button={<Icon name="more" />}>
            {() => (
              <>
                {n.state !== 'draining' && <MenuItem disabled={asking} onClick={() => void drain()}><Icon name="share" />{n.state === 'drained' ? t('Drain again…') : t('Drain…')}</MenuItem>}
                {n.state !== 'ready' && <MenuItem disabled={asking} onClick={() => void set(false)}><Icon name="play" />{t('Take sessions again')}</MenuItem>}
              </>
            )}
          </Menu>
        )}
      </div>
      <p class="muted about">
        {n.version && <span>{t('version {version}', { version: n.version })}</span>}
        {n.zone && <span>{t('zone {zone}', { zone: n.zone })}</span>}
        {n.address && <span>{n.address}</span>}
        {n.started_ms ? <span>{rich('started {time}', { time: <time dateTime={new Date(n.started_ms).toISOString()}>{time(n.started_ms)}</time> })}</span> : null}
      </p>
      {note && <p class={n.state === 'unreachable' || n.drain_error ? 'bad' : undefined} role="status">{note}</p>}
      {n.pool_error && <p class="bad" role="status">{t('A pool is not full: {error}', { error: n.pool_error })}</p>}
      {!n.movable && n.state !== 'unreachable' && <p class="muted hint">{rich('This node cannot be drained: the server has no store for its sessions ({setting}).', { setting: <code>cluster.blobs</code> })}</p>}
      <dl class="uses">
        {usesOf([n]).map((u) => <div key={u.name}><dt>{u.name}</dt><dd>{u.text}<Level label={t('{resource} of {name}', { resource: u.name, name: n.name })} use={u} /></dd></div>)}
        <div><dt>{t('Hibernated')}</dt><dd>{number(n.hibernated)}</dd></div>
        {n.state !== 'unreachable' && <div><dt>{t('Warm sandboxes')}</dt><dd>{t('{n} of {all}', { n: number(n.ready), all: number(n.pool_size) })}</dd></div>}
      </dl>
    </li>
  )
}
