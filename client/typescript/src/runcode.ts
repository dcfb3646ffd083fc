// Runs code in a kernel to its end.
import { ExecutionBuilder } from './builder.js'
import type { Changes } from './changes.js'
import { milliseconds, seconds, type Duration } from './duration.js'
import { aborted, orAborted } from './fault.js'
import type { BaseKernel, Cell } from './basekernel.js'
import { RunFailed, type Execution, type Result } from './results.js'
import type { Abortable, CellEvent } from './types.js'

export interface StreamOptions extends Abortable {
  /** The time after which the code is interrupted. */
  timeout?: Duration | undefined
  /** Do not count the run, and do not keep it in the history. */
  silent?: boolean | undefined
  /** The run ends when a program would end: with its threads and timers. */
  program?: boolean | undefined
  /**
   * An idempotency key of at most 128 bytes. A repeat with the same key runs nothing, and returns
   * the first run's output as far as the log has it.
   */
  key?: string | undefined
}

export interface RunOptions extends StreamOptions {
  /** Gets each part of standard output as it is written. The next one waits for its promise. */
  onStdout?: ((text: string) => unknown) | undefined
  onStderr?: ((text: string) => unknown) | undefined
  /** Gets each value and each display. */
  onResult?: ((r: Result) => unknown) | undefined
  /** Gets every event, in Jupyter's format. */
  onEvent?: ((e: CellEvent) => unknown) | undefined
  /** Answers the code's requests for input; null ends the input. It gets the prompt. */
  onInput?: ((prompt: string) => string | null | Promise<string | null>) | undefined
  /** Lines that answer the requests for input instead. */
  stdin?: string | undefined
  /** Throw RunFailed if the code fails. */
  check?: boolean | undefined
  /** Report the files that changed since the previous run or command. Default true. */
  files?: boolean | undefined
  /** Characters of output that the result keeps. */
  maxOutput?: number | undefined
}

function begin(kernel: BaseKernel, code: string, o: StreamOptions, input: boolean): Cell {
  return kernel.execute(code, {
    keep_going: true, // a run that fails does not abort the runs of other callers
    ...(input ? {} : { no_input: true }),
    ...(o.silent ? { silent: true } : {}),
    ...(o.program ? { program: true } : {}),
    ...(o.timeout === undefined ? {} : { timeout_ms: milliseconds(o.timeout) }),
    ...(o.key === undefined ? {} : { key: o.key }),
  })
}

/** Interrupts a cell that has not ended, and discards its output. */
function abandon(kernel: BaseKernel, cell: Cell): void {
  cell.close()
  cell.queued.then((n) => kernel.interrupt({ cell: n })).catch(() => {})
}

/** Runs code and yields its events. Leaving the loop interrupts the code. */
export async function* streamCode(
  kernel: BaseKernel, code: string, o: StreamOptions = {}, input = false,
): AsyncGenerator<CellEvent, void, void> {
  if (o.signal?.aborted) throw aborted(o.signal)
  const cell = begin(kernel, code, o, input)
  const events = cell[Symbol.asyncIterator]()
  let ended = false
  try {
    for (;;) {
      const { done, value } = await orAborted(events.next(), o.signal)
      if (done) break
      if (value.type === 'execute_reply') ended = true
      yield value
    }
    ended = true
  } finally {
    if (!ended) abandon(kernel, cell)
    else cell.close()
  }
}

/** Runs code, and returns what it printed, displayed and returned. */
export async function runCode(
  kernel: BaseKernel, code: string, o: RunOptions = {}, changes?: Changes,
): Promise<Execution> {
  const builder = new ExecutionBuilder(kernel.info?.language ?? '', o.maxOutput)
  const lines = o.stdin?.split('\n') ?? []
  if (lines.at(-1) === '') lines.pop()
  const cursor = changes && o.files !== false ? await orAborted(changes.begin(), o.signal) : undefined
  const asks = o.onInput !== undefined || o.stdin !== undefined
  for await (const e of streamCode(kernel, code, o, asks)) {
    builder.add(e)
    await o.onEvent?.(e)
    if (e.type === 'stdout') await o.onStdout?.(e.text)
    else if (e.type === 'stderr') await o.onStderr?.(e.text)
    else if (e.type === 'execute_result' || e.type === 'display_data') {
      await o.onResult?.(builder.execution.results.at(-1)!)
    } else if (e.type === 'input_request' && asks) {
      const answer = o.onInput ? await o.onInput(e.prompt) : lines.shift()
      await kernel.input(e.cell, answer ?? undefined, o, e.request)
    }
  }
  const x = builder.execution
  if (cursor !== undefined) x.files = await changes!.since(cursor, o)
  if (o.timeout !== undefined && !x.ok && x.elapsed >= seconds(o.timeout)) x.status = 'timeout'
  if (o.check && !x.ok) throw new RunFailed(String(x.error ?? x.status), x)
  return x
}
