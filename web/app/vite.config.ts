import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { constants, gzipSync } from 'node:zlib'
import { defineConfig, type Plugin } from 'vite'

const here = import.meta.dirname
const out = join(here, 'dist/site')

/** Libraries that the frame of untrusted output may load, served at /sandbox/lib/. */
const libraries = {
  'plotly.js': 'plotly.js-dist-min/plotly.min.js',
  'vega.js': 'vega/build/vega.min.js',
  'vega-lite.js': 'vega-lite/build/vega-lite.min.js',
  'vega-embed.js': 'vega-embed/build/vega-embed.min.js',
}

/** Keeps only name.gz of each file, because the binary contains and sends these. */
function packed(): Plugin {
  return {
    name: 'packed',
    apply: 'build',
    // Not generateBundle, because Vite inserts the names of preloaded files after it.
    writeBundle() {
      const lib = join(out, 'sandbox/lib')
      mkdirSync(lib, { recursive: true })
      const root = createRequire(join(here, 'package.json')).resolve('preact').replace(/node_modules.*/, 'node_modules')
      for (const [name, from] of Object.entries(libraries)) copyFileSync(join(root, from), join(lib, name))
      for (const name of readdirSync(out, { recursive: true, encoding: 'utf8' })) {
        const path = join(out, name)
        if (!statSync(path).isFile()) continue
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: constants.Z_BEST_COMPRESSION }))
        rmSync(path)
      }
    },
  }
}

/**
 * Keeps the calls of codemirror-emacs that register its keys and commands. The package marks them as
 * calls without effects, so the bundler would remove them.
 */
function keysOfEmacs(): Plugin {
  return {
    name: 'keys-of-emacs',
    transform: (code, id) => (id.includes('@replit/codemirror-emacs') ? { code: code.replaceAll('/*@__PURE__*/', ''), map: null } : undefined),
  }
}

export default defineConfig({
  root: here,
  resolve: { alias: { '@sandgate/client/base': join(here, '../../client/typescript/src/base.ts') } },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: out,
    emptyOutDir: true,
    target: 'es2022',
    manifest: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2000,
  },
  plugins: [keysOfEmacs(), packed()],
})
