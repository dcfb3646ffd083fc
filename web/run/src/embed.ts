// The page /embed/run: one run button for pages that allow no foreign scripts. It has no
// credentials: the embedding page sends it code and tickets.
import { choose } from './texts.js'
import type { CodeRun } from './element.js'
import type { enhance } from './enhance.js'
import type { Settings } from './element.js'

declare const window: Window & { CodeRun: { enhance: typeof enhance; configure(s: Settings): void } }

const button = document.querySelector('code-run') as CodeRun
const code = document.querySelector('code')!
let host = '' // the origin of the embedding page, after its first message
let waiting: ((ticket: string) => void)[] = []

const tell = (message: object) => window.parent.postMessage(message, host || '*')

function speak(tag: string): void {
  document.documentElement.lang = button.lang = choose(tag)
}

function take(m: { code?: unknown; language?: unknown; lang?: unknown; theme?: unknown; timeout?: unknown }): void {
  if (typeof m.lang === 'string') speak(m.lang)
  if (typeof m.code === 'string') code.textContent = m.code
  if (typeof m.language === 'string') button.setAttribute('language', m.language)
  if (typeof m.timeout === 'number') button.setAttribute('timeout', String(m.timeout))
  if (m.theme === 'dark' || m.theme === 'light') document.documentElement.style.colorScheme = m.theme
}

window.CodeRun.configure({
  gateway: location.origin,
  ticket: () => new Promise((resolve, reject) => {
    waiting.push(resolve)
    tell({ type: 'code-run:ticket' })
    setTimeout(() => reject(new Error('This page gave no ticket.')), 10_000)
  }),
})
button.source = code
speak(navigator.language)

window.addEventListener('message', (e: MessageEvent<{ type?: unknown; ticket?: unknown; code?: unknown }>) => {
  if (e.source !== window.parent || e.source === window || typeof e.data !== 'object' || (host && e.origin !== host)) return
  const m = e.data
  if (m.type === 'code-run:init') {
    host = e.origin
    take(m)
  } else if (m.type === 'code-run:ticket' && host && typeof m.ticket === 'string') {
    for (const resolve of waiting) resolve(m.ticket)
    waiting = []
  }
})
for (const name of ['run', 'output', 'done', 'error']) {
  button.addEventListener(`code-run:${name}`, (e) => host && tell({ type: e.type, detail: (e as CustomEvent).detail }))
}
new ResizeObserver(() => tell({ type: 'code-run:height', height: document.body.scrollHeight })).observe(document.body)
const given = new URLSearchParams(location.hash.slice(1))
take(Object.fromEntries(given))
tell({ type: 'code-run:ready' })
