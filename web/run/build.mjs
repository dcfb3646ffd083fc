// Builds dist/: run.js, and the files of /embed/run. With a folder as argument it also copies them
// there compressed, as the server sends them.
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

/** The maximum size of run.js with gzip, in bytes. */
const limit = 6900

const site = process.argv[2] && resolve(process.argv[2])
process.chdir(import.meta.dirname)
rmSync('dist', { recursive: true, force: true })
mkdirSync('dist')
const shrink = {
  name: 'shrink',
  setup(b) {
    b.onLoad({ filter: /\.css$/ }, (f) => ({ contents: readFileSync(f.path, 'utf8').replace(/\n/g, ''), loader: 'text' }))
  },
}
for (const name of ['run', 'embed']) {
  await build({
    absWorkingDir: import.meta.dirname, entryPoints: [`src/${name}.ts`], outfile: `dist/${name}.js`, bundle: true, format: 'iife', target: 'es2022', minify: true,
    legalComments: 'none', logLevel: 'warning', plugins: [shrink],
  })
}
for (const name of ['embed.html', 'embed.css']) copyFileSync(name, `dist/${name}`)
const size = gzipSync(readFileSync('dist/run.js'), { level: 9 }).length
console.log(`web/run: dist/run.js ${(size / 1000).toFixed(1)} kB with gzip`)
if (size > limit) {
  console.error(`web/run: run.js may have ${limit} bytes with gzip`)
  process.exit(1)
}
if (site) {
  mkdirSync(join(site, 'embed'), { recursive: true })
  const served = { 'run.js': 'run.js', 'embed.html': 'embed/run', 'embed.css': 'embed/embed.css', 'embed.js': 'embed/embed.js' }
  for (const [from, to] of Object.entries(served)) writeFileSync(join(site, `${to}.gz`), gzipSync(readFileSync(join('dist', from)), { level: 9 }))
}
