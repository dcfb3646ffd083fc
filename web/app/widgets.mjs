// Builds the code of widgets and of PDFs, which the frame of untrusted output loads, into the built
// site in the first argument.
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { build } from 'esbuild'

/** The maximum sizes with gzip, in bytes. */
const limits = { 'widgets.js': 300_000, 'pdf.js': 800_000 }

const here = import.meta.dirname
const lumino = createRequire(createRequire(import.meta.url).resolve('@lumino/widgets'))
const common = { absWorkingDir: here, bundle: true, minify: true, target: 'es2022', legalComments: 'none', logLevel: 'warning', write: false }
const style = await build({ ...common, entryPoints: ['src/widgets/style.css'], loader: { '.woff2': 'dataurl' } })
const script = await build({
  ...common, entryPoints: ['src/widgets/main.ts'], format: 'iife', globalName: 'SandgateWidgets',
  // The frame shows hostile HTML anyway, so the large original has nothing to protect here.
  alias: {
    'sanitize-html': './src/widgets/sanitize.ts',
    // Other packages install their own copies of these.
    ...Object.fromEntries(['@lumino/messaging', '@lumino/collections'].map((name) => [name, lumino.resolve(name)])),
  },
  plugins: [{
    name: 'style',
    setup(b) {
      b.onResolve({ filter: /^style$/ }, () => ({ path: 'style', namespace: 'style' }))
      b.onLoad({ filter: /.*/, namespace: 'style' }, () => ({ contents: style.outputFiles[0].text, loader: 'text' }))
    },
  }],
})
// plotly.js and the classes of widgets are loaded before this file.
const globals = { '@jupyter-widgets/base': 'SandgateWidgets.base', 'plotly.js/dist/plotly': 'Plotly' }
const figure = await build({
  ...common, entryPoints: ['src/widgets/figure.ts'], format: 'iife', globalName: 'SandgateFigure',
  plugins: [{
    name: 'globals',
    setup(b) {
      b.onResolve({ filter: /^(@jupyter-widgets\/base|plotly\.js\/dist\/plotly)$/ }, ({ path }) => ({ path, namespace: 'globals' }))
      b.onLoad({ filter: /.*/, namespace: 'globals' }, ({ path }) => ({ contents: `module.exports = ${globals[path]}` }))
    },
  }],
})
const pdf = await build({
  ...common, entryPoints: ['src/pdf/main.ts'], format: 'iife', globalName: 'SandgatePDF', loader: { '.wasm': 'binary' },
})
const site = process.argv[2]
writeFileSync(join(site, 'sandbox/lib/figure.js.gz'), gzipSync(figure.outputFiles[0].contents, { level: 9 }))
// Browsers keep a file for a day, and its messages belong to this version of the page.
const frame = join(site, 'sandbox/frame.html.gz')
let page = gunzipSync(readFileSync(frame)).toString()
for (const [name, built] of [['widgets.js', script], ['pdf.js', pdf]]) {
  const packed = gzipSync(built.outputFiles[0].contents, { level: 9 })
  writeFileSync(join(site, `sandbox/lib/${name}.gz`), packed)
  page = page.replace(`'${name}'`, `'${name}?${createHash('sha256').update(packed).digest('hex').slice(0, 12)}'`)
  console.log(`web/app: ${name} ${Math.round(packed.length / 1000)} kB with gzip`)
  if (packed.length > limits[name]) {
    console.error(`web/app: ${name} may have ${limits[name]} bytes with gzip`)
    process.exit(1)
  }
}
writeFileSync(frame, gzipSync(page, { level: 9 }))
