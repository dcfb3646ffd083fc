// Uses the server with the tools of the unmodified package @librechat/agents, as LibreChat's agents
// do. The tools are imported one by one: the rest of the package needs the SDKs of many providers of
// models. It fails if a check fails.
import assert from 'node:assert/strict'

const tools = new URL('../../node_modules/@librechat/agents/dist/esm/tools/', import.meta.url)
const { createCodeExecutionTool } = await import(new URL('CodeExecutor.mjs', tools))
const { createBashExecutionTool } = await import(new URL('BashExecutor.mjs', tools))
const { createProgrammaticToolCallingTool } = await import(new URL('ProgrammaticToolCalling.mjs', tools))
const { createBashProgrammaticToolCallingTool } = await import(new URL('BashProgrammaticToolCalling.mjs', tools))

const { SANDGATE_URL: url, SANDGATE_TOKEN: token } = process.env
const baseUrl = `${url}/librechat/v1`
const headers = { 'X-API-Key': token }
const options = { baseUrl, authHeaders: headers }

let calls = 0
/** Calls a tool as a graph of agents does: with a call of a model and what the graph injects. */
function call(tool, args, injected = {}, config = {}) {
  return tool.invoke({ name: tool.name, args, id: `call_${++calls}`, type: 'tool_call', ...injected }, config)
}

/** Uploads a file as LibreChat does, and returns how agents refer to it. */
async function upload(name, text) {
  const form = new FormData()
  form.append('file', new Blob([text]), name)
  const answer = await (await fetch(`${baseUrl}/upload`, { method: 'POST', headers, body: form })).json()
  return { id: answer.files[0].fileId, session_id: answer.session_id, name }
}

async function code() {
  const tool = createCodeExecutionTool(options)
  const table = await upload('sales.csv', 'month,sold\n1,3\n2,5\n')
  const run = await call(tool, {
    lang: 'py', code: `import pandas, matplotlib.pyplot as plt
t = pandas.read_csv('/mnt/data/sales.csv')
t.plot('month')
plt.savefig('/mnt/data/sales.png')
print('sold', t.sold.sum())`,
  }, { _injected_files: [table] })
  assert.match(run.content, /^stdout:\nsold 8\n/)
  const picture = run.artifact.files.find((f) => f.name === 'sales.png')
  const id = picture.storage_session_id ?? picture.session_id ?? run.artifact.session_id
  const content = await (await fetch(`${baseUrl}/download/${id}/${picture.id}`, { headers })).arrayBuffer()
  assert.equal(Buffer.from(content).subarray(1, 4).toString(), 'PNG')

  const failed = await call(tool, { lang: 'js', code: 'console.log(1)\nnull.x' })
  assert.match(failed.content, /^stdout:\n1\n[^]*stderr:\n[^]*TypeError/)
  const long = await call(tool, { lang: 'bash', code: 'head -c 200000 /dev/zero | tr "\\0" x' })
  assert.ok(long.content.length > 100_000, `${long.content.length} bytes of a large output`)
  const empty = await call(tool, { lang: 'py', code: 'x = 1' })
  assert.match(empty.content, /stdout: Empty/)
}

async function stateful() {
  const tool = createCodeExecutionTool({ ...options, statefulSessions: true, runtimeSessionHint: 'npm' })
  const first = await call(tool, { lang: 'py', code: 'open("/mnt/data/kept.txt", "w").write("7")' })
  const second = await call(tool, { lang: 'bash', code: 'cat /mnt/data/kept.txt' })
  assert.match(second.content, /^stdout:\n7/)
  assert.equal(second.artifact.runtime_status, 'reused')
  assert.equal(second.artifact.runtime_session_id, first.artifact.runtime_session_id)
}

async function bash() {
  const tool = createBashExecutionTool(options)
  const run = await call(tool, { command: 'echo "$1"; echo no >&2; exit 3', args: ['one'] })
  assert.match(run.content, /^stdout:\none\n[^]*stderr:\nno/)
  const stop = new AbortController()
  const begun = performance.now()
  const stopped = call(tool, { command: 'sleep 60' }, {}, { signal: stop.signal })
  stop.abort()
  await assert.rejects(stopped)
  assert.ok(performance.now() - begun < 50_000, 'a cancelled run ends')
}

async function programs() {
  const weather = {
    name: 'get_weather', schema: { type: 'object', properties: { city: { type: 'string' } } },
    invoke: ({ city }) => {
      if (city === 'Nowhere') throw new Error('no such city')
      return { city, degrees: city.length }
    },
  }
  const injected = {
    toolMap: new Map([[weather.name, weather]]),
    toolDefs: [{ name: weather.name, description: 'Weather', parameters: weather.schema }],
  }
  const python = await call(createProgrammaticToolCallingTool(options), {
    code: `a, b = await asyncio.gather(get_weather(city="Rome"), get_weather(city="Bergen"))
print(a["degrees"] + b["degrees"])
try:
    await get_weather(city="Nowhere")
except Exception as e:
    print(e)`,
  }, injected)
  assert.match(python.content, /^stdout:\n10\n[^]*no such city/)
  const shell = await call(createBashProgrammaticToolCallingTool(options), {
    code: `get_weather '{"city": "Oslo"}' | jq .degrees`,
  }, injected)
  assert.match(shell.content, /^stdout:\n4/)
}

async function refused() {
  const tool = createCodeExecutionTool({ baseUrl, authHeaders: { 'X-API-Key': 'sg_wrong' } })
  await assert.rejects(call(tool, { lang: 'py', code: '1' }), /not authorized/)
}

await Promise.all([code(), stateful(), bash(), programs(), refused()])
