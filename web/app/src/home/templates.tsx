import { signal } from '@preact/signals'
import { facts } from '../notebook/languages'
import { offers, rest } from '../rest'
import { languageName } from '../server'
import { confirm } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed } from '../ui/toast'

export interface Template {
  name: string
  spec: { description?: string }
  /** building, ready or failed. */
  state: string
  error?: string
  languages: string[]
}

const templates = signal<Template[]>([])

export async function lookAtTemplates(): Promise<void> {
  if (!offers('GET /v1/templates')) return
  templates.value = (await rest<{ templates: Template[] | null }>('GET', '/v1/templates')).templates ?? []
}

/** What sessions can start from besides the server's own image; nothing where there is none. */
export function Templates({ disabled, make }: { disabled: boolean; make: (template: Template) => void }) {
  const all = templates.value
  if (all.length === 0) return null
  return (
    <>
      <h2 class="from">Or start from a template</h2>
      <ul class="templates">
        {all.map((t) => (
          <li key={t.name} class="template">
            <button type="button" class="template-start" disabled={disabled || t.state !== 'ready'} onClick={() => make(t)}>
              <span class="language-badge" style={{ background: facts(t.languages[0] ?? '').colour }} aria-hidden="true">{facts(t.languages[0] ?? '').short}</span>
              <span class="grow">
                <strong>{t.name}</strong>
                <span class="muted ellipsis">{{ ready: t.spec.description || t.languages.map(languageName).join(', '), building: 'Being built…' }[t.state] ?? `Not built: ${t.error ?? t.state}`}</span>
              </span>
              {t.state === 'building' && <Icon name="spinner" spin />}
            </button>
            <Menu label={`More for template ${t.name}`} button={<Icon name="more" />}>
              {() => <MenuItem danger onClick={async () => {
                if (!await confirm({ title: `Delete the template “${t.name}”?`, text: 'Sessions that began with it go on.', yes: 'Delete', danger: true })) return
                rest('DELETE', `/v1/templates/${encodeURIComponent(t.name)}`).then(lookAtTemplates, (e: unknown) => failed('It was not deleted', e))
              }}><Icon name="trash" />Delete…</MenuItem>}
            </Menu>
          </li>
        ))}
      </ul>
    </>
  )
}
