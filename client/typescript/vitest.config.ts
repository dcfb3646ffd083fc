import { defineConfig } from 'vitest/config'

// unit needs only this folder. server needs a running Sandgate, whose address and token are in
// SANDGATE_URL and SANDGATE_TOKEN.
export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['test/*.test.ts'], testTimeout: 120_000 } },
      { test: { name: 'server', include: ['test/server/*.test.ts'], testTimeout: 900_000, hookTimeout: 300_000, fileParallelism: false } },
    ],
  },
})
