// Builds the code of widgets, which the frame of untrusted output loads, into the folder in the
// first argument.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

/** The maximum size with gzip, in bytes. */
const limit = 300_000

const here = import.meta.dirname
const common = { absWorkingDir: here, bundle: true, minify: true, target: 'es2022', legalComments: 'none', logLevel: 'warning', write: false }
const style = await build({ ...common, entryPoints: ['src/widgets/style.css'], loader: { '.woff2': 'dataurl' } })
const script = await build({
  ...common, entryPoints: ['src/widgets/main.ts'], format: 'iife', globalName: 'SandgateWidgets',
  // The frame shows hostile HTML anyway, so the large original has nothing to protect here.
  alias: { 'sanitize-html': './src/widgets/sanitize.ts' },
  plugins: [{
    name: 'style',
    setup(b) {
      b.onResolve({ filter: /^style$/ }, () => ({ path: 'style', namespace: 'style' }))
      b.onLoad({ filter: /.*/, namespace: 'style' }, () => ({ contents: style.outputFiles[0].text, loader: 'text' }))
    },
  }],
})
const packed = gzipSync(script.outputFiles[0].contents, { level: 9 })
writeFileSync(join(process.argv[2], 'widgets.js.gz'), packed)
console.log(`web/app: widgets.js ${Math.round(packed.length / 1000)} kB with gzip`)
if (packed.length > limit) {
  console.error(`web/app: widgets.js may have ${limit} bytes with gzip`)
  process.exit(1)
}
