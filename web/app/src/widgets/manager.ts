import * as base from '@jupyter-widgets/base'
import { ManagerBase } from '@jupyter-widgets/base-manager'
import * as controls from '@jupyter-widgets/controls'
import * as anywidget from './anywidget'
import { FrameComm, Line } from './comm'
import * as output from './output'
import type { FromPage } from './protocol'

/** Modules of models and views. Others are not loaded, because a frame loads nothing. */
const modules: Record<string, object> = {
  '@jupyter-widgets/base': base, '@jupyter-widgets/controls': controls, '@jupyter-widgets/output': output, anywidget,
}

/** Creates the models and views of one frame. It asks the page for the states of the models. */
export class Manager extends ManagerBase {
  readonly #line: Line
  readonly #comms = new Map<string, FrameComm>()
  readonly #asked = new Map<string, { promise: Promise<base.WidgetModel>; found: (m: Promise<base.WidgetModel>) => void }>()
  /** Shows other outputs in an Output widget. */
  readonly render: (content: object, el: HTMLElement) => Promise<void>
  /** Loads a library of the frame, once. */
  readonly load: (name: string) => Promise<unknown>

  constructor(port: MessagePort, render: Manager['render'], load: Manager['load']) {
    super()
    this.render = render
    this.load = load
    this.#line = new Line(port)
    port.addEventListener('message', (e) => this.#heard(e.data as FromPage))
  }

  #heard(m: FromPage): void {
    if ('model' in m) this.#found(m.model)
    else if ('message' in m) this.#comms.get(m.message.id)?.receive(m.message)
    else if ('closed' in m) this.#closed(m.closed)
    else if ('link' in m) void this.get_model(m.link).catch(() => {})
    else if ('done' in m && m.done !== undefined) this.#line.done(m.done, m.refused)
    else if ('refused' in m && m.id !== undefined) this.#closed(m.id)
  }

  /** Returns a model. The page sends its state if this frame may have it. */
  override get_model(id: string): Promise<base.WidgetModel> {
    const asked = this.#asked.get(id)
    if (asked) return asked.promise
    let found!: (m: Promise<base.WidgetModel>) => void
    const promise = new Promise<base.WidgetModel>((resolve) => (found = resolve))
    this.#asked.set(id, { promise, found })
    this.#line.post({ want: id })
    return promise
  }

  #found({ id, state, paths, buffers }: Extract<FromPage, { model: unknown }>['model']): void {
    const comm = new FrameComm(id, this.#line)
    this.#comms.set(id, comm)
    base.put_buffers(state as never, paths, buffers.map((b) => new DataView(b)))
    const model = this.new_model({
      model_id: id, comm, model_name: String(state._model_name), model_module: String(state._model_module), model_module_version: String(state._model_module_version),
    }, state as never) as Promise<base.WidgetModel>
    this.#asked.get(id)?.found(model)
  }

  #closed(id: string): void {
    this.#asked.get(id)?.found(Promise.reject(new Error('The kernel does not have this widget.')))
    this.#asked.delete(id)
    this.#comms.get(id)?.closed()
    this.#comms.delete(id)
  }

  protected override async loadClass(name: string, module: string): Promise<never> {
    if (module === 'jupyterlab-plotly' && !modules[module]) {
      await this.load('plotly.js')
      await this.load('figure.js')
      modules[module] = (globalThis as { SandgateFigure?: object }).SandgateFigure!
    }
    const found = (modules[module] as Record<string, unknown> | undefined)?.[name]
    if (!found) throw new Error(`The notebook does not have ${module}, which shows this widget.`)
    return found as never
  }

  protected override _create_comm(): Promise<never> {
    return Promise.reject(new Error('Only the kernel creates widgets.'))
  }

  protected override _get_comm_info(): Promise<object> {
    return Promise.resolve({})
  }
}
