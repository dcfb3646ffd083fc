// The public methods of the SDK, read from the types in its packages.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

// The classes of users, and the names that they have there.
const classes = {
  Sandbox: 'Sandbox',
  SandboxApi: 'Sandbox',
  Commands: 'Commands',
  CommandHandle: 'CommandHandle',
  Pty: 'Pty',
  Filesystem: 'Filesystem',
  WatchHandle: 'WatchHandle',
  Git: 'Git',
  SandboxPaginator: 'SandboxPaginator',
  SnapshotPaginator: 'SnapshotPaginator',
  SecretPaginator: 'SecretPaginator',
  Volume: 'Volume',
  Secret: 'Secret',
  TemplateBase: 'Template',
  ReadyCmd: 'ReadyCmd',
  E2B: 'E2B'
}

// Users do not call these.
const inner = new Set(['resolveOpts'])

// methods returns Class.method for a static method and Class#method for another.
export function methods() {
  const require = createRequire(import.meta.url)
  const found = new Set()
  for (const name of ['e2b', '@e2b/code-interpreter']) {
    const types = readFileSync(join(dirname(require.resolve(name)), 'index.d.ts'), 'utf8')
    let class_
    for (const line of types.split('\n')) {
      const head = /^declare (?:abstract )?class (\w+)/.exec(line)
      if (head) {
        class_ = classes[head[1]]
      } else if (line.startsWith('}')) {
        class_ = undefined
      }
      const method = /^ {2}(static )?(?:get )?(\w+)(?:<.*?>)?\(/.exec(line)
      if (class_ && method && !inner.has(method[2]) &&
        (method[2] !== 'constructor' || class_ === 'E2B')) {
        found.add(method[2] === 'constructor'
          ? `new ${class_}`
          : class_ + (method[1] ? '.' : '#') + method[2])
      }
    }
  }
  return [...found]
}
