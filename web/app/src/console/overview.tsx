import { rest } from '../rest'
import { bytes } from '../ui/bytes'
import { Shown, useLoaded } from './load'

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

/** The state of the server: what runs, and what was refused or lost since the start. */
export function Overview() {
  const status = useLoaded(() => rest<Status>('GET', '/v1/status'), [], lookEvery)
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
