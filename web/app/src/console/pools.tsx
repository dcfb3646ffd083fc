import { restBlob } from '../rest'
import { may } from '../server'
import { Shown, useLoaded } from './load'
import { readMetrics, sumBy } from './metrics'

const lookEvery = 5000

/** The pools of warm sandboxes, for users who may read metrics. */
export function Pools() {
  const metrics = useLoaded(async () => (may('metrics') ? readMetrics(await (await restBlob('/metrics')).text()) : []), [], lookEvery)
  if (!may('metrics')) return null
  return (
    <section aria-labelledby="pools">
      <h2 id="pools">Pools</h2>
      <p class="muted lead">A pool has sandboxes that are ready for new sessions. A wait is a session that found none.</p>
      <Shown of={metrics}>
        {(samples) => {
          const of = (name: string) => sumBy(samples, `sandgate_node_pool_${name}`, 'template')
          const size = of('size')
          const [ready, claims, waits, failed] = [of('ready'), of('claims_total'), of('waits_total'), of('failed_total')]
          const used = [...size.keys()].filter((t) => (size.get(t) ?? 0) + (claims.get(t) ?? 0) > 0).sort()
          if (used.length === 0) return <div class="empty-box"><p>No pool is used.</p></div>
          return (
            <div class="scrolls">
              <table class="table">
                <thead><tr><th scope="col">Template</th><th scope="col" class="num">Ready</th><th scope="col" class="num">Size</th><th scope="col" class="num">Claims</th><th scope="col" class="num">Waits</th><th scope="col" class="num">Failures</th></tr></thead>
                <tbody>
                  {used.map((t) => <tr key={t}><th scope="row">{t}</th>{[ready, size, claims, waits, failed].map((m, i) => <td key={i} class="num">{(m.get(t) ?? 0).toLocaleString()}</td>)}</tr>)}
                </tbody>
              </table>
            </div>
          )
        }}
      </Shown>
    </section>
  )
}
