import { defineConfig } from 'vitest/config'

// bash-tool's own shell is not installed, because it is large. A sandbox replaces it.
export default defineConfig({
  resolve: { alias: { 'just-bash': new URL('test/noshell.ts', import.meta.url).pathname } },
  test: {
    include: ['test/*.test.ts'], testTimeout: 300_000, hookTimeout: 300_000,
    server: { deps: { inline: ['bash-tool'] } },
  },
})
