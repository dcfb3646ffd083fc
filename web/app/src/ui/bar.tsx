import { signal } from '@preact/signals'
import icon from '../icon.svg'
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { consolePath } from '../router'
import { description, may } from '../server'
import { theme, type Theme } from '../theme'
import { signOut, token, viewing } from '../token'
import { Icon } from './icon'
import { Menu, MenuItem } from './menu'
import { paletteOpen } from './palette'

/** The bar at the top of each page: home, the content of the page, settings. */
export function Bar({ children }: { children?: ComponentChildren }) {
  return (
    <header class="bar">
      <a class="brand" href="/" aria-label="Sandgate, all sessions"><img src={icon} alt="" width="24" height="24" />{!children && 'Sandgate'}</a>
      {children ?? <span class="grow" />}
      <Settings />
    </header>
  )
}

const themes: [Theme, string][] = [['system', 'System theme'], ['light', 'Light'], ['dark', 'Dark']]

export const settingsOpen = signal(false)

function Settings() {
  const [View, setView] = useState<typeof import('./settings').SettingsDialog>()
  const open = settingsOpen.value
  useEffect(() => {
    if (open) void import('./settings').then((m) => setView(() => m.SettingsDialog))
  }, [open])
  return (
    <>
    {open && View && <View onClose={() => (settingsOpen.value = false)} />}
    <Menu label="Settings" button={<Icon name={theme.value === 'dark' ? 'moon' : 'sun'} />}>
      {() => (
        <>
          {themes.map(([t, label]) => (
            <MenuItem key={t} checked={theme.value === t} onClick={() => (theme.value = t)}>
              {theme.value === t ? <Icon name="check" /> : <span class="icon-svg" />}{label}
            </MenuItem>
          ))}
          <hr /><MenuItem onClick={() => (settingsOpen.value = true)}>All settings…</MenuItem>
          {description.value && <MenuItem onClick={() => (paletteOpen.value = true)}>Command palette…</MenuItem>}
          {!viewing.value && description.value && may('sessions:read') && <a role="menuitem" href={consolePath('')}><Icon name="list" />Console</a>}
          {token.value && <><hr /><MenuItem onClick={signOut}><Icon name="signout" />{viewing.value ? 'Stop watching' : 'Sign out'}</MenuItem></>}
          {description.value && <><hr /><p class="muted" style="padding: 4px 12px; font-size: var(--text-xs)">{description.value.server}</p></>}
        </>
      )}
    </Menu>
    </>
  )
}
