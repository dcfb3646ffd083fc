// Kernels through KernelManager.
import { check, collect, equal, list, ok, run, services, settings, until } from './kit.mjs'

const { KernelManager, KernelSpecManager, KernelAPI } = services
const serverSettings = settings()
const manager = new KernelManager({ serverSettings })
const start = (options = { name: 'python3' }) => manager.startNew(options)
let kernel

check('kernelspecs have a default and logos', async () => {
  const specs = new KernelSpecManager({ serverSettings })
  await specs.ready
  equal(specs.specs.default, 'python3')
  const python = specs.specs.kernelspecs.python3
  equal(python.language, 'python')
  const url = new URL(python.resources['logo-svg'], serverSettings.baseUrl)
  const logo = await fetch(url, { headers: { Authorization: `token ${serverSettings.token}` } })
  equal(logo.status, 200)
  ok(logo.headers.get('content-type').startsWith('image/svg'), 'the logo is not SVG')
  specs.dispose()
})

check('a kernel starts and describes itself', async () => {
  kernel = await start()
  const info = await kernel.info
  equal(info.language_info.name, 'python')
  equal(info.protocol_version, '5.3')
  ok(/^\w+-\w+-\w+-\w+-\w+$/.test(kernel.id), `the id is ${kernel.id}`)
})

check('print', async () => {
  const { reply, text, outputs } = await run(kernel, 'print(6*7)')
  equal(reply.status, 'ok')
  equal(text, '42\n')
  equal(
    outputs.map((m) => m.header.msg_type),
    ['status', 'execute_input', 'stream', 'status']
  )
})

check('a result', async () => {
  const { outputs, reply } = await run(kernel, '6*7')
  const result = outputs.find((m) => m.header.msg_type === 'execute_result')
  equal(result.content.data['text/plain'], '42')
  equal(result.content.execution_count, reply.execution_count)
})

check('an error', async () => {
  const { reply, outputs } = await run(kernel, '1/0')
  equal([reply.status, reply.ename], ['error', 'ZeroDivisionError'])
  ok(reply.traceback.length > 0, 'the reply has no traceback')
  ok(
    outputs.some((m) => m.header.msg_type === 'error'),
    'there is no error message'
  )
})

check('a cell after an error runs', async () => {
  equal((await run(kernel, 'print("next")')).text, 'next\n')
})

check('display and update of a display', async () => {
  const { outputs } = await run(
    kernel,
    'from IPython.display import display, HTML\nh = display(HTML("<b>1</b>"), display_id="d")\nh.update(HTML("<b>2</b>"))'
  )
  const [first] = outputs.filter((m) => m.header.msg_type === 'display_data')
  const [second] = outputs.filter((m) => m.header.msg_type === 'update_display_data')
  equal(first.content.data['text/html'], '<b>1</b>')
  equal(second.content.data['text/html'], '<b>2</b>')
  equal(first.content.transient.display_id, 'd')
})

check('a picture', async () => {
  const { outputs } = await run(kernel, 'import matplotlib.pyplot as p; p.plot([1, 2]);')
  ok(
    outputs.some((m) => m.content?.data?.['image/png']),
    'there is no picture'
  )
})

check('stderr', async () => {
  const { outputs } = await run(kernel, 'import sys; print("oops", file=sys.stderr)')
  equal(
    outputs.filter((m) => m.header.msg_type === 'stream').map((m) => m.content),
    [{ name: 'stderr', text: 'oops\n' }]
  )
})

check('input', async () => {
  const future = kernel.requestExecute({ code: 'print("got", input("name? "))', allow_stdin: true })
  let prompt
  future.onStdin = (m) => {
    prompt = m.content.prompt
    kernel.sendInputReply({ value: 'Ada', status: 'ok' }, m.header)
  }
  const { text } = await collect(future)
  equal([prompt, text.includes('got Ada')], ['name? ', true])
})

check('an answer that is sent again reaches one question', async () => {
  const code = 'x = input("a? "); y = input("b? "); print([x, y])'
  const future = kernel.requestExecute({ code, allow_stdin: true })
  const asked = []
  future.onStdin = (m) => {
    asked.push(m.header)
    const answer = (value, to) => kernel.sendInputReply({ value, status: 'ok' }, to)
    answer('one', asked[0])
    if (asked.length > 1) answer('two', asked[1])
  }
  const { text } = await collect(future)
  ok(text.includes("['one', 'two']"), text)
})

check('input fails without allow_stdin', async () => {
  const { reply } = await run(kernel, 'input()', { allow_stdin: false })
  equal(reply.status, 'error')
})

check('completion', async () => {
  const { content } = await kernel.requestComplete({ code: 'impor', cursor_pos: 5 })
  ok(content.matches.includes('import'), `the matches are ${content.matches}`)
  equal([content.cursor_start, content.cursor_end], [0, 5])
})

check('inspection', async () => {
  const { content } = await kernel.requestInspect({ code: 'zip', cursor_pos: 3, detail_level: 0 })
  equal([content.status, content.found], ['ok', true])
  ok(content.data['text/plain'], 'there is no text')
})

check('is_complete', async () => {
  const of = async (code) => (await kernel.requestIsComplete({ code })).content.status
  equal([await of('1'), await of('for i in x:'), await of('import = 7q')], [
    'complete',
    'incomplete',
    'invalid'
  ])
})

check('history', async () => {
  const { content } = await kernel.requestHistory({
    output: false,
    raw: true,
    hist_access_type: 'tail',
    n: 3
  })
  equal(content.history.length, 3)
  equal(content.history.at(-1)[2].startsWith('print("got"'), false, 'a failed input is the last')
})

check('expressions, and code outside the history', async () => {
  const request = {
    code: 'n = 20', store_history: false, user_expressions: { twice: '2 * n', missing: 'm' }
  }
  const { content } = await kernel.requestExecute(request).done
  equal(content.user_expressions.twice.data['text/plain'], '40')
  equal(content.user_expressions.missing.ename, 'NameError')
  const past = await kernel.requestHistory({
    hist_access_type: 'tail', n: 5, raw: true, output: false, session: 0, start: 0, stop: 0,
    pattern: '', unique: false
  })
  ok(!JSON.stringify(past.content.history).includes('n = 20'), 'the code is in the history')
})

check('a comm in both directions, with buffers', async () => {
  await run(
    kernel,
    `def target(comm, msg):
    @comm.on_msg
    def _(m):
        comm.send({"echo": m["content"]["data"]}, buffers=[bytes(b)[::-1] for b in m["buffers"]])
get_ipython().kernel.comm_manager.register_target("echo", target)`
  )
  const comm = kernel.createComm('echo')
  const got = new Promise((resolve) => {
    comm.onMsg = resolve
  })
  await comm.open({ a: 1 }).done
  await comm.send({ b: 2 }, {}, [new Uint8Array([1, 2, 3]).buffer]).done
  const m = await got
  equal(m.content.data, { echo: { b: 2 } })
  equal([...new Uint8Array(m.buffers[0].buffer ?? m.buffers[0])].slice(-3), [3, 2, 1])
  const { content } = await kernel.requestCommInfo({ target_name: 'echo' })
  equal(Object.keys(content.comms), [comm.commId])
  await comm.close().done
})

check('20 MB of text arrive in parts', async () => {
  let largest = 0
  const { text } = await run(kernel, 'print("x" * 20_000_000)', {}, (m) => {
    largest = Math.max(largest, m.content.text?.length ?? 0)
  })
  equal(text.length, 20_000_001)
  ok(largest <= 1 << 20, `a part has ${largest} characters`)
})

check('3000 lines are complete and in order', async () => {
  const { text } = await run(kernel, 'for i in range(3000): print(i)')
  equal(text, Array.from({ length: 3000 }, (_, i) => `${i}\n`).join(''))
})

check('an interrupt', async () => {
  const future = kernel.requestExecute({ code: 'import time\nprint("on")\ntime.sleep(60)' })
  const started = new Promise((resolve) => {
    future.onIOPub = (m) => m.header.msg_type === 'stream' && resolve()
  })
  await started
  await kernel.interrupt()
  const reply = await future.done
  equal(reply.content.ename, 'KeyboardInterrupt')
})

check('two clients see the output of each other', async () => {
  const other = manager.connectTo({ model: kernel.model })
  await other.info
  let seen = ''
  other.iopubMessage.connect((_, m) => {
    if (m.header.msg_type === 'stream') {
      seen += m.content.text // print can send the text and the end of the line apart
    }
  })
  await run(kernel, 'print("shared")')
  await until(other.iopubMessage, () => seen.includes('shared\n'), 'the output at the other client')
  other.dispose()
})

check('a reconnection in the middle of a cell loses nothing', async () => {
  const future = kernel.requestExecute({
    code: 'import time\nfor i in range(12):\n    print(i, flush=True)\n    time.sleep(0.1)'
  })
  let reconnected
  const { text } = await collect(future, (_, now) => {
    if (!reconnected && now.includes('3\n')) {
      reconnected = kernel.reconnect()
    }
  })
  await reconnected
  equal(text, Array.from({ length: 12 }, (_, i) => `${i}\n`).join(''))
})

check('a client that comes in the middle of a cell sees its output', async () => {
  const future = kernel.requestExecute({
    code: 'print("before", flush=True)\nimport time\nfor _ in range(600):\n    time.sleep(0.1)'
  })
  await new Promise((resolve) => {
    future.onIOPub = (m) => m.header.msg_type === 'stream' && resolve()
  })
  const page = new KernelManager({ serverSettings: settings() })
  const other = page.connectTo({ model: kernel.model })
  let seen = ''
  other.iopubMessage.connect((_, m) => {
    if (m.parent_header.msg_id === future.msg.header.msg_id) {
      seen += m.content.text ?? ''
    }
  })
  await until(other.iopubMessage, () => seen.includes('before\n'), 'the output')
  await until(other.statusChanged, () => other.status === 'busy', 'the state busy')
  await other.interrupt()
  await future.done
  await until(other.statusChanged, () => other.status === 'idle', 'the state idle')
  page.dispose()
})

check('a restart keeps nothing and is ready', async () => {
  await run(kernel, 'kept = 1')
  await kernel.restart()
  const { reply } = await run(kernel, 'kept')
  equal(reply.ename, 'NameError')
  equal((await run(kernel, 'print(1)')).text, '1\n')
})

check('a crash restarts the kernel and says so', async () => {
  const states = []
  const slot = (_, state) => states.push(state)
  kernel.statusChanged.connect(slot)
  kernel.requestExecute({ code: 'import os; os._exit(3)' }).done.catch(() => {})
  await until(kernel.statusChanged, () => states.includes('autorestarting'), 'autorestarting')
  kernel.statusChanged.disconnect(slot)
  await until(kernel.connectionStatusChanged, () => kernel.connectionStatus === 'connected', 'a connection')
  equal((await run(kernel, 'print(2)')).text, '2\n')
})

check('the list has the kernel', async () => {
  const look = async () => {
    await manager.refreshRunning()
    ok(list(manager.running()).some((m) => m.id === kernel.id), 'the manager has lost the kernel')
    // The manager of 6.6 keeps the number of connections that it has seen first.
    return (await KernelAPI.listRunning(serverSettings)).find((m) => m.id === kernel.id)
  }
  let own = await look()
  // The client may be connecting again after the restart before.
  for (let i = 0; i < 200 && own.connections === 0; i++) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    own = await look()
  }
  equal(own.name, 'python3')
  ok(own.connections >= 1, `it has ${own.connections} connections`)
  ok(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z$/.test(own.last_activity), own.last_activity)
})

check('another language', async () => {
  const bash = await start({ name: 'bash' })
  equal((await bash.info).language_info.name, 'bash')
  equal((await run(bash, 'echo hello')).text, 'hello\n')
  await bash.shutdown()
})

check('an unknown kernel is refused', async () => {
  const id = '00000000-0000-0000-0000-000000000000'
  const found = await KernelAPI.getKernelModel(id, serverSettings)
  equal(found, undefined)
  const status = await new Promise((resolve) => {
    const url = `${serverSettings.wsUrl}api/kernels/${id}/channels?token=${serverSettings.token}`
    const ws = new serverSettings.WebSocket(url)
    ws.on('unexpected-response', (_, r) => resolve(r.statusCode))
    ws.on('open', () => resolve('open'))
    ws.on('error', () => {})
  })
  equal(status, 404)
})

check('a shutdown ends the kernel and its connections', async () => {
  await kernel.shutdown()
  await manager.refreshRunning()
  ok(!list(manager.running()).some((m) => m.id === kernel.id), 'the list still has it')
})
