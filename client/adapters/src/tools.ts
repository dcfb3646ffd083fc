// The tools that the adapters give models, without any framework.
import type { CreatedFile, Sandbox } from '@sandgate/client'

/** Settings of the tools. */
export interface ToolOptions {
  /** The languages of run_code; default python, javascript and bash. */
  languages?: string[]
  /** Seconds that code or a command may take; default 60. */
  timeout?: number
  /** Characters of a result that a model gets; default 20,000. */
  maxText?: number
}

/** A result: a text for the model, and pictures and files for the application. */
export interface ToolResult {
  text: string
  /** PNG files in base64. */
  pictures: string[]
  files: CreatedFile[]
}

type Arguments = Record<string, string>

/** A tool. Its parameters are texts, described by a JSON Schema. */
export interface Tool {
  name: string
  description: string
  parameters: {
    type: 'object'
    properties: Record<string, { type: 'string'; description: string; enum?: string[] }>
    required: string[]
  }
  /** Failed code and failed commands are results, so that the model can correct them. */
  execute(args: Arguments, signal?: AbortSignal): Promise<ToolResult>
}

/** Returns the tools of a sandbox: run_code, run_command, read_file and write_file. */
export function tools(sandbox: Sandbox, o: ToolOptions = {}): Tool[] {
  const { languages = ['python', 'javascript', 'bash'], timeout = 60, maxText = 20_000 } = o
  const make = (
    name: string, description: string, properties: Tool['parameters']['properties'],
    run: (args: Arguments, signal?: AbortSignal) => Promise<Partial<ToolResult> & { text: string }>,
  ): Tool => ({
    name, description, parameters: { type: 'object', properties, required: Object.keys(properties) },
    async execute(args, signal) {
      const { text, pictures = [], files = [] } = await run(args, signal)
      return { text: cut(text.trimEnd() || '[no output]', maxText), pictures, files }
    },
  })
  const path = { type: 'string', description: 'Path, relative to the home folder or absolute.' } as const
  return [
    make('run_code', 'Run code. Variables, files and imports stay for later calls. Returns output, the last value, and errors.', {
      language: { type: 'string', description: 'The language. Each has its own variables.', enum: languages },
      code: { type: 'string', description: 'The code.' },
    }, async ({ language, code }, signal) => {
      const r = await sandbox.run(code!, { language, timeout, signal })
      const pictures = r.results.flatMap((result) => (result.data['image/png'] as string | undefined)?.trim() ?? [])
      const end = r.status === 'ok' || r.error ? '' : `[${r.status}]`
      return { text: lines(r.stdout, r.stderr, r.text ?? '', r.error?.traceback ?? '', ...listed(r.files), end), pictures, files: r.files }
    }),
    make('run_command', 'Run a command line in bash. Returns its output and exit code. Files stay.', {
      command: { type: 'string', description: 'The command line.' },
    }, async ({ command }, signal) => {
      const r = await sandbox.exec(command!, { timeout, signal, check: false })
      const end = r.status === 'ok' ? '' : `[${r.status}, exit code ${r.exitCode}]`
      return { text: lines(r.stdout, r.stderr, ...listed(r.files), end), files: r.files }
    }),
    make('read_file', 'Read a text file.', { path }, async (args, signal) => ({ text: await sandbox.files.readText(args.path!, { signal }) })),
    make('write_file', 'Create a text file, or replace its content.', {
      path, content: { type: 'string', description: 'The content.' },
    }, async (args, signal) => {
      const { size } = await sandbox.files.write(args.path!, args.content!, { signal })
      return { text: `${args.path} has ${size} bytes` }
    }),
  ]
}

function lines(...parts: string[]): string {
  return parts.filter(Boolean).map((part) => part.replace(/\n?$/, '\n')).join('')
}

function listed(files: CreatedFile[]): string[] {
  return files.map((file) => `[${file.change} file ${file.path}]`)
}

function cut(text: string, most: number): string {
  if (text.length <= most) return text
  const half = Math.floor(most / 2)
  return `${text.slice(0, half)}\n[${text.length - 2 * half} characters left out]\n${text.slice(-half)}`
}
