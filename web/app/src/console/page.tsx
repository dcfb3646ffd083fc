import type { ComponentType } from 'preact'
import { t } from '../language/texts'
import { consolePath, route } from '../router'
import { description, may } from '../server'
import { Bar } from '../ui/bar'
import { Audit } from './audit'
import { Keys } from './keys'
import { Nodes } from './nodes'
import { Overview } from './overview'
import { Tenants } from './tenants'
import { Usage } from './usage'
import '../style/parts.css'
import './console.css'

interface View {
  name: string
  title: () => string
  /** The scope that the view needs. */
  scope: string
  View: ComponentType
}

/** The views, in the order of their links. A user sees those for which the server gives a scope. */
const views: View[] = [
  { name: 'overview', title: () => t('Overview'), scope: 'admin', View: Overview },
  { name: 'nodes', title: () => t('Nodes'), scope: 'admin', View: Nodes },
  { name: 'usage', title: () => t('Usage'), scope: 'sessions:read', View: Usage },
  { name: 'tenants', title: () => t('Tenants'), scope: 'keys', View: Tenants },
  { name: 'keys', title: () => t('Keys'), scope: 'keys', View: Keys },
  { name: 'audit', title: () => t('Audit log'), scope: 'keys', View: Audit },
]

/** The console of owners and operators: the state of the server, its tenants, their keys and use. */
export default function Console() {
  const own = views.filter((v) => may(v.scope))
  const shown = own.find((v) => v.name === (route.value.view || own[0]?.name))
  return (
    <>
      <Bar />
      <main class="page console">
        <h1>{t('Console')}</h1>
        <nav class="views" aria-label={t('Views of the console')}>
          {own.map((v) => <a key={v.name} href={consolePath(v.name)} aria-current={v === shown ? 'page' : undefined}>{v.title()}</a>)}
        </nav>
        {shown
          ? <shown.View key={shown.name} />
          : <div class="empty-box"><p>{t('There is no such view for you.')}</p><p class="muted">{description.value?.scopes.length ? t('Scopes of your access: {scopes}.', { scopes: description.value.scopes.join(', ') }) : t('Scopes of your access: none.')}</p></div>}
      </main>
    </>
  )
}
