import { rest, restBlob } from '../rest'
import { may } from '../server'
import { bytes } from '../ui/bytes'
import { Shown, useLoaded } from './load'
import { readMetrics, sumBy, type Sample } from './metrics'

interface Status {
  gateway: { sockets: number; requests: number; denied: number; refused: number; slow: number }
  node: {
    version: string
    pool: { size: number; ready: number; claims: number; waits: number; refusals: number; last_error?: string }
    sessions: number
    hibernated: number
    snapshots: number
    snapshot_bytes: number
    counters?: Record<string, number>
  }
}

const lookEvery = 5000

/** The counters that an operator looks at first, with their meaning. */
const counters: [string, string][] = [
  ['sessions_created', 'Sessions created'], ['executes', 'Cells and programs run'], ['forks', 'Forks'],
  ['hibernations', 'Sessions hibernated'], ['wakes', 'Sessions resumed'], ['checkpoints', 'Copies of durable sessions'],
  ['egress_opened', 'Connections to the network'], ['egress_denied', 'Connections denied'],
  ['limits_reached', 'Limits reached'], ['sessions_refused', 'Sessions refused'], ['requests_refused', 'Requests refused'],
  ['lost_memory', 'Sessions lost: memory'], ['lost_crashed', 'Sessions lost: sandbox crashed'], ['lost_host', 'Sessions lost: machine'],
]

/** The state of the server: nodes, pools, what runs, and what was refused or lost since the start. */
export function Overview() {
  const status = useLoaded(() => rest<Status>('GET', '/v1/status'), [], lookEvery)
  const metrics = useLoaded(async () => (may('metrics') ? readMetrics(await (await restBlob('/metrics')).text()) : []), [], lookEvery)
  return (
    <Shown of={status}>
      {({ gateway, node }) => (
        <>
          <dl class="tiles">
            <Tile name="Running sessions" value={node.sessions} />
            <Tile name="Hibernated sessions" value={node.hibernated} />
            <Tile name="Warm sandboxes" value={`${node.pool.ready} of ${node.pool.size}`} />
            <Tile name="Open connections" value={gateway.sockets} />
            <Tile name="Snapshots" value={node.snapshots} also={bytes(node.snapshot_bytes)} />
            <Tile name="Version" value={node.version} />
          </dl>
          {node.pool.last_error && <div class="notice bad" role="alert">The last sandbox of a pool was not started: {node.pool.last_error}</div>}
          <Nodes samples={metrics.value ?? []} />
          <Pools samples={metrics.value ?? []} />
          <section aria-labelledby="counters">
            <h2 id="counters">Since the start</h2>
            <table class="table">
              <thead><tr><th scope="col">Event</th><th scope="col" class="num">Number</th></tr></thead>
              <tbody>
                {counters.map(([key, name]) => <tr key={key}><th scope="row">{name}</th><td class="num">{(node.counters?.[key] ?? 0).toLocaleString()}</td></tr>)}
                <tr><th scope="row">Requests without valid credentials</th><td class="num">{gateway.denied.toLocaleString()}</td></tr>
                <tr><th scope="row">Clients that were too slow</th><td class="num">{gateway.slow.toLocaleString()}</td></tr>
              </tbody>
            </table>
          </section>
        </>
      )}
    </Shown>
  )
}

function Tile({ name, value, also }: { name: string; value: number | string; also?: string }) {
  return <div class="tile"><dt>{name}</dt><dd>{typeof value === 'number' ? value.toLocaleString() : value}{also && <span class="muted"> {also}</span>}</dd></div>
}

/** The nodes of a cluster. A server alone has no names of nodes, and no table. */
function Nodes({ samples }: { samples: Sample[] }) {
  const names = [...new Set(samples.flatMap((s) => (s.labels.node ? [s.labels.node] : [])))].sort()
  if (names.length === 0) return null
  const of = (name: string, only: Record<string, string> = {}) => sumBy(samples.filter((s) => Object.entries(only).every(([k, v]) => s.labels[k] === v)), name, 'node')
  const running = of('sandgate_node_sessions', { state: 'running' })
  const hibernated = of('sandgate_node_sessions', { state: 'hibernated' })
  const sandboxes = of('sandgate_node_sandboxes')
  const memory = of('sandgate_node_process_resident_memory_bytes')
  const since = of('sandgate_node_process_start_time_seconds')
  const number = (m: Map<string, number>, name: string) => m.get(name)?.toLocaleString() ?? '–'
  return (
    <section aria-labelledby="nodes">
      <h2 id="nodes">Nodes</h2>
      <div class="scrolls">
        <table class="table">
          <thead><tr><th scope="col">Node</th><th scope="col" class="num">Running</th><th scope="col" class="num">Hibernated</th><th scope="col" class="num">Sandboxes</th><th scope="col" class="num">Memory of the node</th><th scope="col">Started</th></tr></thead>
          <tbody>
            {names.map((n) => (
              <tr key={n}>
                <th scope="row">{n}</th><td class="num">{number(running, n)}</td><td class="num">{number(hibernated, n)}</td><td class="num">{number(sandboxes, n)}</td>
                <td class="num">{memory.has(n) ? bytes(memory.get(n)!) : '–'}</td><td>{since.has(n) ? new Date(since.get(n)! * 1000).toLocaleString() : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}

/** The pools of warm sandboxes. */
function Pools({ samples }: { samples: Sample[] }) {
  const of = (name: string) => sumBy(samples, `sandgate_node_pool_${name}`, 'template')
  const size = of('size')
  const [ready, claims, waits, failed] = [of('ready'), of('claims_total'), of('waits_total'), of('failed_total')]
  const used = [...size.keys()].filter((t) => (size.get(t) ?? 0) + (claims.get(t) ?? 0) > 0).sort()
  if (used.length === 0) return null
  return (
    <section aria-labelledby="pools">
      <h2 id="pools">Pools</h2>
      <div class="scrolls">
        <table class="table">
          <thead><tr><th scope="col">Template</th><th scope="col" class="num">Ready</th><th scope="col" class="num">Size</th><th scope="col" class="num">Claims</th><th scope="col" class="num">Waits</th><th scope="col" class="num">Failures</th></tr></thead>
          <tbody>
            {used.map((t) => <tr key={t}><th scope="row">{t}</th>{[ready, size, claims, waits, failed].map((m, i) => <td key={i} class="num">{(m.get(t) ?? 0).toLocaleString()}</td>)}</tr>)}
          </tbody>
        </table>
      </div>
    </section>
  )
}
