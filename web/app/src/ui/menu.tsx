import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'

export interface MenuProps {
  label: string
  /** The content of the button. */
  button: ComponentChildren
  class?: string
  /** Buttons, links and separators. A click on one closes the menu. Created when the menu opens. */
  children: () => ComponentChildren
}

/** A button with a menu. Arrow keys move, Escape closes it and returns the focus. */
export function Menu({ label, button, class: cls = 'button icon quiet', children }: MenuProps) {
  const id = useId()
  const opener = useRef<HTMLButtonElement>(null)
  const menu = useRef<HTMLDivElement>(null)
  const [open, setOpen] = useState(false)

  useLayoutEffect(() => {
    const el = menu.current
    if (!el || !open) return
    el.showPopover()
    place(el, opener.current!)
    ;(items(el)[0] ?? el).focus()
  }, [open])

  const key = (e: KeyboardEvent) => {
    e.stopPropagation()
    const all = items(menu.current!)
    const at = all.indexOf(document.activeElement as HTMLElement)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[e.key]
    if (to !== undefined) {
      e.preventDefault()
      all[(to + all.length) % all.length]?.focus()
    } else if (e.key === 'Escape' || e.key === 'Tab') {
      e.preventDefault()
      close()
    }
  }
  const close = () => {
    menu.current?.hidePopover()
    opener.current?.focus()
    setOpen(false) // the event for it may come later than the next click
  }
  return (
    <>
      <button ref={opener} type="button" class={cls} aria-label={label} title={label} aria-haspopup="menu" aria-expanded={open} aria-controls={open ? id : undefined}
        onClick={(e) => { e.stopPropagation(); setOpen(!open) }}>{button}</button>
      {open && (
        <div ref={menu} id={id} class="menu" role="menu" tabIndex={-1} aria-label={label} popover="auto" onKeyDown={key}
          onToggle={(e) => { if ((e as unknown as ToggleEvent).newState === 'closed') setOpen(false) }}
          onClick={(e) => { e.stopPropagation(); if ((e.target as Element).closest('button, a')) close() }}>
          {children()}
        </div>
      )}
    </>
  )
}

export function MenuItem(p: { children: ComponentChildren; onClick: () => void; keys?: string; danger?: boolean; disabled?: boolean; checked?: boolean }) {
  return (
    <button type="button" role={p.checked === undefined ? 'menuitem' : 'menuitemradio'} aria-checked={p.checked} class={p.danger ? 'danger' : undefined} disabled={p.disabled} onClick={p.onClick}>
      {p.children}{p.keys && <kbd>{p.keys}</kbd>}
    </button>
  )
}

const items = (el: HTMLElement) => [...el.querySelectorAll<HTMLElement>('button:not(:disabled), a')]

/** Places the menu below the button, or above it, depending on the space. */
function place(el: HTMLElement, at: HTMLElement): void {
  const b = at.getBoundingClientRect()
  const { width, height } = el.getBoundingClientRect()
  const left = Math.min(Math.max(8, b.right - width), innerWidth - width - 8)
  const below = b.bottom + 4
  el.style.left = `${Math.max(8, b.left + width < innerWidth - 8 ? b.left : left)}px`
  el.style.top = `${below + height < innerHeight - 8 ? below : Math.max(8, b.top - height - 4)}px`
}
