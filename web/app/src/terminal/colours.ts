import type { ITheme } from '@xterm/xterm'

const ansi = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const

/** The page's colours for a terminal. Read again when the theme changes. */
export function colours(): ITheme {
  const probe = document.createElement('i')
  // A transition would begin at the previous colour. Reduced motion makes it very short, but does
  // not remove it.
  probe.style.setProperty('transition', 'none', 'important')
  document.body.append(probe)
  // Only a property that is used resolves light-dark().
  const read = (name: string) => {
    probe.style.color = `var(--${name})`
    return getComputedStyle(probe).color
  }
  const t: Record<string, string> = {
    background: read('surface'), foreground: read('ink'), cursor: read('accent'), cursorAccent: read('surface'),
  }
  ansi.forEach((name, i) => {
    t[name] = read(`ansi-${i}`)
    t[`bright${name[0]!.toUpperCase()}${name.slice(1)}`] = read(`ansi-${i + 8}`)
  })
  const accent = read('accent')
  t.selectionBackground = accent.replace('rgb(', 'rgba(').replace(')', ', 0.3)')
  probe.remove()
  return t as ITheme
}
