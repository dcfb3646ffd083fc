import { useState } from 'preact/hooks'
import type { NodeInfo } from '@sandgate/client/base'
import { rest } from '../rest'
import { confirm } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed } from '../ui/toast'
import { stateOf, usesOf, versionsOf, type Use } from './capacity'
import { Shown, useLoaded } from './load'
import { Pools } from './pools'

const lookEvery = 3000
const states: Record<string, string> = { ready: 'Ready', draining: 'Draining', drained: 'Drained', unreachable: 'Unreachable' }

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
              <h2 id="capacity">Capacity</h2>
              <dl class="tiles">
                <div class="tile"><dt>Nodes that take sessions</dt><dd>{open.length} of {list.length}</dd></div>
                {usesOf(open).map((u) => <div key={u.name} class="tile"><dt>{u.name}</dt><dd>{u.text}<Level of="nodes that take sessions" use={u} /></dd></div>)}
              </dl>
            </section>
            {versions.length > 1 && <div class="notice warn" role="status"><Icon name="info" />The nodes run different versions: {versions.join(', ')}.</div>}
            <section aria-labelledby="nodes">
              <h2 id="nodes">Nodes</h2>
              <ul class="nodes">{list.map((n) => <Node key={n.name} node={n} alone={list.length === 1} changed={nodes.again} />)}</ul>
            </section>
            <Pools />
          </>
        )
      }}
    </Shown>
  )
}

function Level({ of, use }: { of: string; use: Use }) {
  return <meter class="meter" min={0} max={1} high={0.9} value={Math.min(1, use.used / use.most)} aria-label={`${use.name} of ${of}`} />
}

function Node({ node: n, alone, changed }: { node: NodeInfo; alone: boolean; changed: () => Promise<void> }) {
  const [asking, setAsking] = useState(false)
  const note = stateOf(n)
  const set = async (draining: boolean) => {
    setAsking(true)
    await rest('PATCH', `/v1/nodes/${encodeURIComponent(n.name)}`, { draining })
      .catch((e: unknown) => failed(draining ? 'The drain was not started' : 'The node was not changed', e))
    await changed()
    setAsking(false)
  }
  const held = n.sessions + n.hibernated
  const drain = async () => {
    const text = `It takes no new sessions, and ${held === 1 ? 'its session moves' : `its ${held.toLocaleString('en')} sessions move`} to other nodes, where code and terminals continue.${alone ? ' There is no other node now: the sessions continue when one is there.' : ''} You can let the node take sessions again at any time.`
    if (await confirm({ title: `Drain ${n.name}?`, text, yes: 'Drain' })) await set(true)
  }
  return (
    <li class="node" aria-label={`Node ${n.name}`}>
      <div class="heading">
        <h3>{n.name}</h3>
        <span class={n.state === 'ready' ? 'badge' : 'badge warn'}>{states[n.state] ?? n.state}</span>
        <span class="grow" />
        {n.state !== 'unreachable' && n.movable && (
          <Menu label={`More for ${n.name}`} button={<Icon name="more" />}>
            {() => (
              <>
                {n.state !== 'draining' && <MenuItem disabled={asking} onClick={() => void drain()}><Icon name="share" />{n.state === 'drained' ? 'Drain again…' : 'Drain…'}</MenuItem>}
                {n.state !== 'ready' && <MenuItem disabled={asking} onClick={() => void set(false)}><Icon name="play" />Take sessions again</MenuItem>}
              </>
            )}
          </Menu>
        )}
      </div>
      <p class="muted about">
        {n.version && <span>version {n.version}</span>}
        {n.zone && <span>zone {n.zone}</span>}
        {n.address && <span>{n.address}</span>}
        {n.started_ms ? <span>started <time dateTime={new Date(n.started_ms).toISOString()}>{new Date(n.started_ms).toLocaleString()}</time></span> : null}
      </p>
      {note && <p class={n.state === 'unreachable' || n.drain_error ? 'bad' : undefined} role="status">{note}</p>}
      {n.pool_error && <p class="bad" role="status">A pool is not full: {n.pool_error}</p>}
      {!n.movable && n.state !== 'unreachable' && <p class="muted hint">This node cannot be drained: the server has no store for its sessions (<code>cluster.blobs</code>).</p>}
      <dl class="uses">
        {usesOf([n]).map((u) => <div key={u.name}><dt>{u.name}</dt><dd>{u.text}<Level of={n.name} use={u} /></dd></div>)}
        <div><dt>Hibernated</dt><dd>{n.hibernated.toLocaleString('en')}</dd></div>
        {n.state !== 'unreachable' && <div><dt>Warm sandboxes</dt><dd>{n.ready} of {n.pool_size}</dd></div>}
      </dl>
    </li>
  )
}
