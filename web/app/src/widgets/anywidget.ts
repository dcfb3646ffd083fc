import { DOMWidgetModel, DOMWidgetView } from '@jupyter-widgets/base'

type Cleanup = void | (() => void | Promise<void>)
type Context = { model: object; el?: HTMLElement; experimental: object }

/** The module of a widget, as anywidget describes it. */
interface Module {
  initialize?: (c: Context) => Cleanup | Promise<Cleanup>
  render?: (c: Context) => Cleanup | Promise<Cleanup>
}

/** Runs the text of a module. It can import nothing: the policy of the frame allows no address. */
async function load(esm: string): Promise<Module> {
  const url = URL.createObjectURL(new Blob([esm], { type: 'text/javascript' }))
  try {
    const m = (await import(/* @vite-ignore */ url)) as Module & { default?: Module | (() => Module | Promise<Module>) }
    const main = typeof m.default === 'function' ? await m.default() : m.default
    return main ?? { ...(m.render ? { render: m.render } : {}) }
  } finally {
    URL.revokeObjectURL(url)
  }
}

/** The model as a module gets it. Its handlers belong to one view, and end with it. */
function face(model: AnyModel, owner: object): object {
  return {
    get: (name: string) => model.get(name) as unknown,
    set: (name: string, value: unknown) => void model.set(name, value),
    save_changes: () => model.save_changes(),
    send: (content: unknown, callbacks?: never, buffers?: never) => model.send(content as never, callbacks as never, buffers),
    on: (name: string, f: (...a: unknown[]) => void) => void model.on(name, f, owner),
    off: (name?: string | null, f?: ((...a: unknown[]) => void) | null) => void model.off(name ?? undefined, f ?? undefined, owner),
    widget_manager: model.widget_manager,
  }
}

/**
 * Backbone calls initialize before a class has its own fields, so the class declares fields only.
 */
export class AnyModel extends DOMWidgetModel {
  declare code: Promise<Module>

  override initialize(attributes: never, options: never): void {
    super.initialize(attributes, options)
    const start = () => {
      this.code = begin(this)
      this.code.catch(() => {}) // the view shows it
    }
    start()
    dress(this)
    this.on('change:_css', () => dress(this))
    this.on('change:_esm', () => {
      start()
      this.trigger('code')
    })
  }
}

async function begin(model: AnyModel): Promise<Module> {
  const m = await load(String(model.get('_esm') ?? ''))
  await m.initialize?.({ model: face(model, {}), experimental: {} })
  return m
}

/** Applies the style sheet of a model. */
function dress(model: AnyModel): void {
  const css = model.get('_css') as unknown
  const id = `anywidget-${model.model_id}`
  const el = document.getElementById(id) ?? document.head.appendChild(Object.assign(document.createElement('style'), { id }))
  el.textContent = typeof css === 'string' ? css : ''
}

export class AnyView extends DOMWidgetView {
  #end: Cleanup = undefined
  #owner = {}

  override render(): Promise<void> {
    super.render()
    this.listenTo(this.model, 'code', () => void this.#draw())
    return this.#draw()
  }

  async #draw(): Promise<void> {
    await this.#clear()
    this.#owner = {}
    try {
      const model = this.model as unknown as AnyModel
      const m = await model.code
      this.#end = await m.render?.({ model: face(model, this.#owner), el: this.el, experimental: {} })
    } catch (e) {
      const p = document.createElement('p')
      p.className = 'failed'
      p.textContent = `The code of this widget failed: ${String((e as Error)?.message ?? e)}`
      this.el.replaceChildren(p)
    }
  }

  async #clear(): Promise<void> {
    this.model.off(undefined, undefined, this.#owner)
    const end = this.#end
    this.#end = undefined
    if (typeof end === 'function') await end()
    this.el.replaceChildren()
  }

  override remove(): never {
    void this.#clear().catch(() => {})
    return super.remove() as never
  }
}
