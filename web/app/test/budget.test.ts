import { readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'

const site = join(import.meta.dirname, '../dist/site')
type Chunk = { file: string; imports?: string[]; css?: string[] }

/** The compressed bytes that a page loads before it can be used. */
function initial(page: string, kind: 'js' | 'css'): number {
  const manifest = JSON.parse(gunzipSync(readFileSync(join(site, '.vite/manifest.json.gz'))).toString()) as Record<string, Chunk>
  const files = new Set<string>()
  const walk = (key: string) => {
    const c = manifest[key]!
    if (kind === 'css') for (const f of c.css ?? []) files.add(f)
    else if (files.has(c.file)) return
    else files.add(c.file)
    c.imports?.forEach(walk)
  }
  walk('index.html')
  walk(page)
  return [...files].reduce((n, f) => n + statSync(join(site, `${f}.gz`)).size, 0)
}

describe('the build', () => {
  it('begins the notebook with at most 77 kB of script, without the editor', () => {
    expect(initial('src/notebook/page.tsx', 'js')).toBeLessThan(77_000)
    expect(initial('src/home/page.tsx', 'js')).toBeLessThan(46_000)
    expect(initial('src/notebook/page.tsx', 'css')).toBeLessThan(12_000)
  })

  it('has no inline script in its page, and nothing from elsewhere', () => {
    const page = gunzipSync(readFileSync(join(site, 'index.html.gz'))).toString()
    expect(page).not.toMatch(/<script(?![^>]*\bsrc=)/)
    for (const [, address] of page.matchAll(/(?:src|href)="([^"]+)"/g)) expect(address).toMatch(/^\/assets\/|^\/icons\/|^\/manifest\.webmanifest$/)
  })
})

it('makes HTML of no text', () => {
  const src = join(import.meta.dirname, '../src')
  for (const name of readdirSync(src, { recursive: true, encoding: 'utf8' })) {
    // The code in widgets runs in the frame of untrusted output.
    if (!/\.tsx?$/.test(name) || name.startsWith('widgets/')) continue
    expect(readFileSync(join(src, name), 'utf8'), name).not.toMatch(/\b(?:innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write)\b/)
  }
})
