// A real Chromium on the pages of a running server.
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { expect, onTestFailed } from 'vitest'
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Locator, type Page } from 'playwright-core'

export const url = process.env.SANDGATE_URL!
export const token = process.env.SANDGATE_TOKEN!

export async function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell',
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  })
}

/**
 * A page with everything that it complained about: errors, blocked loads, requests to other
 * servers.
 */
export interface Opened {
  page: Page
  context: BrowserContext
  complaints: string[]
}

/** Opens path in a separate browser, without a service worker, signed in by the printed address. */
export async function open(browser: Browser, path = '/', o: BrowserContextOptions & { signedIn?: boolean } = {}): Promise<Opened> {
  const { signedIn = true, ...rest } = o
  const context = await browser.newContext({ reducedMotion: 'reduce', serviceWorkers: 'block', viewport: { width: 1280, height: 800 }, ...rest })
  const page = await context.newPage()
  const complaints = watch(page)
  await hinder(page)
  await page.goto(`${url}${path}${signedIn ? `#token=${token}` : ''}`)
  return { page, context, complaints }
}

/** If a test fails, reports the content of its page, the focus, and the last keys and clicks. */
function witness(page: Page): void {
  void page.addInitScript(() => {
    const seen: string[] = []
    Object.assign(window, { seenEvents: seen })
    const name = (e: EventTarget | null) => e instanceof Element
      ? `${e.localName}${e.id && `#${e.id}`}${[...e.classList].map((c) => `.${c}`).join('')}${e.getAttribute('aria-label') ? `[${e.getAttribute('aria-label')}]` : ''}` : String(e)
    for (const type of ['keydown', 'mousedown', 'mouseup', 'click', 'focusin', 'focusout', 'beforeinput', 'paste', 'scroll']) {
      addEventListener(type, (e) => {
        const at = e instanceof MouseEvent ? ` ${e.clientX},${e.clientY}` : ''
        seen.push(`${performance.now().toFixed()} ${type} ${e instanceof KeyboardEvent ? e.key : (e as InputEvent).data ?? ''}${at} at ${name(e.target)}`)
        if (seen.length > 60) seen.shift()
      }, { capture: true, passive: true })
    }
  })
  onTestFailed(async (t) => {
    if (page.isClosed()) return
    const told = await page.evaluate(() => ({
      url: location.href, focus: document.activeElement?.outerHTML.slice(0, 200), events: (window as unknown as { seenEvents?: string[] }).seenEvents, text: document.body.innerText.slice(-3000),
    })).catch((e: unknown) => e)
    console.error(`${t.task.name}:`, told)
    if (shots) await page.screenshot({ path: `${shots}/failed-${t.task.name.replace(/\W+/g, '-').slice(0, 60)}-${Date.now()}.png` }).catch(() => {})
  })
}

export function watch(page: Page): string[] {
  const complaints: string[] = []
  witness(page)
  page.setDefaultTimeout(180_000)
  page.on('pageerror', (e) => complaints.push(String(e)))
  page.on('console', (m) => {
    if (m.type() === 'error') complaints.push(`${m.text()} ${m.location().url}`)
  })
  page.on('request', (r) => {
    const u = r.url()
    if (!u.startsWith(url) && !u.startsWith('data:') && !u.startsWith('blob:')) complaints.push(`a request to ${u}`)
  })
  return complaints
}

const shots = process.env.SHOTS
if (shots) mkdirSync(shots, { recursive: true })

/** Screenshots for people, in the folder SHOTS. */
export async function shot(page: Page, name: string, schemes: readonly ('light' | 'dark')[] = ['light', 'dark']): Promise<void> {
  if (!shots) return
  for (const scheme of schemes) {
    await page.emulateMedia({ colorScheme: scheme })
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))))
    await page.screenshot({ path: `${shots}/${name}-${scheme}.png` })
  }
  await page.emulateMedia({ colorScheme: 'light' })
}

/**
 * Waits until a frame of another origin has not moved for a while. Chromium ignores a click into a
 * frame that moved within the last half second, to prevent clickjacking.
 */
export async function still(frame: Locator): Promise<void> {
  await frame.scrollIntoViewIfNeeded() // the click would scroll, and move it
  let before = ''
  await expect.poll(async () => {
    const now = JSON.stringify(await frame.boundingBox())
    const same = now === before
    before = now
    return same
  }, { interval: 700 }).toBe(true)
}

/**
 * Presses a letter twice with the same time stamp, however long the page takes for each: it treats
 * two presses within a second as a pair.
 */
export async function pair(page: Page, letter: string): Promise<void> {
  const cdp = await page.context().newCDPSession(page)
  const key = { key: letter, code: `Key${letter.toUpperCase()}`, windowsVirtualKeyCode: letter.toUpperCase().charCodeAt(0), timestamp: Date.now() / 1000 }
  for (let i = 0; i < 2; i++) {
    await cdp.send('Input.dispatchKeyEvent', { type: 'keyDown', text: letter, ...key })
    await cdp.send('Input.dispatchKeyEvent', { type: 'keyUp', ...key })
  }
  await cdp.detach()
}

/** Sends a REST request to the server. */
export async function api<T>(method: string, path: string, body?: unknown): Promise<T> {
  const res = await fetch(url + path, {
    method, headers: { Authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await res.text()
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${text}`)
  return (text ? JSON.parse(text) : undefined) as T
}

/** Creates a session, and a function that deletes it. */
export async function session(language = 'python'): Promise<{ id: string; end: () => Promise<void> }> {
  const { id } = await api<{ id: string }>('POST', '/v1/sessions', { language })
  return { id, end: async () => void (await api('DELETE', `/v1/sessions/${id}`).catch(() => {})) }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/**
 * Returns the problems that axe reports, in light and dark. Output in frames is excluded. axe fails
 * if the page removes an element meanwhile, so it then looks again.
 */
export async function barriers(page: Page, schemes: readonly ('light' | 'dark')[] = ['light', 'dark']): Promise<string[]> {
  await page.evaluate(axe)
  const found: string[] = []
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme })
    for (let looks = 1; ; looks++) {
      try {
        found.push(...await axeReport(page, colorScheme))
        break
      } catch (e) {
        if (looks === 5 || !String(e).includes('dqElmToSpec')) throw e
      }
    }
  }
  return found
}

/** Returns what axe reports of a page whose transitions have ended. */
async function axeReport(page: Page, scheme: string): Promise<string[]> {
  await page.evaluate(async () => {
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
    await Promise.allSettled(document.getAnimations().filter((a) => a instanceof CSSTransition).map((a) => a.finished))
  })
  return page.evaluate(async (scheme) => {
    const run = (window as unknown as { axe: { run: (c: unknown, o: unknown) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe.run
    const r = await run({ exclude: [['iframe']] }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], iframes: false })
    return r.violations.map((v) => `${scheme} ${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 160)} ${n.failureSummary.slice(0, 200)}`).join(' | ')}`)
  }, scheme)
}

export async function hinder(page: Page): Promise<void> {
  const rate = Number(process.env.THROTTLE ?? 0)
  if (rate > 1) await (await page.context().newCDPSession(page)).send('Emulation.setCPUThrottlingRate', { rate })
  const jitter = Number(process.env.JITTER ?? 0)
  if (!jitter) return
  await page.addInitScript((most) => {
    const raf = window.requestAnimationFrame.bind(window)
    const later = window.setTimeout.bind(window)
    const cancelled = new Set<number>()
    // Delays animation frames and timers, as on a busy machine.
    window.requestAnimationFrame = (f) => {
      const id: number = raf(() => {
        later(() => { if (!cancelled.delete(id)) raf(f) }, Math.random() < 0.5 ? 0 : Math.random() * most)
      })
      return id
    }
    const cancel = window.cancelAnimationFrame.bind(window)
    window.cancelAnimationFrame = (id) => { cancelled.add(id); cancel(id) }
    const slow = ((f: TimerHandler, ms?: number, ...a: unknown[]) => later(f, (ms ?? 0) + (Math.random() < 0.5 ? 0 : Math.random() * most), ...a)) as typeof window.setTimeout
    window.setTimeout = slow
  }, jitter)
  await page.route('**/assets/**', async (route) => {
    await new Promise((r) => setTimeout(r, Math.random() * jitter))
    await route.continue().catch(() => {})
  })
}
