import { effect } from '@preact/signals'
import { t } from '../language/texts'
import { dark } from '../theme'
import { confirm } from '../ui/dialog'

/**
 * The maximum number of frames that are alive. When there are more, the frame that was out of sight
 * longest is removed.
 */
const maxAlive = 12
const maxHeight = 20_000
/** The maximum number of height changes of a frame per second. */
const maxResizes = 10
const colourNames = ['--ink', '--muted', '--line', '--line-strong', '--surface', '--sunken', '--hover', '--accent', '--accent-ink', '--danger',
  ...Array.from({ length: 16 }, (_, i) => `--ansi-${i}`)]

export type FrameContent =
  | { kind: 'html'; html: string }
  | { kind: 'script'; code: string }
  | { kind: 'vega' | 'vega-lite' | 'plotly'; spec: unknown }
  | { kind: 'widget'; id: string }
  | { kind: 'mermaid' }
  | { kind: 'pdf'; name: string; data: Uint8Array }

/** Exchanges messages with the content of a frame. Messages from there are untrusted. */
export interface Guest {
  entered(post: (message: unknown, transfer?: Transferable[]) => void): void
  heard(message: unknown): void
  left(): void
}

interface Framed {
  el: HTMLElement
  visible: boolean
  since: number
  wake(): void
  sleep(): void
  alive: boolean
}

const all = new Set<Framed>()
const watcher = typeof IntersectionObserver === 'undefined' ? undefined : new IntersectionObserver((entries) => {
  for (const e of entries) {
    for (const f of all) {
      if (f.el !== e.target) continue
      f.visible = e.isIntersecting
      f.since = Date.now()
      if (f.visible) f.wake()
    }
  }
  tidy()
}, { rootMargin: '300px' })

function tidy(): void {
  const alive = [...all].filter((f) => f.alive)
  const asleep = alive.filter((f) => !f.visible).sort((a, b) => a.since - b.since)
  while (alive.length > maxAlive && asleep.length > 0) {
    const f = asleep.shift()!
    f.sleep()
    alive.splice(alive.indexOf(f), 1)
  }
}

/** Loads the frames that are out of sight too. Resolves when all show something. */
export async function wakeAll(): Promise<void> {
  for (const f of all) f.wake()
  while ([...all].some((f) => f.el.isConnected && !f.el.classList.contains('ready'))) await new Promise((resolve) => setTimeout(resolve, 50))
}

function colours(): Record<string, string> {
  const style = getComputedStyle(document.documentElement)
  return Object.fromEntries(colourNames.map((n) => [n, style.getPropertyValue(n)]))
}

/**
 * Creates a frame for HTML that a program wrote. Its origin is opaque, and its policy allows it to
 * load only the libraries of /sandbox/lib/. It receives its content by message, and reports its
 * height and clicked links. It is alive while it is in sight, or near.
 */
export function frameFor(content: FrameContent, guest?: Guest): { el: HTMLElement; dispose: () => void } {
  const el = document.createElement('div')
  el.className = 'frame'
  let frame: HTMLIFrameElement | undefined
  let port: MessagePort | undefined
  let resizes = 0
  let second = 0
  let asking = false

  const heard = (message: unknown) => {
    const m = message as { height?: unknown; link?: unknown; failed?: unknown }
    if (typeof m !== 'object' || m === null) return
    if (m.height === undefined && m.link === undefined) return guest?.heard(message)
    if (typeof m.height === 'number' && Number.isFinite(m.height) && frame) {
      const now = Math.trunc(Date.now() / 1000)
      resizes = now === second ? resizes + 1 : 1
      second = now
      if (resizes > maxResizes) return
      frame.style.height = `${Math.min(maxHeight, Math.max(24, Math.ceil(m.height)))}px`
      el.classList.add('ready')
    }
    if (typeof m.link === 'string' && m.link.length < 4096 && /^(?:https?|mailto):/i.test(m.link) && !asking) {
      asking = true
      const address = m.link
      void confirm({ title: t('Open this link?'), text: address, yes: t('Open') }).then((yes) => {
        asking = false
        if (yes) window.open(address, '_blank', 'noopener,noreferrer')
      })
    }
  }

  const leave = () => {
    if (port) guest?.left()
    port?.close()
    port = undefined
  }

  const self: Framed = {
    el, visible: false, since: 0, alive: false,
    wake() {
      if (self.alive) return
      self.alive = true
      let loads = 0
      let world: Window | null = null
      frame = document.createElement('iframe')
      frame.setAttribute('sandbox', 'allow-scripts')
      frame.setAttribute('allow', '')
      frame.referrerPolicy = 'no-referrer'
      frame.title = content.kind === 'pdf' ? t('Pages of {name}', { name: content.name }) : t('Output')
      frame.src = '/sandbox/frame'
      frame.style.height = el.style.minHeight || '24px'
      frame.addEventListener('load', () => {
        // When a cell is moved or shown again, its frame loads again in a new window.
        if (frame?.contentWindow !== world) loads = 0
        world = frame?.contentWindow ?? null
        if (!frame?.contentWindow || ++loads > 2) return // a frame that navigates elsewhere receives nothing
        // Each frame has one channel. Messages from other channels are ignored.
        leave()
        const channel = new MessageChannel()
        port = channel.port1
        port.onmessage = (e) => heard(e.data)
        const { port1 } = channel
        guest?.entered((message, transfer = []) => port1.postMessage(message, transfer))
        // The frame's origin is opaque, so there is no origin to send to.
        frame.contentWindow.postMessage({ content, dark: dark.peek(), colours: colours() }, '*', [channel.port2])
      })
      el.replaceChildren(frame)
    },
    sleep() {
      self.alive = false
      el.style.minHeight = frame?.style.height ?? ''
      leave()
      frame = undefined
      el.replaceChildren()
    },
  }
  all.add(self)
  watcher?.observe(el)
  let first = true
  const stop = effect(() => {
    const d = dark.value
    // After the page has applied its new colours.
    if (!first) requestAnimationFrame(() => port?.postMessage({ dark: d, colours: colours() }))
    first = false
  })
  return {
    el,
    dispose() {
      stop()
      watcher?.unobserve(el)
      self.sleep()
      all.delete(self)
    },
  }
}
