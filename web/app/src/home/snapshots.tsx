import { signal } from '@preact/signals'
import type { SnapshotInfo } from '@sandgate/client/base'
import { rich, t, time } from '../language/texts'
import { facts } from '../notebook/languages'
import { offers, rest } from '../rest'
import { navigate, notebookPath } from '../router'
import { client, may } from '../server'
import { bytes } from '../ui/bytes'
import { confirm } from '../ui/dialog'
import { Icon } from '../ui/icon'
import { Menu, MenuItem } from '../ui/menu'
import { failed } from '../ui/toast'

const snapshots = signal<SnapshotInfo[]>([])

export async function lookAtSnapshots(): Promise<void> {
  if (!offers('GET /v1/snapshots')) return
  snapshots.value = (await rest<{ snapshots: SnapshotInfo[] | null }>('GET', '/v1/snapshots')).snapshots ?? []
}

async function start(s: SnapshotInfo): Promise<void> {
  try {
    const made = await client.peek()!.sandbox({ snapshot: s.id, ...(s.name ? { name: s.name } : {}) })
    navigate(notebookPath(made.id))
  } catch (e) {
    failed(t('The session was not created'), e)
  }
}

/** Lists the saved states that sessions can start from. Shows nothing if there is none. */
export function Snapshots() {
  if (snapshots.value.length === 0) return null
  return (
    <section aria-labelledby="snapshots">
      <h2 id="snapshots">{t('Snapshots')}</h2>
      <p class="muted lead">{t('A session that starts from a snapshot has its variables, files and programs.')}</p>
      <ul class="sessions">
        {snapshots.value.map((s) => {
          const name = s.name || t('Snapshot of {session}', { session: s.session.slice(0, 10) })
          return (
            <li key={s.id} class="session snapshot">
              <span class="language-badge" style={{ background: facts(s.language).colour }} aria-hidden="true">{facts(s.language).short}</span>
              <div class="grow">
                <strong>{name}</strong>
                <p class="muted about">
                  <span>{rich('saved {time}', { time: <time dateTime={new Date(s.created_ms).toISOString()}>{time(s.created_ms)}</time> })}</span><span>{bytes(s.bytes)}</span>
                  <span>{rich('of {session}', { session: <a href={notebookPath(s.session)}>{s.session.slice(0, 10)}</a> })}</span>
                  {s.expires_ms ? <span>{t('expires {time}', { time: time(s.expires_ms) })}</span> : null}
                  {s.state === 'uploading' && <span>{t('is being stored')}</span>}
                </p>
              </div>
              {may('sessions:manage') && <button type="button" class="button" onClick={() => void start(s)}><Icon name="play" />{t('Start')}</button>}
              {may('sessions:manage') && <Menu label={t('More for {name}', { name })} button={<Icon name="more" />}>
                {() => <MenuItem danger onClick={async () => {
                  if (!await confirm({ title: t('Delete “{name}”?', { name }), text: t('Sessions that started from it keep running.'), yes: t('Delete'), danger: true })) return
                  await rest('DELETE', `/v1/snapshots/${encodeURIComponent(s.id)}`).catch((e: unknown) => failed(t('It was not deleted'), e))
                  await lookAtSnapshots().catch(() => {})
                }}><Icon name="trash" />{t('Delete…')}</MenuItem>}
              </Menu>}
            </li>
          )
        })}
      </ul>
    </section>
  )
}
