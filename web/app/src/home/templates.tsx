import { signal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useState } from 'preact/hooks'
import { facts } from '../notebook/languages'
import { offers, rest } from '../rest'
import { languageName, may } from '../server'
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

/**
 * Lists the templates that sessions can start from besides the server's own image. Shows nothing if
 * there is none.
 */
export function Templates({ disabled, make }: { disabled: boolean; make: (template: Template) => void }) {
  const all = templates.value
  const mayMake = offers('PUT /v1/templates/{id}') && may('sessions:manage')
  // Rarely used parts are loaded on demand.
  const [over, setOver] = useState<ComponentType | undefined>()
  const close = () => setOver(undefined)
  const show = (load: Promise<ComponentType>) => void load.then((view) => setOver(() => view), (e: unknown) => failed('This part of the page could not be loaded', e))
  const create = () => show(import('./new-template').then(({ NewTemplate }) => () => (
    <NewTemplate taken={templates.peek().map((t) => t.name)} onClose={close} onMade={() => { close(); void lookAtTemplates().catch(() => {}) }} />
  )))
  const log = (name: string) => show(import('./build-log').then(({ BuildLog }) => () => <BuildLog name={name} onClose={close} />))
  const Over = over
  if (all.length === 0 && !mayMake) return null
  return (
    <>
      {Over && <Over />}
      <div class="heading from">
        <h2>Templates</h2>
        <span class="grow" />
        {mayMake && <button type="button" class="button" onClick={create}><Icon name="add" />New template</button>}
      </div>
      {all.length === 0 && <p class="muted">Sessions start from a template with its packages installed and its startup code run.</p>}
      <ul class="templates">
        {all.map((t) => (
          <li key={t.name} class="template">
            <button type="button" class="template-start" disabled={disabled || t.state !== 'ready'} onClick={() => make(t)}>
              <span class="language-badge" style={{ background: facts(t.languages[0] ?? '').colour }} aria-hidden="true">{facts(t.languages[0] ?? '').short}</span>
              <span class="grow">
                <strong>{t.name}</strong>
                <span class={t.state === 'failed' ? 'bad ellipsis' : 'muted ellipsis'} title={t.error}>{{ ready: t.spec.description || t.languages.map(languageName).join(', '), building: 'Building…' }[t.state] ?? `Build failed: ${t.error ?? t.state}`}</span>
              </span>
              {t.state === 'building' && <Icon name="spinner" spin />}
            </button>
            <Menu label={`More for template ${t.name}`} button={<Icon name="more" />}>
              {() => <><MenuItem onClick={() => log(t.name)}><Icon name="list" />Build output…</MenuItem>{mayMake && <MenuItem danger onClick={async () => {
                if (!await confirm({ title: `Delete the template “${t.name}”?`, text: 'Sessions that started from it keep running.', yes: 'Delete', danger: true })) return
                rest('DELETE', `/v1/templates/${encodeURIComponent(t.name)}`).then(lookAtTemplates, (e: unknown) => failed('It was not deleted', e))
              }}><Icon name="trash" />Delete…</MenuItem>}</>}
            </Menu>
          </li>
        ))}
      </ul>
    </>
  )
}
