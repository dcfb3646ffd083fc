import { signal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useState } from 'preact/hooks'
import { plural, t } from '../language/texts'
import { offers, rest } from '../rest'
import { may } from '../server'
import { bytes } from '../ui/bytes'
import { ask, confirm } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { failed } from '../ui/toast'

interface Volume {
  name: string
  max_bytes: number
  bytes: number
  files: number
  sessions: number
}

export const volumes = signal<Volume[]>([])
/** The names of the volumes for the next session. */
export const chosen = signal<string[]>([])

export async function lookAtVolumes(): Promise<void> {
  if (!offers('GET /v1/volumes')) return
  const all = (await rest<{ volumes: Volume[] | null }>('GET', '/v1/volumes')).volumes ?? []
  volumes.value = all
  chosen.value = chosen.peek().filter((name) => all.some((v) => v.name === name))
}

async function create(): Promise<void> {
  const name = await ask({ title: t('New volume'), text: t('A folder that outlives sessions. Sessions share it as /volumes/NAME.'), value: '', placeholder: t('Name, such as data'), yes: t('Create') })
  if (!name?.trim()) return
  try {
    await rest('POST', '/v1/volumes', { name: name.trim() })
    chosen.value = [...chosen.peek(), name.trim()]
  } catch (e) {
    failed(t('The volume was not created'), e)
  }
  await lookAtVolumes().catch(() => {})
}

/** Selects the volumes of a new session. Shows nothing if the server offers none. */
export function ChooseVolumes() {
  if (!offers('POST /v1/volumes') || volumes.value.length === 0) return null
  return (
    <div class="with" role="group" aria-label={t('Volumes of the new session')}>
      <span class="muted">{t('With volumes')}</span>
      {volumes.value.map((v) => {
        const on = chosen.value.includes(v.name)
        return (
          <button key={v.name} type="button" class="button pill" aria-pressed={on} onClick={() => (chosen.value = on ? chosen.peek().filter((n) => n !== v.name) : [...chosen.peek(), v.name])}>
            {on && <Icon name="check" />}{v.name}
          </button>
        )
      })}
    </div>
  )
}

export function Volumes() {
  // Rarely used parts are loaded on demand.
  const [Browser, setBrowser] = useState<ComponentType | undefined>()
  const browse = (name: string) => void import('./volume-files').then(
    ({ VolumeFiles }) => setBrowser(() => () => <VolumeFiles name={name} onClose={() => setBrowser(undefined)} />), (e: unknown) => failed(t('This part of the page could not be loaded'), e))
  if (!offers('POST /v1/volumes') || (volumes.value.length === 0 && !may('sessions:manage'))) return null
  return (
    <section aria-labelledby="volumes">
      {Browser && <Browser />}
      <div class="heading"><h2 id="volumes">{t('Volumes')}</h2><span class="grow" />{may('sessions:manage') && <button type="button" class="button" onClick={() => void create()}><Icon name="add" />{t('New volume')}</button>}</div>
      {volumes.value.length === 0
        ? <p class="muted">{t('A volume keeps files when a session ends. Several sessions can use it at once.')}</p>
        : (
          <ul class="sessions">
            {volumes.value.map((v) => (
              <li key={v.name} class="session volume">
                <span class="volume-icon" aria-hidden="true"><Icon name="folder" /></span>
                <div class="grow">
                  <strong>{v.name}</strong>
                  <p class="muted about"><span>{t('{used} of {most}', { used: bytes(v.bytes), most: bytes(v.max_bytes) })}</span><span>{plural(v.files, '{n} file', '{n} files')}</span>
                    <span>{v.sessions === 0 ? t('in no session') : plural(v.sessions, 'in {n} session', 'in {n} sessions')}</span></p>
                </div>
                <button type="button" class="button quiet" aria-label={t('Files of volume {name}', { name: v.name })} onClick={() => browse(v.name)}><Icon name="folder" />{t('Files')}</button>
                {may('sessions:manage') && <button type="button" class="button icon quiet" aria-label={t('Delete volume {name}', { name: v.name })} title={v.sessions ? t('End its sessions first') : t('Delete')} disabled={v.sessions > 0} onClick={async () => {
                  if (!await confirm({ title: t('Delete the volume “{name}”?', { name: v.name }), text: t('All its files are deleted. This cannot be undone.'), yes: t('Delete'), danger: true })) return
                  await rest('DELETE', `/v1/volumes/${encodeURIComponent(v.name)}`).catch((e: unknown) => failed(t('It was not deleted'), e))
                  await lookAtVolumes().catch(() => {})
                }}><Icon name="trash" /></button>}
              </li>
            ))}
          </ul>
        )}
    </section>
  )
}
