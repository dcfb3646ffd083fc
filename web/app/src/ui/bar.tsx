import { signal } from '@preact/signals'
import icon from '../icon.svg'
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { t } from '../language/texts'
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
      <a class="brand" href="/" aria-label={t('Sandgate, all sessions')}><img src={icon} alt="" width="24" height="24" />{!children && 'Sandgate'}</a>
      {children ?? <span class="grow" />}
      <Settings />
    </header>
  )
}

const themes = (): [Theme, string][] => [['system', t('System theme')], ['light', t('Light')], ['dark', t('Dark')]]

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
    <Menu label={t('Settings')} button={<Icon name="settings" />}>
      {() => (
        <>
          {themes().map(([value, label]) => (
            <MenuItem key={value} checked={theme.value === value} onClick={() => (theme.value = value)}>
              {theme.value === value ? <Icon name="check" /> : <span class="icon-svg" />}{label}
            </MenuItem>
          ))}
          <hr /><MenuItem onClick={() => (settingsOpen.value = true)}>{t('All settings…')}</MenuItem>
          {description.value && <MenuItem onClick={() => (paletteOpen.value = true)}>{t('Command palette…')}</MenuItem>}
          {!viewing.value && description.value && may('sessions:read') && <a role="menuitem" href={consolePath('')}><Icon name="list" />{t('Console')}</a>}
          {token.value && <><hr /><MenuItem onClick={signOut}><Icon name="signout" />{viewing.value ? t('Stop watching') : t('Sign out')}</MenuItem></>}
          {description.value && <><hr /><p class="muted" style="padding: 4px 12px; font-size: var(--text-xs)">{description.value.server}</p></>}
        </>
      )}
    </Menu>
    </>
  )
}
