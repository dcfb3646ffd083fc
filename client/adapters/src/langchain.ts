// Tools for LangChain.js and LangGraph.
import { tool, type StructuredToolInterface } from '@langchain/core/tools'
import type { Sandbox } from '@sandgate/client'
import { tools, type ToolOptions, type ToolResult } from './tools.js'

export type { ToolOptions, ToolResult }

/**
 * Returns the tools of a sandbox, for bindTools and for agents. The model gets the text of a result;
 * the artifact of the tool message has the whole result.
 */
export function sandboxTools(sandbox: Sandbox, o: ToolOptions = {}): StructuredToolInterface[] {
  return tools(sandbox, o).map((t) => tool(
    async (args, config) => {
      const result = await t.execute(args as Record<string, string>, config?.signal)
      return [result.text, result]
    },
    { name: t.name, description: t.description, schema: t.parameters, responseFormat: 'content_and_artifact' },
  ))
}
