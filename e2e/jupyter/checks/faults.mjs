// A gateway that is killed, a session that is hibernated and a page that is loaded again, in the middle
// of a cell or a program. CONTROL is the address of the test that kills the gateway.
import { check, collect, equal, ok, services, settings, until } from './kit.mjs'

const { ContentsManager, KernelManager, SessionManager, TerminalManager } = services
const serverSettings = settings()
const kernelManager = new KernelManager({ serverSettings })
const manager = new SessionManager({ serverSettings, kernelManager })
const path = 'faults.ipynb'
let session

const lines = (n) => Array.from({ length: n }, (_, i) => `${i}\n`).join('')
const slow = (n) => `import time\nfor i in range(${n}):\n    print(i, flush=True)\n    time.sleep(0.1)`

async function control(action) {
  const response = await fetch(`${process.env.CONTROL}/${action}`, { method: 'POST' })
  equal([response.status, await response.text()], [200, 'ok'])
}

// api makes a request of Sandgate's own interface for the session of the kernel.
async function api(action) {
  const name = `s_${session.kernel.id.slice(0, session.kernel.id.lastIndexOf('_')).replaceAll('-', '')}`
  const url = new URL(`/v1/sessions/${name}/${action}`, serverSettings.baseUrl)
  const response = await fetch(url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${serverSettings.token}` }
  })
  equal(response.status, 200)
}

// during runs a cell of n lines and calls act once after its fourth line.
async function during(n, act) {
  let acted
  const future = session.kernel.requestExecute({ code: slow(n) })
  const { text, reply } = await collect(future, (_, now) => {
    if (!acted && now.includes('3\n')) {
      acted = act(future)
    }
  })
  equal([text, reply.status], [lines(n), 'ok'])
  return await acted
}

check('a session and a file are there before', async () => {
  await manager.ready
  session = await manager.startNew({ path, name: 'f', type: 'notebook', kernel: { name: 'python3' } })
  const contents = new ContentsManager({ serverSettings })
  await contents.save('kept.txt', { type: 'file', format: 'text', content: 'kept' })
})

check('a killed gateway in the middle of a cell loses nothing', async () => {
  await during(40, () => control('kill'))
})

check('another gateway has the session and the files', async () => {
  await manager.refreshRunning()
  const model = await manager.findByPath(path)
  equal([model.id, model.kernel.id], [session.id, session.kernel.id])
  const contents = new ContentsManager({ serverSettings })
  equal((await contents.get('kept.txt')).content, 'kept')
})

check('a hibernation in the middle of a cell loses nothing', async () => {
  await during(30, async () => {
    await api('hibernate')
    await manager.refreshRunning() // lists do not resume it
    await api('resume')
  })
})

check('a page that is loaded again in the middle of a cell gets all its output', async () => {
  await during(30, async (future) => {
    const serverSettings = settings()
    const kernels = new KernelManager({ serverSettings })
    const page = new SessionManager({ serverSettings, kernelManager: kernels })
    await page.ready
    const other = page.connectTo({ model: await page.findByPath(path) })
    let text = ''
    other.iopubMessage.connect((_, m) => {
      if (m.parent_header.msg_id === future.msg.header.msg_id && m.header.msg_type === 'stream') {
        text += m.content.text
      }
    })
    await until(other.iopubMessage, () => text.includes('29\n'), 'the last line')
    equal(text, lines(30))
    page.dispose()
    kernels.dispose()
  })
})

check('a killed gateway in the middle of a program of a terminal loses nothing', async () => {
  const terminals = new TerminalManager({ serverSettings })
  await terminals.ready
  const terminal = await terminals.startNew()
  let text = ''
  terminal.messageReceived.connect((_, m) => {
    if (m.type === 'stdout') {
      text += m.content.join('')
    }
  })
  const shows = (what) => until(terminal.messageReceived, () => text.includes(what), what)
  terminal.send({ type: 'stdin', content: ['for i in $(seq 50); do echo n$i.; sleep 0.1; done; echo en""d\r'] })
  await shows('n5.')
  await control('kill')
  await shows('end\r\n')
  const screen = text.split('\x1bc').at(-1)
  equal(screen.match(/n\d+\.\r\n/g), Array.from({ length: 50 }, (_, i) => `n${i + 1}.\r\n`))
  terminal.send({ type: 'stdin', content: ['echo al""ive\r'] })
  await shows('alive')
  await terminal.shutdown()
})

check('the session ends', async () => {
  await session.shutdown()
  await manager.refreshRunning()
  ok(!(await manager.findByPath(path)), 'it is still listed')
})
