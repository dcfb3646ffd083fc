import { computed, signal, type Signal } from '@preact/signals'
import { SandgateError, type Cell as Run, type CellEvent, type Kernel, type Position, type Sandbox } from '@sandgate/client/base'
import { plural, t } from '../language/texts'
import { explain } from '../ui/again'
import type { CellModel } from './cell'
import { newKey, parseKey } from './cellkey'
import { Flow } from './flow'
import type { Bundle } from './ipynb'
import type { SessionEvent } from './news'
import type { WidgetHost } from './widgets/host'

export type KernelState = 'none' | 'starting' | 'idle' | 'busy' | 'dead'

/** The saved position of a kernel, from which a page continues after a reload. */
export interface Mark {
  channel: string
  epoch: number
  offset: number
}

/** Functions of the notebook for kernels. */
export interface Cells {
  find(id: string): CellModel | undefined
  /** Returns the cell for an execution that another page started and this page does not know. */
  unknown(id: string, language: string, code: string): CellModel | undefined
  /** Returns the number of the next execution of the notebook, in all languages. */
  order(): number
  /** There is something to save. */
  changed(): void
  /** Called when a cell has ended. */
  ended(cell: CellModel, kernel: KernelLink): void
  failed(what: string, e: unknown): void
  /** A request has failed as if the session had ended. */
  gone(): void
  /** The session has an event, such as an upgrade. */
  event(e: SessionEvent, kernel: KernelLink): void
}

/** The number of bytes that the server sends before the page has read them. */
const window = 2 << 20
/** The number of executions whose late output is still assigned to a cell. */
const maxKnown = 500
/** The time within which a kernel answers a question, in milliseconds. */
const askFor = 15_000
/** Errors of a kernel that is not running. */
const ends: ReadonlySet<string> = new Set(['kernel_died', 'sandbox_lost', 'not_found', 'conflict'])

/** One language's kernel of the session. It assigns output to cells. */
export class KernelLink {
  readonly language: string
  readonly state: Signal<KernelState> = signal('none')
  readonly #session: Sandbox
  readonly #file: string
  readonly #cells: Cells
  #kernel: Kernel | undefined
  #opening: Promise<Kernel> | undefined
  /** Where this page began to read. */
  from: Position | undefined
  #running = new Map<number, { cell: CellModel; from: Position | undefined }>()
  #queued = new Map<CellModel, Run>()
  #own = new Map<CellModel, Run>()
  /** The cell of each execution, also for output that threads print after its end. */
  #cellOf = new Map<number, CellModel>()
  #displays = new Map<string, CellModel>()
  /** Output on its way to the page, and where executions began whose output is not drawn yet. */
  readonly #flow = new Flow()
  readonly #undrawn = new Map<number, Position | undefined>()
  readonly #readOnly: boolean
  /** Resolves when the page follows the kernels that ran before it. */
  readonly #followed: Promise<void>
  #widgets: Promise<WidgetHost> | undefined
  #host: WidgetHost | undefined
  #log: Kernel | undefined

  constructor(session: Sandbox, language: string, file: string, cells: Cells, readOnly: boolean, followed: Promise<void>) {
    this.#followed = followed
    this.#file = file
    this.#readOnly = readOnly
    this.#session = session
    this.language = language
    this.#cells = cells
  }

  get kernel(): Kernel | undefined {
    return this.#kernel
  }

  /**
   * The position from which a page must read after a reload: the start of the oldest cell that runs
   * or is not drawn, otherwise the end.
   */
  get mark(): Mark | undefined {
    const k = this.#kernel
    if (!k) return undefined
    const from = [...[...this.#running.values()].map((r) => r.from), ...this.#undrawn.values()]
    // A cell began before this page knew its position: then everything is read again.
    if (from.includes(undefined)) return undefined
    const at = (from as Position[]).reduce((a, b) => (b.epoch === a.epoch && b.offset < a.offset ? b : a), k.position)
    return { channel: k.id, ...at }
  }

  /** Whether the log is being read as it was before this page attached. */
  get #old(): boolean {
    const k = this.#kernel
    return !k || k.position.offset < (k.info?.end ?? 0)
  }

  /** Follows a kernel that already runs. Starts none. */
  async follow(channel: string, from: Position | undefined): Promise<void> {
    this.from = from
    this.#opening ??= this.#attach(() => this.#session.attachKernel(channel, { window, ...(from ? { from } : { offset: 0 }), readOnly: this.#readOnly, other: (e) => this.#other(e) }))
    await this.#opening
  }

  /** Returns the kernel, and starts it if there is none. */
  open(): Promise<Kernel> {
    this.#opening ??= this.#attach(() => this.#session.kernel(this.language, { window, offset: 0, other: (e) => this.#other(e) }))
    return this.#opening
  }

  async #attach(open: () => Promise<Kernel>): Promise<Kernel> {
    if (this.state.peek() === 'none') this.state.value = 'starting'
    try {
      this.#kernel = await open()
      const busy = this.#kernel.info?.state === 'busy'
      if (this.state.peek() === 'starting') this.state.value = busy ? 'busy' : 'idle'
      return this.#kernel
    } catch (e) {
      this.#opening = undefined
      this.state.value = 'none'
      throw e
    }
  }

  /** The widgets of this kernel. Their code is loaded once there are any. */
  widgets(): Promise<WidgetHost> {
    return (this.#widgets ??= import('./widgets/host').then(({ WidgetHost }) => (this.#host = new WidgetHost({
      readOnly: this.#readOnly,
      idle: () => this.state.peek() !== 'busy',
      kernel: async () => {
        await this.#followed
        await this.#opening?.catch(() => {})
        return this.#kernel
      },
      replay: async (to) => {
        if (this.#kernel) this.#log = await this.#session.attachKernel(this.#kernel.id, { offset: 0, readOnly: true, other: to })
      },
    }))))
  }

  /** Asks the kernel about a table or about code, if it is running and the user may run code. */
  async ask(about: Record<string, unknown>, code = '', cursor = 0): Promise<unknown> {
    await this.#followed
    const kernel = await this.#opening?.catch(() => undefined)
    if (!kernel || this.#readOnly) return undefined
    const reply = await kernel.inspect(code, cursor, { about, signal: AbortSignal.timeout(askFor) }).catch((e: SandgateError) => {
      if (ends.has(e.kind)) return undefined
      throw e
    })
    if (reply?.status === 'error') throw new Error(reply.evalue)
    return reply?.found ? reply.data?.['application/json'] : undefined
  }

  /** Returns true if the event is a widget's, or output that an Output widget shows. */
  async #widget(e: CellEvent): Promise<boolean> {
    if (e.type === 'comm_open' || e.type === 'comm_msg' || e.type === 'comm_close') return (await this.widgets()).receive(e)
    return this.#host?.receive(e) ?? false
  }

  /** Queues a cell. */
  async execute(cell: CellModel): Promise<void> {
    const code = cell.source.peek()
    cell.state.value = 'queued'
    cell.errorLine.value = 0
    this.#flow.forget(cell.output)
    cell.output.clear()
    cell.count.value = cell.order.value = null
    cell.execution = 0
    let run: Run | undefined
    try {
      const kernel = await this.open()
      // The cell was interrupted before it was sent.
      if (cell.state.peek() !== 'queued') return
      run = kernel.execute(code, { key: newKey(this.#file, cell.id) })
      this.#queued.set(cell, run)
      this.#own.set(cell, run)
      for await (const e of run) if (!(await this.#widget(e))) await this.#event(e, cell)
    } catch (e) {
      const error = e as SandgateError
      cell.state.value = error.kind === 'canceled' ? 'aborted' : 'lost'
      if (error.kind === 'sandbox_lost' || error.kind === 'not_found') this.#cells.gone()
      if (error.kind !== 'canceled') this.#flow.then(cell.output, () => cell.output.note(explain(error), true))
    } finally {
      this.#queued.delete(cell)
      if (this.#own.get(cell) === run) this.#own.delete(cell)
      for (const [n, r] of this.#running) if (r.cell === cell && n === (run?.number ?? n)) this.#end(n, cell)
      this.#settle()
    }
  }

  /**
   * Handles output of executions that this page did not start: cells of other pages, and cells that
   * ran before this page was opened.
   */
  async #other(e: CellEvent): Promise<void> {
    if (e.type === 'event') {
      if (e.event === 'epoch') {
        this.#gone(e.event)
        this.#host?.gone()
      } else this.#cells.event(e, this)
      return
    }
    if (await this.#widget(e)) return
    if (e.type === 'status' && (e.execution_state === 'restarting' || e.execution_state === 'dead')) {
      this.state.value = e.execution_state === 'dead' ? 'dead' : 'starting'
      this.#host?.gone()
      return
    }
    if (e.type === 'status' && this.state.peek() === 'starting') this.#settle()
    const cell = e.type === 'execute_input' ? this.#begun(e.key, e.code) : this.#cellOf.get(e.cell)
    if (cell) await this.#event(e, cell)
    else if (e.type === 'execute_reply') this.#settle() // it ran code of others when this page attached
  }

  /**
   * Returns the cell of an execution that this page did not start; undefined if it is not one of this
   * notebook. Another notebook can have cells with the same ids, such as a copy.
   */
  #begun(key: string, code: string): CellModel | undefined {
    const k = parseKey(key)
    if (!k || (k.file && k.file !== this.#file)) return undefined
    const cell = this.#cells.find(k.cell) ?? (k.file ? this.#cells.unknown(k.cell, this.language, code) : undefined)
    if (!cell) return undefined
    if (this.#readOnly) cell.source.value = code // the file may contain it later
    this.#flow.forget(cell.output)
    cell.output.clear()
    return cell
  }

  /** Changes the state at once. Output is drawn in its order. */
  async #event(e: CellEvent, cell: CellModel): Promise<void> {
    const out = cell.output
    switch (e.type) {
      case 'execute_input': {
        const from = this.#kernel?.position ?? this.from
        cell.state.value = 'running'
        cell.started.value = e.time / 1000
        // After a reload the page reads the beginning of a cell that it knows again.
        if (cell.order.peek() === null || cell.execution !== e.cell || cell.channel !== this.#kernel?.id) cell.order.value = this.#cells.order()
        cell.count.value = e.execution_count || null
        cell.execution = e.cell
        cell.channel = this.#kernel?.id ?? ''
        this.#queued.delete(cell)
        this.#running.set(e.cell, { cell, from })
        this.#undrawn.set(e.cell, from)
        this.#cellOf.set(e.cell, cell)
        if (this.#cellOf.size > maxKnown) this.#cellOf.delete(this.#cellOf.keys().next().value!)
        this.state.value = 'busy'
        this.#cells.changed()
        break
      }
      case 'stdout': case 'stderr':
        this.#flow.text(out, e.text, e.type === 'stderr')
        break
      case 'execute_reply': {
        cell.state.value = e.status
        cell.elapsed.value = e.elapsed_ms
        if (e.execution_count) cell.count.value = e.execution_count
        const old = this.#old
        this.#flow.then(out, () => {
          out.settle()
          out.finish()
          if (old) out.rewind()
          if (e.status === 'aborted' && out.empty) out.note(t('Not run: an earlier cell failed or was interrupted.'))
        })
        this.#end(e.cell, cell)
        this.#settle()
        this.#cells.ended(cell, this)
        this.#cells.changed()
        break
      }
      default:
        this.#flow.then(out, () => this.#output(e, cell))
    }
    await this.#flow.room()
  }

  /** An execution has ended. Its output may still wait. */
  #end(n: number, cell: CellModel): void {
    this.#running.delete(n)
    this.#flow.then(cell.output, () => this.#undrawn.delete(n), true)
  }

  /** Shows output other than text. */
  #output(e: CellEvent, cell: CellModel): void {
    const out = cell.output
    switch (e.type) {
      case 'display_data': case 'execute_result': {
        out.settle()
        const id = e.transient?.display_id
        if (id) this.#displays.set(id, cell)
        out.display(e.type === 'execute_result'
          ? { output_type: 'execute_result', data: e.data as Bundle, metadata: e.metadata ?? {}, execution_count: e.execution_count }
          : { output_type: 'display_data', data: e.data as Bundle, metadata: e.metadata ?? {} }, id)
        break
      }
      case 'update_display_data': {
        const id = e.transient?.display_id
        if (id) this.#displays.get(id)?.output.update(id, e.data as Bundle, e.metadata ?? {})
        break
      }
      case 'error':
        out.settle()
        out.error({ ename: e.ename, evalue: e.evalue, traceback: e.traceback ?? [] })
        break
      case 'clear_output':
        out.clear(e.wait)
        break
      case 'input_request': {
        if (this.#readOnly) {
          out.note(t('The cell waits for input. You cannot give it in this view.'))
          break
        }
        const run = this.#own.get(cell)
        const answer = (value: string | undefined) => {
          const sent = run ? (value === undefined ? run.endInput() : run.input(value)) : this.#kernel!.input(e.cell, value, {}, e.request)
          sent.catch((error: unknown) => this.#cells.failed(t('The input was not sent'), error))
        }
        out.ask({
          prompt: e.prompt, password: e.password,
          answer: (value) => {
            if (!e.password) out.text(`${e.prompt}${value}\n`, false)
            answer(value)
          },
          end: () => answer(undefined),
        })
        break
      }
      case 'kernel_event':
        out.note(e.message || e.event)
        break
      case 'gap':
        out.note(plural(e.bytes, '1 byte of output is no longer there.', '{n} bytes of output are no longer there.'))
        break
    }
  }

  #settle(): void {
    if (this.state.peek() !== 'dead' && this.#kernel) this.state.value = this.#running.size + this.#queued.size > 0 ? 'busy' : 'idle'
  }

  /** The kernel was restarted: all executions have ended. */
  #gone(why: string): void {
    for (const [n, { cell }] of this.#running) {
      if (!this.#own.has(cell)) {
        const lost = cell.busy
        if (lost) cell.state.value = 'lost'
        this.#flow.then(cell.output, () => {
          cell.output.settle()
          if (lost) cell.output.note(why === 'restart' ? t('The kernel was restarted.') : t('The kernel has ended.'), true)
        })
      }
      this.#end(n, cell)
    }
    this.#cellOf.clear()
    this.#displays.clear()
    this.#settle()
  }

  /** Interrupts the running cells. With a grace time, the kernel is killed after it. */
  async interrupt(grace?: number): Promise<void> {
    for (const [cell] of this.#queued) {
      if (!this.#own.has(cell)) cell.state.value = 'aborted'
    }
    await (await this.open()).interrupt(grace ? { grace_ms: grace } : {})
  }

  async restart(): Promise<void> {
    this.state.value = 'starting'
    try {
      await (await this.open()).restart()
    } finally {
      this.#gone('restart')
      this.state.value = 'idle'
      this.#settle()
    }
  }

  close(): void {
    this.#kernel?.close()
    this.#log?.close()
  }
}

/** All kernels of a notebook. */
export class Kernels {
  readonly all: Signal<KernelLink[]> = signal([])
  readonly busy = computed(() => this.all.value.some((k) => k.state.value === 'busy'))
  readonly #session: Sandbox
  readonly #file: string
  readonly #cells: Cells
  readonly #readOnly: boolean
  /** The channels of kernels that other clients opened for themselves. */
  readonly #separate = new Set<string>()
  #settle: () => void = () => {}
  readonly #followed = new Promise<void>((resolve) => (this.#settle = resolve))

  /** file is the tag of the notebook's file. */
  constructor(session: Sandbox, file: string, cells: Cells, readOnly: boolean) {
    this.#session = session
    this.#file = file
    this.#readOnly = readOnly
    this.#cells = cells
  }

  of(language: string): KernelLink {
    const there = this.all.peek().find((k) => k.language === language)
    if (there) return there
    const fresh = new KernelLink(this.#session, language, this.#file, this.#cells, this.#readOnly, this.#followed)
    this.all.value = [...this.all.peek(), fresh]
    return fresh
  }

  /** Follows kernels that other pages have started since. */
  catchUp(channels: string[]): void {
    const known = new Set(this.all.peek().map((k) => k.kernel?.id))
    // Again with the next event
    if (channels.some((c) => c.startsWith('k') && !known.has(c) && !this.#separate.has(c))) void this.follow({}).catch(() => {})
  }

  /**
   * Follows the default kernels of the session, each from the position in the file. Kernels that a
   * client opened for itself are not the notebook's.
   */
  async follow(marks: Record<string, Mark>): Promise<void> {
    const channels = await this.#session.channels()
    for (const c of channels) if (c.separate) this.#separate.add(c.id)
    await Promise.all(channels.filter((c) => c.kind === 'kernel' && c.language && !c.separate && c.state !== 'exited').map(async (c) => {
      const link = this.of(c.language!)
      const m = marks[c.language!]
      await link.follow(c.id, m?.channel === c.id ? { epoch: m.epoch, offset: m.offset } : undefined)
    }))
    this.#settle()
  }

  marks(): Record<string, Mark> {
    return Object.fromEntries(this.all.peek().flatMap((k) => (k.mark ? [[k.language, k.mark]] : [])))
  }

  close(): void {
    for (const k of this.all.peek()) k.close()
  }
}
