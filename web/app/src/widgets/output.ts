import { DOMWidgetModel, DOMWidgetView } from '@jupyter-widgets/base'
import { LabPanel } from './panel'
import { TextView } from '../notebook/text'
import type { OutputJSON } from '../notebook/ipynb'
import type { Manager } from './manager'

type Bundle = Record<string, unknown>

/** The outputs that the page has assigned to an Output widget. */
export class OutputModel extends DOMWidgetModel {
  override defaults() {
    return {
      ...super.defaults(), _model_name: 'OutputModel', _view_name: 'OutputView', _model_module: '@jupyter-widgets/output', _view_module: '@jupyter-widgets/output', msg_id: '', outputs: [],
    }
  }
}

interface Shown {
  json: string
  text: TextView | undefined
  written: number
}

/** Shows the outputs. Those that have not changed stay as they are. */
export class OutputView extends DOMWidgetView {
  #shown: Shown[] = []

  override render(): void {
    super.render()
    this.el.classList.add('widget-output')
    this.listenTo(this.model, 'change:outputs', () => this.#update())
    this.#update()
  }

  #update(): void {
    const outputs = this.model.get('outputs') as OutputJSON[]
    let same = 0
    while (same < outputs.length && same < this.#shown.length && this.#keep(outputs[same]!, this.#shown[same]!)) same++
    while (this.el.children.length > same) this.el.lastElementChild!.remove()
    this.#shown.length = same
    for (const o of outputs.slice(same)) this.#add(o)
  }

  /** Returns whether an output is shown. Text can grow. */
  #keep(o: OutputJSON, shown: Shown): boolean {
    const json = o.output_type === 'stream' ? o.name + o.text : JSON.stringify(o)
    if (json === shown.json) return true
    if (o.output_type !== 'stream' || !shown.text || !json.startsWith(shown.json)) return false
    shown.text.write(json.slice(shown.json.length), o.name === 'stderr')
    shown.json = json
    return true
  }

  #add(o: OutputJSON): void {
    const el = document.createElement('div')
    el.className = 'output'
    this.el.append(el)
    if (o.output_type === 'stream') {
      const text = new TextView()
      text.write(o.text, o.name === 'stderr')
      el.append(text.el)
      this.#shown.push({ json: o.name + o.text, text, written: o.text.length })
      return
    }
    this.#shown.push({ json: JSON.stringify(o), text: undefined, written: 0 })
    if (o.output_type === 'error') plain(el, o.traceback.join('\n') || `${o.ename}: ${o.evalue}`)
    else void this.#rich(el, o.data).catch((e: unknown) => plain(el, String(e)))
  }

  async #rich(el: HTMLElement, data: Bundle): Promise<void> {
    const manager = this.model.widget_manager as unknown as Manager
    const view = data['application/vnd.jupyter.widget-view+json'] as { model_id?: string } | undefined
    if (view?.model_id) {
      const model = await manager.get_model(view.model_id)
      new LabPanel(el).add((await manager.create_view(model as never)) as never)
      return
    }
    const text = (v: unknown) => (Array.isArray(v) ? v.join('') : typeof v === 'string' ? v : JSON.stringify(v))
    for (const [mime, value] of Object.entries(data)) {
      const kind = /^application\/vnd\.(vega|vegalite|plotly)\./.exec(mime)?.[1]
      if (kind) return manager.render({ kind: kind === 'vegalite' ? 'vega-lite' : kind, spec: value }, el)
    }
    if (data['text/html'] !== undefined) return manager.render({ kind: 'html', html: text(data['text/html']) }, el)
    if (data['application/javascript'] !== undefined) return manager.render({ kind: 'script', code: text(data['application/javascript']) }, el)
    const picture = Object.keys(data).find((m) => /^image\/(png|jpeg|gif|webp|svg\+xml)$/.test(m))
    if (picture) {
      const img = document.createElement('img')
      const content = text(data[picture])
      img.src = picture === 'image/svg+xml' ? `data:${picture},${encodeURIComponent(content)}` : `data:${picture};base64,${content.trim()}`
      img.alt = text(data['text/plain'] ?? 'Picture')
      el.append(img)
      return
    }
    plain(el, text(data['text/markdown'] ?? data['text/latex'] ?? data['text/plain'] ?? data[Object.keys(data)[0] ?? ''] ?? ''))
  }
}

function plain(el: HTMLElement, text: string): void {
  const view = new TextView()
  view.write(text)
  el.append(view.el)
}
