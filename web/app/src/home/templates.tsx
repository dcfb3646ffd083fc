import { signal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useState } from 'preact/hooks'
import { t } from '../language/texts'
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
  const show = (load: Promise<ComponentType>) => void load.then((view) => setOver(() => view), (e: unknown) => failed(t('This part of the page could not be loaded'), e))
  const create = () => show(import('./new-template').then(({ NewTemplate }) => () => (
    <NewTemplate taken={templates.peek().map(({ name }) => name)} onClose={close} onMade={() => { close(); void lookAtTemplates().catch(() => {}) }} />
  )))
  const log = (name: string) => show(import('./build-log').then(({ BuildLog }) => () => <BuildLog name={name} onClose={close} />))
  const Over = over
  if (all.length === 0 && !mayMake) return null
  return (
    <>
      {Over && <Over />}
      <div class="heading from">
        <h2>{t('Templates')}</h2>
        <span class="grow" />
        {mayMake && <button type="button" class="button" onClick={create}><Icon name="add" />{t('New template')}</button>}
      </div>
      {all.length === 0 && <p class="muted">{t('Sessions start from a template with its packages installed and its startup code run.')}</p>}
      <ul class="templates">
        {all.map((template) => (
          <li key={template.name} class="template">
            <button type="button" class="template-start" disabled={disabled || template.state !== 'ready'} onClick={() => make(template)}>
              <span class="language-badge" style={{ background: facts(template.languages[0] ?? '').colour }} aria-hidden="true">{facts(template.languages[0] ?? '').short}</span>
              <span class="grow">
                <strong>{template.name}</strong>
                <span class={template.state === 'failed' ? 'bad ellipsis' : 'muted ellipsis'} title={template.error}>{{ ready: template.spec.description || template.languages.map(languageName).join(', '), building: t('Building…') }[template.state] ?? t('Build failed: {error}', { error: template.error ?? template.state })}</span>
              </span>
              {template.state === 'building' && <Icon name="spinner" spin />}
            </button>
            <Menu label={t('More for template {name}', { name: template.name })} button={<Icon name="more" />}>
              {() => <><MenuItem onClick={() => log(template.name)}><Icon name="list" />{t('Build output…')}</MenuItem>{mayMake && <MenuItem danger onClick={async () => {
                if (!await confirm({ title: t('Delete the template “{name}”?', { name: template.name }), text: t('Sessions that started from it keep running.'), yes: t('Delete'), danger: true })) return
                rest('DELETE', `/v1/templates/${encodeURIComponent(template.name)}`).then(lookAtTemplates, (e: unknown) => failed(t('It was not deleted'), e))
              }}><Icon name="trash" />{t('Delete…')}</MenuItem>}</>}
            </Menu>
          </li>
        ))}
      </ul>
    </>
  )
}
