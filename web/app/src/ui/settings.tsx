import { t } from '../language/texts'
import { choices, switches } from './choices'
import { Dialog } from './dialog'
import './settings.css'

/** The settings of this browser. A change takes effect at once. */
export function SettingsDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog label={t('Settings')} class="settings" onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); onClose() }}>
        <h2>{t('Settings')}</h2>
        <p class="muted">{t('They are kept in this browser.')}</p>
        {choices().map(({ name, setting, options }) => (
          <label key={name}>{name}
            <select class="field" value={String(setting.value)} onChange={(e) => (setting.value = options.find((o) => String(o.value) === e.currentTarget.value)!.value)}>
              {options.map((o) => <option key={o.label} value={String(o.value)}>{o.label}</option>)}
            </select>
          </label>
        ))}
        {switches().map(({ name, setting }) => (
          <label key={name} class="row"><input type="checkbox" checked={setting.value} onChange={(e) => (setting.value = e.currentTarget.checked)} />{name}</label>
        ))}
        <div class="actions"><button class="button primary">{t('Done')}</button></div>
      </form>
    </Dialog>
  )
}
