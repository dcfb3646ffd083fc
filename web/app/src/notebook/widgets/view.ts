import { t } from '../../language/texts'
import { frameFor } from '../frame'
import type { WidgetHost } from './host'
import type { Member, WidgetState } from './member'

function textOf(s: WidgetState): string {
  switch (s) {
    case 'waiting': return t('Waiting for the kernel…')
    case 'gone': return t('The kernel no longer has this widget: it has ended, or was restarted. Run the cell again.')
    case 'stopped': return t('This widget was stopped because it sent too many messages that are not allowed.')
    default: return ''
  }
}

/**
 * Shows a widget in a frame. text describes the widget, and is shown if the kernel does not have it.
 */
export function widgetView(id: string, host: WidgetHost, text: string): Node {
  const el = document.createElement('div')
  el.className = 'widget'
  const note = document.createElement('p')
  note.className = 'out-note'
  note.setAttribute('role', 'status')
  const plain = document.createElement('pre')
  plain.textContent = text
  let member: Member | undefined
  let shown = false
  const state = (s: WidgetState) => {
    el.dataset.state = s
    shown ||= s === 'live'
    note.textContent = textOf(s)
    note.hidden = !note.textContent
    plain.hidden = shown || s !== 'gone' || !text
    framed.el.hidden = s === 'closed' || (s === 'gone' && !shown)
    framed.el.inert = s !== 'live' || host.readOnly
  }
  const framed = frameFor({ kind: 'widget', id }, {
    entered: (post) => void (member = host.join(id, { post, state })),
    heard: (m) => member?.heard(m),
    left: () => member?.leave(),
  })
  plain.hidden = note.hidden = true
  el.append(framed.el, plain, note)
  return Object.assign(el, { dispose: framed.dispose })
}
