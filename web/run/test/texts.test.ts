// @vitest-environment happy-dom
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { CodeRun } from '../src/element.js'
import { german, languageOf, translated } from '../src/texts.js'

customElements.define('code-run', CodeRun)
afterEach(() => {
  vi.unstubAllGlobals()
  document.body.replaceChildren()
  document.documentElement.lang = ''
})

/** Adds an element to the page, inside another one with this language. */
function within(lang: string | undefined, el: HTMLElement): HTMLElement {
  const outer = document.createElement('div')
  if (lang !== undefined) outer.lang = lang
  outer.append(el)
  document.body.append(outer)
  return el
}

it('has the language of the nearest attribute, the page or the browser', () => {
  const at = (lang?: string) => languageOf(within(lang, document.createElement('p')))
  expect([at('de'), at('de-AT'), at('DE'), at('en'), at('fr'), at('den')]).toEqual(['de', 'de', 'de', 'en', 'en', 'en'])
  vi.stubGlobal('navigator', { language: 'de-CH' })
  expect([at(), at('en-GB')]).toEqual(['de', 'en'])
  document.documentElement.lang = 'en'
  expect([at(), at('de')]).toEqual(['en', 'de'])
})

it('leaves texts that it does not know, and takes values as they are', () => {
  const el = within('de', document.createElement('p'))
  expect(translated(el, 'Only {} are shown.', '$&')).toBe('Nur $& werden angezeigt.')
  expect(['constructor', 'The limit is {}.'].map((s) => translated(el, s))).toEqual(['constructor', 'The limit is {}.'])
})

it('has each text in German, with its value, and no other', () => {
  const src = join(import.meta.dirname, '../src')
  const code = readdirSync(src).filter((f) => f.endsWith('.ts') && f !== 'texts.ts').map((f) => readFileSync(join(src, f), 'utf8')).join('\n')
  const calls = [...code.matchAll(/\bt\(([^()]*|[^()]*\([^()]*\)[^()]*)\)|translated\(host, ('[^']*')|new (?:Run)?Error\(('[^']*')/g)].map((m) => m[1] ?? m[2] ?? m[3]!)
  const used = calls.flatMap((c) => [...c.replaceAll("('form')", '').matchAll(/'([^']+)'/g)].map((m) => m[1]!))
  expect(used.length).toBeGreaterThan(20)
  expect(used.filter((s) => !Object.hasOwn(german, s))).toEqual([])
  expect(Object.keys(german).filter((s) => !code.includes(`'${s}'`))).toEqual([])
  for (const [english, text] of Object.entries(german)) expect(text.includes('{}'), english).toBe(english.includes('{}'))
})

it('shows a run in German, and follows its attribute', async () => {
  const stream = '{"type":"start","session":"s","channel":"k1","cell":1}\n{"type":"truncated","bytes":1234567}\n{"type":"done","status":"error","exit_code":3,"elapsed_ms":1250}\n'
  vi.stubGlobal('fetch', async () => new Response(stream))
  const el = within('de', new CodeRun()) as CodeRun
  const find = (what: string) => el.shadowRoot!.querySelector<HTMLElement>(what)!
  expect([find('.run').textContent, find('.bar').ariaLabel, find('.bar').lang]).toEqual(['Ausführen', 'python-Code', 'de'])
  await el.run()
  expect(find('.note').textContent).toBe('1.234.567 Bytes über der Grenze wurden ausgelassen.')
  expect(find('[role=status]').textContent).toBe('Fehlgeschlagen · 1,25 s · Exit-Status 3')
  expect(find('.run').textContent).toBe('Erneut ausführen')
  el.lang = 'en'
  expect(find('.run').textContent).toBe('Run again')
  vi.stubGlobal('fetch', async () => Promise.reject(new TypeError()))
  await el.run()
  expect(find('[role=status]').textContent).toBe('The server cannot be reached.')
  el.lang = 'de'
  await el.run()
  expect(find('[role=status]').textContent).toBe('Der Server ist nicht erreichbar.')
})
