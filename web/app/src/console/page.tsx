import type { ComponentType } from 'preact'
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
  title: string
  /** The scope that the view needs. */
  scope: string
  View: ComponentType
}

/** The views, in the order of their links. A user sees those for which the server gives a scope. */
const views: View[] = [
  { name: 'overview', title: 'Overview', scope: 'admin', View: Overview },
  { name: 'nodes', title: 'Nodes', scope: 'admin', View: Nodes },
  { name: 'usage', title: 'Usage', scope: 'sessions:read', View: Usage },
  { name: 'tenants', title: 'Tenants', scope: 'keys', View: Tenants },
  { name: 'keys', title: 'Keys', scope: 'keys', View: Keys },
  { name: 'audit', title: 'Audit log', scope: 'keys', View: Audit },
]

/** The console of owners and operators: the state of the server, its tenants, their keys and use. */
export default function Console() {
  const own = views.filter((v) => may(v.scope))
  const shown = own.find((v) => v.name === (route.value.view || own[0]?.name))
  return (
    <>
      <Bar />
      <main class="page console">
        <h1>Console</h1>
        <nav class="views" aria-label="Views of the console">
          {own.map((v) => <a key={v.name} href={consolePath(v.name)} aria-current={v === shown ? 'page' : undefined}>{v.title}</a>)}
        </nav>
        {shown
          ? <shown.View key={shown.name} />
          : <div class="empty-box"><p>There is no such view for you.</p><p class="muted">Scopes of your access: {description.value?.scopes.join(', ') || 'none'}.</p></div>}
      </main>
    </>
  )
}
