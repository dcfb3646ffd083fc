import { useRef } from 'preact/hooks'
import { t } from '../../language/texts'
import { sizes, type Dock, type DockGroup } from './state'

type Box = Pick<DOMRect, 'left' | 'top' | 'width' | 'height'>

interface Props {
  label: string
  /** It lies between things that are side by side, and moves to the side. */
  upright: boolean
  now: number
  least: number
  most: number
  /** The pointer has moved it to this place, from 0 to 1 of the box that has the divider. */
  at: (place: number) => void
  /** A key has moved it: by 1 forwards, or by -1. */
  step: (by: 1 | -1) => void
  /** The box, if it is not the element around. */
  box?: () => Box
  style?: Record<string, string>
}

/** A line between two parts of the page that can be moved. */
function Divider({ label, upright, now, least, most, at, step, box, style }: Props) {
  const el = useRef<HTMLDivElement>(null)
  const rtl = () => getComputedStyle(el.current!).direction === 'rtl'
  return (
    <div ref={el} class={upright ? 'divider upright' : 'divider'} style={style} role="separator" tabIndex={0} aria-label={label} aria-orientation={upright ? 'vertical' : 'horizontal'} aria-valuenow={now} aria-valuemin={least} aria-valuemax={most}
      onKeyDown={(e) => {
        const by = { ArrowLeft: rtl() ? 1 : -1, ArrowUp: -1, ArrowRight: rtl() ? -1 : 1, ArrowDown: 1 }[e.key]
        if (by === undefined) return
        e.preventDefault()
        step(by as 1 | -1)
      }}
      onPointerDown={(e) => e.currentTarget.setPointerCapture(e.pointerId)}
      onPointerMove={(e) => {
        if (!e.currentTarget.hasPointerCapture(e.pointerId)) return
        const r = box?.() ?? e.currentTarget.parentElement!.getBoundingClientRect()
        const x = (e.clientX - r.left) / r.width
        at(upright ? (rtl() ? 1 - x : x) : (e.clientY - r.top) / r.height)
      }} />
  )
}

/** The line between the notebook and what is beside or below it. */
export function Edge({ dock, below, size }: { dock: Dock; below: boolean; size: number }) {
  const move = (to: number) => dock.set({ size: Math.round(Math.min(sizes.most, Math.max(sizes.least, to))) })
  return (
    <Divider label={t('Size of the part beside the notebook')} upright={!below} now={size} least={sizes.least} most={sizes.most} box={() => ({ left: 0, top: 0, width: document.documentElement.clientWidth, height: innerHeight })}
      at={(place) => move(100 * (1 - place) - (below ? 0 : sideWidth()))} step={(by) => move(size - 2 * by)} />
  )
}

/** The width of the pane beside it, in percent of the window. */
const sideWidth = (): number => (100 * (document.querySelector('.workspace > .side')?.getBoundingClientRect().width ?? 0)) / document.documentElement.clientWidth

/** The line between two groups of tabs, which begins the second one. */
export function Between({ dock, groups, index, stacked, style }: { dock: Dock; groups: DockGroup[]; index: number; stacked: boolean; style: Record<string, string> }) {
  const [a, b] = [groups[index - 1]!, groups[index]!]
  const both = a.share + b.share
  const part = a.share / both
  const move = (to: number) => {
    const share = Math.min(0.85, Math.max(0.15, to)) * both
    dock.set({ groups: groups.map((g, i) => (i === index - 1 ? { ...g, share } : i === index ? { ...g, share: both - share } : g)) })
  }
  const before = groups.slice(0, index - 1).reduce((n, g) => n + g.share, 0)
  const all = groups.reduce((n, g) => n + g.share, 0)
  return (
    <Divider label={t('Size of group {n}', { n: index })} upright={!stacked} now={Math.round(100 * part)} least={15} most={85} style={style}
      at={(place) => move((place * all - before) / both)} step={(by) => move(part + by / 20)} />
  )
}
