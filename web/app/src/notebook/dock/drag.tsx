import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { keyOf, maxGroups, type Dock, type DockTab } from './state'

const type = 'application/x-sandgate-tab'

/** The key of the tab that is dragged; empty without one. */
const dragged = signal('')

const isRTL = (el: Element): boolean => getComputedStyle(el).direction === 'rtl'

/** Lets a tab be dragged. */
export function dragTab(t: DockTab) {
  return {
    draggable: true,
    onDragStart(e: DragEvent) {
      e.dataTransfer!.setData(type, keyOf(t))
      e.dataTransfer!.effectAllowed = 'move'
      setTimeout(() => (dragged.value = keyOf(t))) // a change of the page now would end the drag
    },
    onDragEnd: () => (dragged.value = ''),
  }
}

/** Lets a dragged tab be put between those of a group. */
export function dropOnTabs(dock: Dock, group: number) {
  return {
    onDragOver(e: DragEvent) {
      if (dragged.peek()) e.preventDefault()
    },
    onDrop(e: DragEvent) {
      if (!dragged.peek()) return
      e.preventDefault()
      const list = e.currentTarget as HTMLElement
      const sign = isRTL(list) ? -1 : 1
      const before = [...list.querySelectorAll<HTMLElement>('[role=tab]')].find((el) => {
        const { left, width } = el.getBoundingClientRect()
        return sign * (left + width / 2 - e.clientX) > 0
      })
      put(dock, { group, ...(before ? { before: before.dataset.key! } : {}) })
    },
  }
}

function put(dock: Dock, to: Parameters<Dock['move']>[1]): void {
  const key = dragged.peek()
  dragged.value = ''
  if (dock.move(key, to)) dock.focused.value = key
}

/**
 * Covers the part of a group while a tab is dragged: frames and terminals would take the drag. The
 * tab joins the group, or at its edge becomes a group of its own.
 */
export function DropZone({ dock, group, stacked, style }: { dock: Dock; group: number; stacked: boolean; style: Record<string, string> }) {
  const [zone, setZone] = useState<'into' | 'before' | 'after'>()
  const key = dragged.value
  if (!key) return null
  const { groups } = dock.state.value
  const alone = groups.some((g) => g.tabs.length === 1 && keyOf(g.tabs[0]!) === key) // its group ends
  const over = (e: DragEvent & { currentTarget: Element }) => {
    e.preventDefault()
    const r = e.currentTarget.getBoundingClientRect()
    const x = (e.clientX - r.left) / r.width
    const part = stacked ? (e.clientY - r.top) / r.height : isRTL(e.currentTarget) ? 1 - x : x
    const edge = groups.length - Number(alone) < maxGroups
    setZone(edge && part < 0.25 ? 'before' : edge && part > 0.75 ? 'after' : 'into')
  }
  return (
    <div class={`dock-drop ${zone ?? ''}`} style={style} onDragOver={over} onDragLeave={() => setZone(undefined)} onDrop={(e) => {
      e.preventDefault()
      put(dock, zone === 'before' || zone === 'after' ? { group: zone === 'before' ? group : group + 1, split: true } : { group })
      setZone(undefined)
    }} />
  )
}
