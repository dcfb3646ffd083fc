// Pictures of programs: saved as a file, and shown large.
import { t } from '../language/texts'
import { save } from './rich'
import './picture.css'

const [minScale, maxScale] = [0.1, 16]

function button(text: string, label: string, run: () => void): HTMLButtonElement {
  const b = document.createElement('button')
  b.type = 'button'
  b.className = 'button'
  b.textContent = text
  if (label !== text) b.setAttribute('aria-label', label)
  b.title = label
  b.addEventListener('click', run)
  return b
}

/** Returns a picture with its buttons. */
export function picture(img: HTMLImageElement, blob: Blob, type: string): HTMLElement {
  const el = document.createElement('div')
  el.className = 'picture'
  const tools = document.createElement('div')
  tools.className = 'picture-tools'
  const ending = type === 'image/svg+xml' ? 'svg' : type.slice(6)
  tools.append(button(t('Enlarge'), t('Enlarge the picture'), () => enlarge(img)), button(t('Save'), t('Save the picture'), () => save(blob, `figure.${ending}`)))
  img.addEventListener('dblclick', () => enlarge(img))
  el.append(img, tools)
  return el
}

/** Shows a picture over the page. The wheel, + and − change its size; dragging moves it. */
function enlarge(small: HTMLImageElement): void {
  const box = document.createElement('dialog')
  box.className = 'picture-large'
  box.setAttribute('aria-label', t('Picture'))
  const view = document.createElement('div')
  view.className = 'picture-view'
  view.tabIndex = 0
  const img = document.createElement('img')
  img.src = small.src
  img.alt = small.alt
  img.className = small.className
  img.draggable = false
  view.append(img)
  const shown = document.createElement('span')
  shown.className = 'muted num'
  shown.setAttribute('role', 'status')
  let scale = 1
  const [width, height] = [small.naturalWidth || small.width, small.naturalHeight || small.height]
  const fit = () => Math.min((view.clientWidth - 2) / width, (view.clientHeight - 2) / height)
  const zoom = (to: number, x = view.clientWidth / 2, y = view.clientHeight / 2) => {
    const before = scale
    scale = Math.min(maxScale, Math.max(minScale, to))
    const [left, top] = [(view.scrollLeft + x) * scale / before - x, (view.scrollTop + y) * scale / before - y]
    img.style.width = `${width * scale}px`
    view.scrollTo(left, top)
    shown.textContent = `${Math.round(scale * 100)} %`
  }
  const bar = document.createElement('div')
  bar.className = 'row picture-bar'
  bar.append(
    button('−', t('Smaller'), () => zoom(scale / 1.25)), shown, button('+', t('Larger'), () => zoom(scale * 1.25)),
    button(t('Fit'), t('Fit to the window'), () => zoom(fit())), button('100 %', t('100 %, original size'), () => zoom(1)), button(t('Close'), t('Close'), () => box.close()),
  )
  view.addEventListener('wheel', (e) => {
    e.preventDefault()
    const at = view.getBoundingClientRect()
    zoom(scale * Math.exp(-e.deltaY / 400), e.clientX - at.left, e.clientY - at.top)
  }, { passive: false })
  view.addEventListener('pointerdown', (e) => view.setPointerCapture(e.pointerId))
  view.addEventListener('pointermove', (e) => {
    if (view.hasPointerCapture(e.pointerId)) view.scrollBy(-e.movementX, -e.movementY)
  })
  box.addEventListener('keydown', (e) => {
    e.stopPropagation()
    const to = { '+': scale * 1.25, '=': scale * 1.25, '-': scale / 1.25, 0: fit(), 1: 1 }[e.key]
    if (to !== undefined) zoom(to)
  })
  box.addEventListener('close', () => box.remove())
  box.append(bar, view)
  document.body.append(box)
  box.showModal()
  view.focus()
  zoom(Math.max(1, fit()) === 1 ? Math.min(1, fit()) : fit())
}
