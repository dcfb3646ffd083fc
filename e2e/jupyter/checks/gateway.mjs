// The checks of kernels through Jupyter Server and its gateway client. It leaves out those that
// Jupyter Server does not pass itself in front of any gateway.
import { checks } from './kit.mjs'
import './kernels.mjs'

const leftOut = {
  'kernelspecs have a default and logos': "it passes on the logo's path, with the gateway's base",
  'a comm in both directions, with buffers': 'it reads binary messages as text',
  'a reconnection in the middle of a cell loses nothing': 'it replays only what it holds itself',
  'a client that comes in the middle of a cell sees its output': 'it does not ask for a replay',
  'a crash restarts the kernel and says so': 'it may drop the first message after a reconnection',
  'the list has the kernel': 'it counts no connections',
  'an unknown kernel is refused': 'it accepts the WebSocket first'
}

for (const name of Object.keys(leftOut)) {
  const at = checks.findIndex((c) => c.name === name)
  if (at < 0) {
    throw new Error(`there is no check "${name}"`)
  }
  checks.splice(at, 1)
}

// Jupyter Server drops a message that arrives before it has begun to connect to the gateway. If that
// is the question for the kernel's description, the client never gets one. So these checks may start
// a second kernel.
for (const name of ['a kernel starts and describes itself', 'another language']) {
  const found = checks.find((c) => c.name === name)
  const once = found.run
  found.run = async () => {
    const described = await Promise.race([
      once().then(() => true),
      new Promise((resolve) => setTimeout(() => resolve(false), 45_000).unref())
    ])
    if (!described) {
      await once()
    }
  }
}
