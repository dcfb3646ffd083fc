// Uses the adapters with the frameworks themselves and a running server, whose address and token are
// in SANDGATE_URL and SANDGATE_TOKEN.
import { ToolMessage } from '@langchain/core/messages'
import { createWorkspaceTools, Workspace, WORKSPACE_TOOLS } from '@mastra/core/workspace'
import { Sandgate, type Sandbox } from '@sandgate/client'
import { generateText, stepCountIs } from 'ai'
import { MockLanguageModelV3 } from 'ai/test'
import { createBashTool } from 'bash-tool'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sandboxTools } from '../src/ai.js'
import { bashSandbox } from '../src/bash-tool.js'
import { sandboxTools as langChainTools } from '../src/langchain.js'
import { MastraSandbox } from '../src/mastra.js'

const sg = new Sandgate()
let sandbox: Sandbox
beforeAll(async () => {
  sandbox = await sg.sandbox()
})
afterAll(async () => {
  await sandbox?.delete()
  await sg.close()
})

it('gives the tools to a model of the AI SDK', async () => {
  const call = (code: string) => [{ type: 'tool-call' as const, toolCallId: 'call', toolName: 'run_code', input: JSON.stringify({ language: 'python', code }) }]
  const answers = [call('kept = 41; open("made.txt", "w").write("a"); kept'), call('kept + 1'), call('1 / 0'), [{ type: 'text' as const, text: 'done' }]]
  const prompts: string[] = []
  const { text, steps } = await generateText({
    model: new MockLanguageModelV3({
      doGenerate: async ({ prompt }) => {
        prompts.push(JSON.stringify(prompt.at(-1)))
        const content = answers[prompts.length - 1]!
        return {
          content, warnings: [], finishReason: { unified: content[0]!.type === 'text' ? 'stop' : 'tool-calls', raw: undefined },
          usage: { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } },
        }
      },
    }),
    tools: sandboxTools(sandbox), stopWhen: stepCountIs(10), prompt: 'count',
  })
  expect(text).toBe('done')
  expect(prompts[1]).toContain('41\\n[created file /home/user/made.txt]')
  expect(prompts[2]).toContain('42')
  expect(prompts[3]).toContain('ZeroDivisionError')
  const [first] = steps[0]!.toolResults
  expect((first!.output as { files: { path: string }[] }).files[0]!.path).toBe('/home/user/made.txt')
})

it('gives tools to LangChain', async () => {
  const byName = new Map(langChainTools(sandbox, { maxText: 100 }).map((t) => [t.name, t]))
  const invoke = async (name: string, args: Record<string, string>) => {
    const message: unknown = await byName.get(name)!.invoke({ type: 'tool_call', id: 'call', name, args })
    if (!(message instanceof ToolMessage)) throw new Error('no message')
    return message
  }
  expect((await invoke('write_file', { path: 'a.txt', content: 'hello' })).content).toBe('a.txt has 5 bytes')
  expect((await invoke('read_file', { path: 'a.txt' })).content).toBe('hello')
  const failed = await invoke('run_command', { command: 'echo out; exit 3' })
  expect(failed.content).toMatch(/^out\n[^]*\[error, exit code 3\]$/)
  const long = await invoke('run_command', { command: 'seq 1000' })
  expect(long.content).toMatch(/^1\n[^]*characters left out[^]*1000$/)
  expect(long.artifact).toMatchObject({ pictures: [] })
  await expect(invoke('run_code', { language: 'cobol', code: '1' })).rejects.toThrow()
})

it('is a sandbox of bash-tool', async () => {
  const { tools, sandbox: shared } = await createBashTool({
    sandbox: bashSandbox(sandbox), destination: 'workspace', files: { 'a.txt': 'one\n' },
  })
  const result: unknown = await tools.bash.execute!({ command: 'wc -l < a.txt; exit 2' }, { toolCallId: 'call', messages: [], context: {} } as never)
  expect(result).toMatchObject({ stdout: '1\n', exitCode: 2 })
  await shared.writeFiles([{ path: 'workspace/b.bin', content: Buffer.from('two') }])
  expect(await shared.readFile('workspace/b.bin')).toBe('two')
})

it('is a sandbox of Mastra', async () => {
  const s = new MastraSandbox(sandbox)
  const parts: string[] = []
  const fine = await s.executeCommand('printf', ['%s|', 'a b', 'c'], { onStdout: (data) => parts.push(data) })
  expect(fine).toMatchObject({ success: true, exitCode: 0, stdout: 'a b|c|' })
  expect(parts.join('')).toBe('a b|c|')
  expect(await s.executeCommand('echo $X; exit 4', [], { env: { X: 'x' } })).toMatchObject({ success: false, exitCode: 4, stdout: 'x\n' })
  expect(await s.executeCommand('sleep 60', [], { timeout: 300 })).toMatchObject({ success: false, timedOut: true })
  await s.writeFiles([{ path: 'c.sh', content: 'echo run', mode: 0o755 }])
  expect((await s.executeCommand('./c.sh')).stdout).toBe('run\n')
})

it('is the sandbox of a workspace of Mastra', async () => {
  const own = await sg.sandbox()
  const s = new MastraSandbox(own)
  const workspace = new Workspace({ sandbox: s })
  await workspace.init()
  expect(workspace.getInstructions()).toContain('isolated Linux sandbox')
  const tool = (await createWorkspaceTools(workspace))[WORKSPACE_TOOLS.SANDBOX.EXECUTE_COMMAND] as {
    execute: (args: { command: string; timeout?: number; cwd?: string }, context: object) => Promise<unknown>
  }
  const run = async (command: string, o: object = {}, context: object = {}) => String(await tool.execute({ command, ...o }, { workspace, ...context }))
  expect(await run('echo kept >kept; pwd')).toBe('/home/user\n')
  expect(await run('cat kept; pwd', { cwd: '/tmp' })).toContain('No such file')
  expect(await run('cat kept; echo no >&2; exit 3')).toMatch(/kept\n[^]*no[^]*Exit code: 3/)
  expect(await run('seq 100000')).toContain('100000')
  expect(await run('sleep 60', { timeout: 1 })).toMatch(/ran for over 1 s[^]*Exit code: 124/)
  const stop = new AbortController()
  const aborted = run('touch begun; sleep 60', {}, { abortSignal: stop.signal })
  for (;;) {
    const { stdout } = await own.exec('ls', { files: false })
    if (stdout.includes('begun')) break
  }
  stop.abort()
  await aborted.catch((error: unknown) => { expect(String(error)).toMatch(/abort/i) })
  await workspace.destroy()
  expect(s.status).toBe('destroyed')
  await expect(own.exec('true')).rejects.toThrow()
})
