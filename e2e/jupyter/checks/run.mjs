// Runs the checks of the suites named as arguments, one after the other, and prints one line of JSON
// for each.
import { checks } from './kit.mjs'

const only = process.env.CHECK_ONLY ? new RegExp(process.env.CHECK_ONLY) : undefined
for (const name of process.argv.slice(2)) {
  await import(`./${name}.mjs`)
}

// The client reports some failures only on the console. Standard output has the results alone.
for (const name of ['log', 'info', 'warn', 'debug']) {
  console[name] = (...a) => console.error(...a)
}

process.on('unhandledRejection', (err) => console.error('not handled:', err))

function timeout(ms) {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`no end within ${ms} ms`)), ms).unref()
  })
}

for (const check of checks) {
  if (only && !only.test(check.name)) {
    continue
  }
  const began = Date.now()
  let error
  try {
    await Promise.race([check.run(), timeout(600_000)])
  } catch (err) {
    error = String(err?.stack ?? err)
  }
  process.stdout.write(
    JSON.stringify({ name: check.name, ok: !error, error, ms: Date.now() - began }) + '\n'
  )
}
process.exit(0)
