// Tools for Vercel's AI SDK.
import type { Sandbox } from '@sandgate/client'
import { jsonSchema, tool, type Tool } from 'ai'
import { tools, type ToolOptions, type ToolResult } from './tools.js'

export type { ToolOptions, ToolResult }

/**
 * Returns the tools of a sandbox for generateText and streamText. The model gets the text of a result;
 * the output that the application sees also has pictures and files.
 */
export function sandboxTools(sandbox: Sandbox, o: ToolOptions = {}): Record<string, Tool<Record<string, string>, ToolResult>> {
  return Object.fromEntries(tools(sandbox, o).map((t) => [t.name, tool({
    description: t.description,
    inputSchema: jsonSchema<Record<string, string>>(t.parameters),
    execute: (args, { abortSignal }) => t.execute(args, abortSignal),
    toModelOutput: ({ output }) => ({ type: 'text', value: output.text }),
  })]))
}
