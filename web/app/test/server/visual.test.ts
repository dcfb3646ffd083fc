// Compares the main states of the pages with references: places, sizes and colours of their elements,
// and the colours of the picture. See visual/ and docs/contributing.md.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startChat } from './chat.js'
import { url } from './rig.js'
import { writePNG } from './visual/png.js'
import { check, differences, launch, open, sizes, tenant, type Fixed } from './visual/rig.js'

let browser: Browser
let owner: Awaited<ReturnType<typeof tenant>>
/** A session whose notebook has outputs, and one with an empty notebook. */
let full: string
let empty: string

const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
  const raw = typeof body === 'string'
  const res = await fetch(url + path, { method, headers: { Authorization: `Bearer ${owner.secret}`, ...(body === undefined || raw ? {} : { 'Content-Type': 'application/json' }) }, ...(body === undefined ? {} : { body: raw ? body : JSON.stringify(body) }) })
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${await res.text()}`)
  const text = await res.text()
  return (text.startsWith('{') ? JSON.parse(text) : undefined) as T
}

/** A picture of 200 by 80 pixels with two colours. */
const picture = writePNG({ width: 200, height: 80, data: Uint8Array.from({ length: 200 * 80 * 4 }, (_, i) => (i % 4 === 3 ? 255 : (i >> 2) % 200 < 100 ? [220, 60, 40][i % 4]! : [40, 90, 200][i % 4]!)) }).toString('base64')
const cell = (id: string, source: string, outputs: object[], n: number | null = 1) => ({ cell_type: 'code', id, metadata: {}, source, outputs, execution_count: n })
const data = (d: object) => ({ output_type: 'display_data', data: d, metadata: {} })
const notebook = JSON.stringify({
  cells: [
    { cell_type: 'markdown', id: 'head', metadata: {}, source: '# Sales of the year\n\nA *short* report with `code`, and\n\n- one point\n- another point' },
    cell('text', 'import sales\nprint("rows:", len(sales.load()))', [{ output_type: 'stream', name: 'stdout', text: 'rows: 1200\n\u001b[31mred\u001b[0m and \u001b[1mbold\u001b[0m\n' }], 1),
    cell('picture', 'plot(sales)', [data({ 'image/png': picture, 'text/plain': '<Figure>' })], 2),
    cell('error', 'sales.mean("price")', [{ output_type: 'error', ename: 'KeyError', evalue: "'price'", traceback: ['Traceback (most recent call last):', 'KeyError: \'price\''] }], 3),
    cell('next', 'SELECT region, sum(sold) FROM sales', [], null),
  ],
  metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' } }, nbformat: 4, nbformat_minor: 5,
})

beforeAll(async () => {
  browser = await launch()
  owner = await tenant(`visual-${Date.now()}`)
})
afterAll(async () => {
  for (const id of [full, empty]) if (id) await call('DELETE', `/v1/sessions/${id}`).catch(() => {})
  await owner?.end()
  await browser?.close()
})

/** Texts that differ from one time to the next. */
const fixed: Fixed = {
  '.session .id': 's_0123456', '.session .expiry': 'never expires', '.session .memory': '40 MB of 1,024 MB', '.about > span:nth-child(2)': 'just now', '.bar .expiry': '',
}
const ready = async (page: Page) => {
  await page.locator('.cm-content').first().waitFor()
  await page.locator('.save-state.saved').waitFor()
}
const go = async (page: Page, path: string) => page.goto(url + path)
/** Compares a page in both colour schemes. */
const inBoth = async (page: Page, name: string) => {
  await check(page, `${name}-light`, fixed)
  await page.emulateMedia({ colorScheme: 'dark' })
  await check(page, `${name}-dark`, fixed)
  await page.emulateMedia({ colorScheme: 'light' })
}

describe('the pages look as before', () => {
  it('home, for the first time and with sessions', async () => {
    const page = await open(browser, '/', { secret: owner.secret })
    await page.getByRole('heading', { level: 1, name: 'What would you like to run?' }).waitFor()
    await check(page, 'home-first', fixed)
    empty = (await call<{ id: string }>('POST', '/v1/sessions', { language: 'javascript', name: 'Scratch' })).id
    full = (await call<{ id: string }>('POST', '/v1/sessions', { language: 'python', name: 'Sales report' })).id
    await call('PUT', `/v1/sessions/${full}/files/notebook.ipynb`, notebook)
    await page.reload()
    await page.locator('.session .memory').nth(1).waitFor()
    await inBoth(page, 'home')
    await page.setViewportSize(sizes.phone)
    await check(page, 'home-phone', fixed)
    await page.setViewportSize(sizes.desktop)
    await page.getByRole('button', { name: 'More for Scratch' }).press('Enter')
    await page.getByRole('menuitem', { name: 'End session…' }).press('Enter')
    await check(page, 'home-dialog', fixed)
    await page.context().close()
  })

  it('the notebook: empty, with outputs, on a phone, in German, from right to left', async () => {
    const page = await open(browser, `/s/${empty}`, { secret: owner.secret })
    await ready(page)
    await check(page, 'notebook-empty', fixed)
    await go(page, `/s/${full}`)
    await ready(page)
    await inBoth(page, 'notebook')
    await page.getByRole('button', { name: 'Outline', exact: true }).click()
    await page.getByRole('navigation', { name: 'Outline' }).waitFor()
    await check(page, 'notebook-outline', fixed)
    await page.getByRole('button', { name: 'Outline', exact: true }).click()
    await page.setViewportSize(sizes.phone)
    await check(page, 'notebook-phone', fixed)
    await page.setViewportSize(sizes.desktop)
    await page.evaluate(() => (document.documentElement.dir = 'rtl'))
    await check(page, 'notebook-right-to-left', fixed)
    await page.context().close()
    const german = await open(browser, `/s/${full}`, { secret: owner.secret, locale: 'de-DE' })
    await ready(german)
    await check(german, 'notebook-german', fixed)
    await german.context().close()
  })

  it('dialogs: settings, the palette, keys, and cells that move to another notebook', async () => {
    const page = await open(browser, `/s/${full}`, { secret: owner.secret })
    await ready(page)
    await page.keyboard.press('Control+Shift+P')
    await page.getByRole('combobox').fill('run all')
    await check(page, 'palette', fixed)
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Settings' }).click()
    await page.getByRole('menuitem', { name: 'All settings…' }).click()
    await inBoth(page, 'settings')
    await page.keyboard.press('Escape')
    await page.keyboard.press('Control+Shift+P')
    await page.getByRole('combobox').fill('move cells to another')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'Move cells to' }).waitFor()
    await check(page, 'dialog-move', fixed)
    await page.context().close()
  })

  it('a terminal', async () => {
    const page = await open(browser, `/s/${empty}/terminal`, { secret: owner.secret })
    await page.getByRole('button', { name: 'Open a terminal' }).click()
    const rows = page.locator('.pane.active .xterm-rows')
    await rows.filter({ hasText: /[$#]/ }).waitFor()
    await page.keyboard.type(`PS1='prompt$ '; PROMPT_COMMAND=; printf '\\033]0;shell\\007'; clear; printf '\\033[32mgreen\\033[0m \\033[7mreversed\\033[0m end-%s\\n' $((1+1))`)
    await page.keyboard.press('Enter')
    await rows.filter({ hasText: 'end-2' }).waitFor()
    await rows.filter({ hasText: /^(?!.*printf).*prompt\$/s }).waitFor()
    await page.evaluate(() => (document.activeElement as HTMLElement).blur()) // the cursor does not blink
    await inBoth(page, 'terminal')
    await page.context().close()
  })

  it('the console', async () => {
    const GiB = 2 ** 30
    const node = (name: string, o: object) => ({
      name, version: '1.4.0', state: 'ready', movable: true, address: `${name}:7000`, zone: 'north', started_ms: Date.UTC(2026, 10, 1), sessions: 12, places: 40, hibernated: 30,
      ready: 6, pool_size: 8, memory: 64 * GiB, memory_used: 20 * GiB, processors: 0.35, disk: 500 * GiB, disk_free: 300 * GiB, ...o,
    })
    const page = await open(browser, '/console')
    await page.clock.setFixedTime(Date.UTC(2026, 10, 21))
    await page.route('**/v1/nodes', (route) => route.fulfill({ json: { nodes: [node('n1', {}), node('n2', { state: 'draining', version: '1.5.0' }), { name: 'n3', state: 'unreachable', movable: false, sessions: 3, places: 40, hibernated: 0, ready: 0, pool_size: 0 }] } }))
    await page.route('**/v1/pools', (route) => route.fulfill({ json: { pools: [] } }))
    await go(page, '/console/nodes')
    await page.getByRole('listitem', { name: 'Node n3' }).waitFor()
    await inBoth(page, 'console')
    await page.context().close()
  })

  it('run buttons in the page of somebody else', async () => {
    const chat = await startChat()
    const page = await open(browser, chat.url, { viewport: { width: 900, height: 800 } })
    await page.locator('pre', { hasText: 'f(0)' }).locator('xpath=following-sibling::code-run').locator('.run').waitFor()
    await check(page, 'run-button')
    const made = page.locator('pre', { hasText: 'n ** 2' }).locator('xpath=following-sibling::code-run')
    await made.locator('.run').click()
    await made.getByText(/^Done · /).waitFor()
    await check(page, 'run-button-done', { '[role=status]': 'Done · 0.01 s' })
    await page.context().close()
    chat.stop()
  })
})

it('finds a padding of 6 px, a wrong colour, a clipped button, and a shadow', async () => {
  const page = await open(browser, `/s/${full}`, { secret: owner.secret, bypassCSP: true })
  await ready(page)
  await check(page, 'notebook-light', fixed)
  const broken = async (css: string) => {
    const style = await page.addStyleTag({ content: css })
    const { found } = await differences(page, 'notebook-light', fixed)
    await style.evaluate((e) => (e as HTMLElement).remove())
    await check(page, 'notebook-light', fixed)
    return found.map((d) => d.text)
  }
  expect(await broken('.out-text { padding-top: 6px; }')).toEqual(expect.arrayContaining([expect.stringMatching(/^log "Text output": is \d+x\d+ at/)]))
  expect(await broken('.bar { padding-inline-start: 22px; }')).toEqual(expect.arrayContaining([expect.stringContaining('button "Run all": is')]))
  expect(await broken('.split-button > button { color: #cc0000; }')).toEqual(expect.arrayContaining([expect.stringMatching(/^button "Run all": looks like #cc0000 /)]))
  expect(await broken('.split-button { max-width: 60px; overflow: hidden; }')).toEqual(expect.arrayContaining([expect.stringMatching(/^button "Run all": is \d+x\d+ at/)]))
  // No element has changed: only the picture shows it.
  expect(await broken('.rendered h1 { text-shadow: 4px 6px 0 #000; }')).toEqual(expect.arrayContaining([expect.stringContaining('the mean colour is')]))
  await page.context().close()
})
