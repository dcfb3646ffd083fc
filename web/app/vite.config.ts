import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { constants, gzipSync } from 'node:zlib'
import { defineConfig, type Plugin } from 'vite'
import { icon } from './icons.ts'

const here = import.meta.dirname
const out = join(here, 'dist/site')

/** Libraries that the frame of untrusted output may load, served at /sandbox/lib/. */
const libraries = {
  'plotly.js': 'plotly.js-dist-min/plotly.min.js',
  'mermaid.js': '@mermaid-js/tiny/dist/mermaid.tiny.js',
  'vega.js': 'vega/build/vega.min.js',
  'vega-lite.js': 'vega-lite/build/vega-lite.min.js',
  'vega-embed.js': 'vega-embed/build/vega-embed.min.js',
}

type Built = { file: string; imports?: string[]; css?: string[]; assets?: string[] }

/**
 * Writes the service worker with the names of the built files. Those of the first page and of the
 * page without the server are stored in the browser at once, all others when they are used.
 */
function offline(): Plugin {
  return {
    name: 'offline',
    apply: 'build',
    writeBundle() {
      const manifest = JSON.parse(readFileSync(join(out, '.vite/manifest.json'), 'utf8')) as Record<string, Built>
      const first = new Set<string>()
      const walk = (key: string) => {
        const c = manifest[key]
        if (!c || first.has(c.file)) return
        for (const f of [c.file, ...(c.css ?? []), ...(c.assets ?? [])]) first.add(f)
        c.imports?.forEach(walk)
      }
      for (const key of ['index.html', 'src/offline/page.tsx', 'src/notebook/output.ts']) walk(key)
      const others = readdirSync(join(out, 'assets')).map((f) => `assets/${f}`).filter((f) => !first.has(f))
      const list = (files: Iterable<string>) => [...files].map((f) => `'/${f}'`).join(', ')
      const hash = createHash('sha256').update(readFileSync(join(out, 'index.html'))).update(list(first)).update(list(others)).digest('hex').slice(0, 16)
      const code = readFileSync(join(here, 'worker.js'), 'utf8').replace("'FIRST'", list(first)).replace("'OTHERS'", list(others)).replace('VERSION', hash)
      writeFileSync(join(out, 'worker.js'), code)
      mkdirSync(join(out, 'icons'), { recursive: true })
      for (const [name, size, maskable] of [['icon-180', 180, true], ['icon-192', 192, false], ['icon-512', 512, false], ['maskable-512', 512, true]] as const) {
        writeFileSync(join(out, `icons/${name}.png`), icon(size, maskable))
      }
    },
  }
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
  plugins: [keysOfEmacs(), offline(), packed()],
})
