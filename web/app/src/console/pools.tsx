import { number, t } from '../language/texts'
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
      <h2 id="pools">{t('Pools')}</h2>
      <p class="muted lead">{t('A pool has sandboxes that are ready for new sessions. A wait is a session that found none.')}</p>
      <Shown of={metrics}>
        {(samples) => {
          const of = (name: string) => sumBy(samples, `sandgate_node_pool_${name}`, 'template')
          const size = of('size')
          const [ready, claims, waits, failed] = [of('ready'), of('claims_total'), of('waits_total'), of('failed_total')]
          const used = [...size.keys()].filter((name) => (size.get(name) ?? 0) + (claims.get(name) ?? 0) > 0).sort()
          if (used.length === 0) return <div class="empty-box"><p>{t('No pool is used.')}</p></div>
          return (
            <div class="scrolls">
              <table class="table">
                <thead><tr><th scope="col">{t('Template')}</th><th scope="col" class="num">{t('Ready')}</th><th scope="col" class="num">{t('Size')}</th><th scope="col" class="num">{t('Claims')}</th><th scope="col" class="num">{t('Waits')}</th><th scope="col" class="num">{t('Failures')}</th></tr></thead>
                <tbody>
                  {used.map((name) => <tr key={name}><th scope="row">{name}</th>{[ready, size, claims, waits, failed].map((m, i) => <td key={i} class="num">{number(m.get(name) ?? 0)}</td>)}</tr>)}
                </tbody>
              </table>
            </div>
          )
        }}
      </Shown>
    </section>
  )
}
