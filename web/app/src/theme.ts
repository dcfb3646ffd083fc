import { effect, signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'
const name = 'sandgate.theme'

function stored(): Theme {
  try {
    const t = localStorage.getItem(name)
    return t === 'light' || t === 'dark' ? t : 'system'
  } catch {
    return 'system'
  }
}

export const theme = signal<Theme>(stored())
const system = matchMedia('(prefers-color-scheme: dark)')
const systemDark = signal(system.matches)
/** Whether the page is dark now, for code that cannot use light-dark(). */
export const dark = signal(false)

export function startTheme(): void {
  system.addEventListener('change', () => (systemDark.value = system.matches))
  effect(() => {
    const t = theme.value
    dark.value = t === 'dark' || (t === 'system' && systemDark.value)
    if (t === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = t
    try {
      if (t === 'system') localStorage.removeItem(name)
      else localStorage.setItem(name, t)
    } catch {
      // Then it lasts as long as this page.
    }
  })
}
