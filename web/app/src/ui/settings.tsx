import type { Signal } from '@preact/signals'
import { codeSize, editorKeys, foldMarks, lineNumbers, suggesting, wide, type EditorKeys } from '../settings'
import { theme, type Theme } from '../theme'
import { Dialog } from './dialog'
import './settings.css'

const sizes = [11, 12, 13, 14, 15, 16, 18, 20, 24]

/** The settings of this browser. A change takes effect at once. */
export function SettingsDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog label="Settings" class="settings" onClose={onClose}>
      <form class="dialog" onSubmit={(e) => { e.preventDefault(); onClose() }}>
        <h2>Settings</h2>
        <p class="muted">They are kept in this browser.</p>
        <label>Theme
          <select class="field" value={theme.value} onChange={(e) => (theme.value = e.currentTarget.value as Theme)}>
            <option value="system">As the system</option><option value="light">Light</option><option value="dark">Dark</option>
          </select>
        </label>
        <label>Size of code and output
          <select class="field" value={codeSize.value} onChange={(e) => (codeSize.value = Number(e.currentTarget.value))}>
            {sizes.map((n) => <option key={n} value={n}>{n} px{n === 13 ? ' (default)' : ''}</option>)}
          </select>
        </label>
        <label>Width of the notebook
          <select class="field" value={String(wide.value)} onChange={(e) => (wide.value = e.currentTarget.value === 'true')}>
            <option value="false">Easy to read (1,000 px)</option><option value="true">Whole window</option>
          </select>
        </label>
        <label>Keys of the editor
          <select class="field" value={editorKeys.value} onChange={(e) => (editorKeys.value = e.currentTarget.value as EditorKeys)}>
            <option value="standard">Standard</option><option value="vim">Vim</option><option value="emacs">Emacs</option>
          </select>
        </label>
        <Switch setting={suggesting}>Suggest completions while you type</Switch>
        <Switch setting={lineNumbers}>Show line numbers</Switch>
        <Switch setting={foldMarks}>Show marks that fold code</Switch>
        <div class="actions"><button class="button primary">Done</button></div>
      </form>
    </Dialog>
  )
}

function Switch({ setting, children }: { setting: Signal<boolean>; children: string }) {
  return <label class="row"><input type="checkbox" checked={setting.value} onChange={(e) => (setting.value = e.currentTarget.checked)} />{children}</label>
}
