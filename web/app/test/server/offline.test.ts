// Tests the application without its server, and that browsers can install it, in Chromium.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { barriers, launch, open, session, shot, token, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const stored = async (id: string) => (await fetch(`${url}/v1/sessions/${id}/files/notebook.ipynb`, { headers: { Authorization: `Bearer ${token}` } })).text()

/** Resolves when the service worker serves this page. */
async function served(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await navigator.serviceWorker.ready
    if (!navigator.serviceWorker.controller) await new Promise((resolve) => navigator.serviceWorker.addEventListener('controllerchange', resolve, { once: true }))
  })
}

it('starts without the server, keeps what is typed then, and brings it into the notebook', async () => {
  const s = await session()
  const { page, context, complaints } = await open(browser, `/s/${s.id}`, { serviceWorkers: 'allow' })
  await page.locator('.cell.active .cm-content').waitFor()
  await page.keyboard.insertText('first = 1; print("out", first)')
  await page.keyboard.press('Control+Enter')
  await page.locator('.cell[data-state="ok"]').waitFor()
  await page.locator('.save-state.saved').waitFor()
  await expect.poll(() => stored(s.id)).toContain('first = 1')
  await served(page)
  // Only files of the application are stored: no answer of the API, no output.
  const kept = await page.evaluate(async () => {
    const all: string[] = []
    for (const name of await caches.keys()) for (const r of await (await caches.open(name)).keys()) all.push(new URL(r.url).pathname)
    return all
  })
  expect(kept).toContain('/')
  expect(kept.filter((p) => p !== '/' && !p.startsWith('/assets/'))).toEqual([])
  expect(complaints).toEqual([])
  await context.setOffline(true)
  await page.reload()
  await page.getByRole('heading', { name: 'The server cannot be reached' }).waitFor()
  const code = page.getByRole('textbox', { name: 'Code of cell 1' })
  expect(await code.inputValue()).toBe('first = 1; print("out", first)')
  await page.getByText('out 1').waitFor()
  await code.fill('first = 2')
  await page.getByRole('button', { name: 'Code', exact: true }).click()
  await page.getByRole('textbox', { name: 'Code of cell 2' }).fill('second = 3')
  await page.getByText('Your changes are kept in this browser.').waitFor()
  await shot(page, 'offline-notebook')
  expect(await barriers(page)).toEqual([])
  // They are there after another start too, and home lists them.
  await page.reload()
  await expect.poll(() => page.getByRole('textbox', { name: 'Code of cell 2' }).inputValue()).toBe('second = 3')
  await page.goto(url)
  await page.getByText('with changes that are not saved yet').waitFor()
  await shot(page, 'offline-home')
  expect(await barriers(page)).toEqual([])
  await page.getByRole('link', { name: 'notebook.ipynb' }).click()
  await page.getByRole('textbox', { name: 'Code of cell 1' }).waitFor()
  // The page comes back by itself, with the draft.
  await context.setOffline(false)
  await page.locator('.cell .cm-content', { hasText: 'first = 2' }).waitFor()
  await page.locator('.cell .cm-content', { hasText: 'second = 3' }).waitFor()
  await page.locator('.save-state.saved').waitFor()
  await expect.poll(() => stored(s.id)).toMatch(/first = 2[\s\S]*second = 3/)
  await context.close()
  await s.end()
})

it('merges what was typed without the server with what others did meanwhile', async () => {
  const s = await session()
  const cells = ['one', 'two'].map((id) => ({ cell_type: 'code', id, metadata: {}, source: [`${id} = 0`], outputs: [], execution_count: null }))
  await fetch(`${url}/v1/sessions/${s.id}/files/notebook.ipynb`, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body: JSON.stringify({ cells, metadata: {}, nbformat: 4, nbformat_minor: 5 }) })
  const { page, context } = await open(browser, `/s/${s.id}`, { serviceWorkers: 'allow' })
  await page.locator('#cell-two .cm-content').click()
  await page.keyboard.press('Control+End')
  await page.keyboard.insertText(' # here')
  await page.locator('.save-state.saved').waitFor()
  await expect.poll(() => stored(s.id)).toContain('two = 0 # here')
  await served(page)
  await context.setOffline(true)
  await page.reload()
  await page.getByRole('textbox', { name: 'Code of cell 2' }).fill('two = 22')
  await page.getByText('Your changes are kept in this browser.').waitFor()
  // Somebody else changes the other cell.
  const other = await open(browser, `/s/${s.id}`)
  await other.page.locator('#cell-one .cm-content').click()
  await other.page.keyboard.press('Control+a')
  await other.page.keyboard.insertText('one = 11')
  await other.page.locator('.save-state.saved').waitFor()
  await expect.poll(() => stored(s.id)).toContain('one = 11')
  await context.setOffline(false)
  for (const p of [page, other.page]) {
    await p.locator('#cell-one .cm-content', { hasText: 'one = 11' }).waitFor()
    await p.locator('#cell-two .cm-content', { hasText: 'two = 22' }).waitFor()
  }
  await expect.poll(() => stored(s.id)).toMatch(/one = 11[\s\S]*two = 22/)
  await context.close()
  await other.context.close()
  await s.end()
})

it('can be installed', async () => {
  const { page, context, complaints } = await open(browser, '/')
  await page.getByRole('heading', { level: 1 }).waitFor()
  const cdp = await context.newCDPSession(page)
  const { errors, data } = await cdp.send('Page.getAppManifest')
  expect(errors).toEqual([])
  const manifest = JSON.parse(data!) as { icons: { src: string; sizes: string }[]; display: string }
  expect(manifest.display).toBe('standalone')
  const sizes = await page.evaluate(async (icons) => Promise.all(icons.map(async (src) => {
    const img = new Image()
    img.src = src
    await img.decode()
    return `${img.naturalWidth}x${img.naturalHeight}`
  })), manifest.icons.map((i) => i.src))
  expect(sizes).toEqual(manifest.icons.map((i) => i.sizes))
  const { installabilityErrors } = await cdp.send('Page.getInstallabilityErrors')
  expect(installabilityErrors.map((e) => e.errorId).filter((e) => e !== 'in-incognito')).toEqual([])
  expect(complaints).toEqual([])
  await page.goto(`${url}/icons/maskable-512.png`)
  await shot(page, 'icon', ['light'])
  await context.close()
})
