// A cell of a user of JupyterHub. The kernel stays.
import { check, equal, run, services, settings } from './kit.mjs'

check('a cell runs in a sandbox', async () => {
  const kernels = new services.KernelManager({ serverSettings: settings() })
  const kernel = await kernels.startNew({ name: 'python3' })
  const { text } = await run(kernel, 'import os; print(6 * 7, os.getcwd())')
  equal(text, '42 /home/user\n')
  kernels.dispose()
})
