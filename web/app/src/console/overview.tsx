import { number, t } from '../language/texts'
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
const counters = (): [string, string][] => [
  ['sessions_created', t('Sessions created')], ['executes', t('Cells and programs run')], ['forks', t('Forks')],
  ['hibernations', t('Sessions hibernated')], ['wakes', t('Sessions resumed')], ['checkpoints', t('Copies of durable sessions')],
  ['egress_opened', t('Connections to the network')], ['egress_denied', t('Connections denied')],
  ['limits_reached', t('Limits reached')], ['sessions_refused', t('Sessions refused')], ['requests_refused', t('Requests refused')],
  ['lost_memory', t('Sessions lost: memory')], ['lost_crashed', t('Sessions lost: sandbox crashed')], ['lost_host', t('Sessions lost: machine')],
]

/** The state of the server: what runs, and what was refused or lost since the start. */
export function Overview() {
  const status = useLoaded(() => rest<Status>('GET', '/v1/status'), [], lookEvery)
  return (
    <Shown of={status}>
      {({ gateway, node }) => (
        <>
          <dl class="tiles">
            <Tile name={t('Running sessions')} value={node.sessions} />
            <Tile name={t('Hibernated sessions')} value={node.hibernated} />
            <Tile name={t('Warm sandboxes')} value={t('{n} of {all}', { n: number(node.pool.ready), all: number(node.pool.size) })} />
            <Tile name={t('Open connections')} value={gateway.sockets} />
            <Tile name={t('Snapshots')} value={node.snapshots} also={bytes(node.snapshot_bytes)} />
            <Tile name={t('Version')} value={node.version} />
          </dl>
          {node.pool.last_error && <div class="notice bad" role="alert">{t('The last sandbox of a pool was not started: {error}', { error: node.pool.last_error })}</div>}
          <section aria-labelledby="counters">
            <h2 id="counters">{t('Since the start')}</h2>
            <table class="table">
              <thead><tr><th scope="col">{t('Event')}</th><th scope="col" class="num">{t('Number')}</th></tr></thead>
              <tbody>
                {counters().map(([key, name]) => <tr key={key}><th scope="row">{name}</th><td class="num">{number(node.counters?.[key] ?? 0)}</td></tr>)}
                <tr><th scope="row">{t('Requests without valid credentials')}</th><td class="num">{number(gateway.denied)}</td></tr>
                <tr><th scope="row">{t('Clients that were too slow')}</th><td class="num">{number(gateway.slow)}</td></tr>
              </tbody>
            </table>
          </section>
        </>
      )}
    </Shown>
  )
}

function Tile({ name, value, also }: { name: string; value: number | string; also?: string }) {
  return <div class="tile"><dt>{name}</dt><dd>{typeof value === 'number' ? number(value) : value}{also && <span class="muted"> {also}</span>}</dd></div>
}
