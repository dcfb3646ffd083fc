// Diagrams of Mermaid. The library runs in a frame of untrusted output, which sends back pictures.
import { t } from '../language/texts'
import { frameFor } from './frame'

const patience = 20_000
/** The number of characters of a diagram, and of its picture. */
const maxSource = 50_000
const maxPicture = 2_000_000

interface Drawn {
  light: string
  dark: string
}

let post: ((message: unknown) => void) | undefined
let entered: (() => void)[] = []
const waiting = new Map<number, { resolve(d: Drawn): void; reject(e: Error): void }>()
let last = 0

/** Starts the frame that draws, once. It is not seen, but has a size, because text is measured. */
function drawer(): Promise<void> {
  if (post) return Promise.resolve()
  const ready = new Promise<void>((resolve) => entered.push(resolve))
  if (entered.length > 1) return ready
  const { el } = frameFor({ kind: 'mermaid' }, {
    entered(send) {
      post = send
      for (const go of entered) go()
      entered = []
    },
    heard(message) {
      const { drawn, light, dark, error } = message as { drawn?: unknown; light?: unknown; dark?: unknown; error?: unknown }
      const one = typeof drawn === 'number' ? waiting.get(drawn) : undefined
      if (!one) return
      waiting.delete(drawn as number)
      const good = (s: unknown): s is string => typeof s === 'string' && s.startsWith('<svg') && s.length <= maxPicture
      if (good(light) && good(dark)) one.resolve({ light, dark })
      else one.reject(new Error(typeof error === 'string' ? error.slice(0, 500) : t('The picture is too large')))
    },
    left() {
      post = undefined
    },
  })
  el.classList.add('drawer')
  el.setAttribute('aria-hidden', 'true')
  el.inert = true
  document.body.append(el)
  return ready
}

async function drawn(source: string): Promise<Drawn> {
  await drawer()
  const id = ++last
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject })
    setTimeout(() => {
      if (waiting.delete(id)) reject(new Error(t('It takes too long')))
    }, patience)
    post?.({ draw: id, source })
  })
}

/** Replaces the source of a diagram with its picture. If it has mistakes, the source stays. */
export async function showDiagram(box: HTMLElement, source: string): Promise<void> {
  try {
    if (source.length > maxSource) throw new Error(t('It is too long'))
    const both = await drawn(source)
    box.replaceChildren(...(['light', 'dark'] as const).map((scheme) => {
      const img = document.createElement('img')
      img.className = `in-${scheme}`
      img.alt = t('Diagram: {source}', { source: source.trim().slice(0, 1000) })
      img.src = `data:image/svg+xml,${encodeURIComponent(both[scheme])}`
      return img
    }))
  } catch (e) {
    const p = document.createElement('p')
    p.className = 'bad'
    p.textContent = t('The diagram was not drawn: {error}', { error: (e as Error).message })
    box.append(p)
  }
}
