import type { IClassicComm, ICallbacks } from '@jupyter-widgets/base'
import type { FromPage, ToPage } from './protocol'

type Handler = (message: never) => void
type Message = Extract<FromPage, { message: unknown }>['message']

/** The connection to the page. It sends the models' messages, and reports which are done. */
export class Line {
  readonly #port: MessagePort
  readonly #done = new Map<number, () => void>()
  #n = 0

  constructor(port: MessagePort) {
    this.#port = port
  }

  post(m: ToPage): void {
    this.#port.postMessage(m)
  }

  /** Sends a message. done is called when the server has accepted or refused it. */
  send(id: string, data: unknown, buffers: ArrayBuffer[], done: () => void): number {
    const n = ++this.#n
    this.#done.set(n, done)
    this.post({ send: { id, n, data, buffers } })
    return n
  }

  done(n: number, refused?: string): void {
    if (refused !== undefined) console.warn(`A message of a widget was not sent: ${refused}`)
    const done = this.#done.get(n)
    this.#done.delete(n)
    done?.()
  }
}

/** The frame's end of a model's comm. */
export class FrameComm implements IClassicComm {
  readonly target_name = 'jupyter.widget'
  readonly comm_id: string
  readonly #line: Line
  #message: Handler | undefined
  #close: Handler | undefined

  constructor(id: string, line: Line) {
    this.comm_id = id
    this.#line = line
  }

  open(): string {
    return ''
  }

  /** Only the kernel closes models. */
  close(): string {
    return ''
  }

  send(data: unknown, callbacks?: ICallbacks, _metadata?: unknown, buffers: (ArrayBuffer | ArrayBufferView)[] = []): string {
    const idle = () => callbacks?.iopub?.status?.({ content: { execution_state: 'idle' } } as never)
    const copies = buffers.map((b) => (ArrayBuffer.isView(b) ? new Uint8Array(b.buffer, b.byteOffset, b.byteLength).slice().buffer : b) as ArrayBuffer)
    return String(this.#line.send(this.comm_id, data, copies, idle))
  }

  on_msg(callback: Handler): void {
    this.#message = callback
  }

  on_close(callback: Handler): void {
    this.#close = callback
  }

  receive({ data, buffers }: Message): void {
    this.#message?.({ content: { comm_id: this.comm_id, data }, buffers: buffers.map((b) => new DataView(b)) } as never)
  }

  closed(): void {
    this.#close?.({} as never)
  }
}
