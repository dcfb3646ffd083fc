import type { DOMWidgetView } from '@jupyter-widgets/base'
import { Widget } from '@lumino/widgets'

/** An element that views are put into, with the life of a widget of Lumino. */
export class LabPanel {
  readonly #el: HTMLElement

  constructor(el: HTMLElement) {
    this.#el = el
  }

  add(view: DOMWidgetView): void {
    const widget = view.luminoWidget
    Widget.attach(widget, this.#el)
    addEventListener('resize', () => widget.processMessage(Widget.ResizeMessage.UnknownSize))
  }
}
