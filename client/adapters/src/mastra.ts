// A sandbox for workspaces of Mastra.
import type { Sandbox } from '@sandgate/client'

/** Options of a command, as Mastra gives them. */
export interface CommandOptions {
  /** In milliseconds. */
  timeout?: number
  env?: Record<string, string | undefined>
  cwd?: string
  onStdout?: (data: string) => void
  onStderr?: (data: string) => void
  abortSignal?: AbortSignal
}

/** The result of a command, as Mastra expects it. */
export interface CommandResult {
  success: boolean
  exitCode: number
  stdout: string
  stderr: string
  executionTimeMs: number
  timedOut: boolean
  killed: boolean
  command: string
  args: string[]
}

/**
 * A sandbox for new Workspace({ sandbox }). It has the part of Mastra's WorkspaceSandbox that runs
 * commands and writes files.
 */
export class MastraSandbox {
  readonly provider = 'sandgate'
  readonly id: string
  readonly name: string
  status: 'running' | 'destroyed' = 'running'
  readonly #sandbox: Sandbox
  readonly #timeout: number

  constructor(sandbox: Sandbox, o: { name?: string; timeout?: number } = {}) {
    this.#sandbox = sandbox
    this.id = sandbox.id
    this.name = o.name ?? 'Sandgate'
    this.#timeout = o.timeout ?? 60
  }

  /** Runs a command line, or a program with arguments. */
  async executeCommand(command: string, args: string[] = [], o: CommandOptions = {}): Promise<CommandResult> {
    const env = Object.fromEntries(Object.entries(o.env ?? {}).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
    const began = performance.now()
    const timeout = o.timeout === undefined ? this.#timeout : o.timeout / 1000
    const r = await this.#sandbox.exec(args.length > 0 ? [command, ...args] : command, {
      timeout, check: false, files: false,
      cwd: o.cwd, env, onStdout: o.onStdout, onStderr: o.onStderr, signal: o.abortSignal,
    })
    // Mastra's tool shows a model the output and the exit code only.
    const timedOut = r.status === 'timeout'
    const stderr = timedOut ? `${r.stderr}\nThe command was ended: it ran for over ${timeout} s.\n`.trimStart() : r.stderr
    return {
      success: r.status === 'ok', exitCode: timedOut ? 124 : r.exitCode ?? 137, stdout: r.stdout, stderr,
      executionTimeMs: performance.now() - began, timedOut, killed: r.status === 'killed', command, args,
    }
  }

  async writeFiles(files: { path: string; content: string | Uint8Array; mode?: number }[]): Promise<void> {
    for (const { path, content, mode } of files) {
      await this.#sandbox.files.write(path, typeof content === 'string' ? content : new Uint8Array(content), mode === undefined ? {} : { mode })
    }
  }

  /** Saves the state of the sandbox. */
  async snapshot(): Promise<void> {
    await this.#sandbox.snapshot()
  }

  async destroy(): Promise<void> {
    await this.#sandbox.delete()
    this.status = 'destroyed'
  }

  isReady(): boolean {
    return this.status === 'running'
  }

  getInstructions(): string {
    return 'Commands run in an isolated Linux sandbox. Files and processes stay between commands.'
  }
}
