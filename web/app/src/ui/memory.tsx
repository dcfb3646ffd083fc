import { number, t } from '../language/texts'

/**
 * The memory in use, with the most that the session may take. With drawn, the bar is only for the eye,
 * because no meter may be in a menu.
 */
export function Memory({ used, most, drawn }: { used: number; most?: number | undefined; drawn?: boolean }) {
  const mb = (n: number) => `${number(Math.round(n / 1e6))} MB`
  if (!most) return <span class="memory">{mb(used)}</span>
  const part = Math.min(1, used / most)
  return <span class="memory">{t('{used} of {most}', { used: mb(used), most: mb(most) })}<meter class="meter" aria-hidden={drawn} min={0} max={1} high={0.8} value={part} aria-label={t('{percent} % of its memory', { percent: Math.round(part * 100) })} /></span>
}
