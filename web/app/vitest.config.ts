import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

const resolve = { alias: { '@sandgate/client/base': join(import.meta.dirname, '../../client/typescript/src/base.ts') } }
const oxc = { jsx: { runtime: 'automatic' as const, importSource: 'preact' } }

// unit needs only this folder. server needs a running Sandgate, whose address and token are in
// SANDGATE_URL and SANDGATE_TOKEN.
export default defineConfig({
  test: {
    projects: [
      { resolve, oxc, test: { name: 'unit', include: ['test/*.test.{ts,tsx}'], environment: 'happy-dom', testTimeout: 120_000 } },
      // A busy machine stalls for seconds, and no test is about that.
      { resolve, oxc, test: { name: 'server', include: ['test/server/**/*.test.ts'], testTimeout: 900_000, hookTimeout: 300_000, maxWorkers: 2, expect: { poll: { timeout: 180_000 } } } },
    ],
  },
})
