// A sandbox for bash-tool.
import type { Sandbox } from '@sandgate/client'

/** A sandbox as bash-tool describes it. */
export interface BashSandbox {
  executeCommand(command: string): Promise<{ stdout: string; stderr: string; exitCode: number }>
  readFile(path: string): Promise<string>
  writeFiles(files: { path: string; content: string | Uint8Array }[]): Promise<void>
}

/** Returns a sandbox for createBashTool({ sandbox, destination: '/home/user/workspace' }). */
export function bashSandbox(sandbox: Sandbox, o: { timeout?: number } = {}): BashSandbox {
  const { timeout = 60 } = o
  return {
    async executeCommand(command) {
      const { stdout, stderr, exitCode, status } = await sandbox.exec(command, { timeout, check: false, files: false })
      return { stdout, stderr: status === 'timeout' ? `${stderr}[stopped after ${timeout} s]` : stderr, exitCode: exitCode ?? 124 }
    },
    readFile: (path) => sandbox.files.readText(path),
    async writeFiles(files) {
      for (const { path, content } of files) await sandbox.files.write(path, typeof content === 'string' ? content : new Uint8Array(content))
    },
  }
}
