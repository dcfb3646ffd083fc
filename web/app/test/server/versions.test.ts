// Tests the versions of a notebook, in Chromium, with the server's copies.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const source = (text: string, more = {}) => ({ cell_type: 'code', execution_count: null, outputs: [], metadata: {}, source: text, ...more })
const file = (...cells: object[]) => JSON.stringify({ cells, metadata: { kernelspec: { name: 'python3', display_name: 'Python' } }, nbformat: 4, nbformat_minor: 5 })
const first = file(
  source('price = 20\ntotal = price * 2', { id: 'a' }), source('print(total)', { id: 'b', outputs: [{ output_type: 'stream', name: 'stdout', text: ['forty\n'] }] }),
  source('import math', { id: 'c' }), { cell_type: 'markdown', id: 'd', metadata: {}, source: '# Prices' },
)
const second = file(
  source('price = 20\ntotal = price * 3', { id: 'a' }), source('import math', { id: 'c' }), { cell_type: 'markdown', id: 'd', metadata: {}, source: '# Prices' },
  source('only_now = 1', { id: 'e' }),
)

interface Version { id: string; name?: string }
const put = (id: string, text: string) => api('PUT', `/v1/sessions/${id}/files/notebook.ipynb`, JSON.parse(text))
async function stored(session: string) {
  const { notebooks: [n] } = await api<{ notebooks: { id: string }[] }>('GET', `/v1/notebooks?session=${session}`)
  const path = `/v1/notebooks/${n!.id}/versions`
  return {
    versions: async () => (await api<{ versions: Version[] }>('GET', path)).versions,
    name: (v: Version, name: string) => api('PATCH', `${path}/${v.id}`, { name }),
    text: async (v: Version) => (await api<{ text: string }>('GET', `${path}/${v.id}`)).text,
  }
}

/** A session whose notebook has two versions, and a page with the list of them. */
async function twoVersions(o: Parameters<typeof open>[2] = {}) {
  const s = await session()
  await put(s.id, first)
  const server = await stored(s.id)
  await server.name((await server.versions())[0]!, 'first draft')
  await put(s.id, second)
  const opened = await open(browser, `/s/${s.id}`, o)
  await opened.page.locator('.cell.active').waitFor()
  await opened.page.locator('.cell.active').focus()
  return { ...opened, ...s, server, async close() { await opened.context.close(); await s.end() } }
}

async function openVersions(page: Page): Promise<void> {
  await page.keyboard.press('Control+Shift+p')
  await page.getByRole('combobox', { name: 'Command' }).fill('versions')
  await page.keyboard.press('Enter')
  await page.getByRole('list', { name: 'Versions' }).getByText('first draft').waitFor()
}
const sources = (page: Page) => page.locator('.cell').evaluateAll((cells) => cells.map((c) => (c.querySelector('.cm-content, .source-static, .rendered') as HTMLElement).innerText.trim()))

it('lists versions, and compares two of them cell by cell, with the keyboard', async () => {
  const { page, complaints, close } = await twoVersions()
  await openVersions(page)
  const list = page.getByRole('list', { name: 'Versions' })
  expect(await list.getByRole('listitem').count()).toBe(2)
  await list.getByText('newest').waitFor()
  await list.getByRole('button', { name: /first draft/ }).first().focus()
  await shot(page, 'versions')
  expect(await barriers(page)).toEqual([])
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Compare versions' })
  await dialog.getByText('Cells: 1 changed, 1 added, 1 removed, 2 unchanged.').waitFor()
  const changed = dialog.locator('.cell-change.changed')
  expect(await changed.getByRole('heading').innerText()).toBe('Cell 1, Python: changed')
  expect(await changed.locator('del').innerText()).toMatch(/removed:\s*total = price \* 2/)
  expect(await changed.locator('ins').innerText()).toMatch(/added:\s*total = price \* 3/)
  expect(await changed.locator('mark').allInnerTexts()).toEqual(['2', '3'])
  expect(await dialog.locator('.cell-change.removed').innerText()).toContain('print(total)')
  expect(await dialog.locator('.cell-change.added').innerText()).toContain('only_now = 1')
  await shot(page, 'versions-compared')
  expect(await barriers(page)).toEqual([])
  await dialog.getByLabel('From').selectOption('now')
  await dialog.getByText('Nothing differs.').waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  expect(await list.getByRole('button', { name: /first draft/ }).first().evaluate((e) => e === document.activeElement)).toBe(true)
  expect(complaints).toEqual([])
  await close()
})

it('restores a version as a new one, and keeps the state before it, also what was just typed', async () => {
  const { page, complaints, server, close } = await twoVersions()
  await page.locator('.cell.active .cm-content').click()
  await page.keyboard.press('Control+End')
  await page.keyboard.insertText('\njust_typed = True')
  await page.keyboard.press('Escape')
  await openVersions(page)
  const list = page.getByRole('list', { name: 'Versions' })
  await list.getByRole('button', { name: 'More for first draft' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('menuitem', { name: 'Restore…' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').getByText('Its present state stays in the list.').waitFor()
  await page.keyboard.press('Enter')
  await page.getByText('The version is restored. The state before it').waitFor()
  expect(await sources(page)).toEqual(['price = 20\ntotal = price * 2', 'print(total)', 'import math', 'Prices'])
  expect(await page.locator('.cell').nth(1).locator('.output').innerText()).toContain('forty')
  await expect.poll(() => list.getByRole('listitem').count()).toBe(3)
  await shot(page, 'version-restored')
  const [newest, before, draft] = await server.versions()
  expect(draft!.name).toBe('first draft')
  expect(await server.text(newest!)).toContain('total = price * 2')
  expect(await server.text(before!)).toContain('just_typed = True')
  // The state before it comes back the same way.
  await list.getByRole('listitem').nth(1).getByRole('button', { name: /^More for/ }).click()
  await page.getByRole('menuitem', { name: 'Restore…' }).click()
  await page.getByRole('button', { name: 'Restore', exact: true }).click()
  await expect.poll(() => sources(page)).toEqual(['price = 20\ntotal = price * 3\njust_typed = True', 'import math', 'Prices', 'only_now = 1'])
  await expect.poll(() => list.getByRole('listitem').count()).toBe(4)
  expect(complaints).toEqual([])
  await close()
})

it('names the present state and an older one, and shows it to the others', async () => {
  const { page, complaints, server, id, close } = await twoVersions()
  await openVersions(page)
  await page.getByRole('button', { name: 'Save a named version' }).click()
  await page.getByRole('textbox', { name: 'Name the notebook as it is now' }).fill('before the talk')
  await page.keyboard.press('Enter')
  const list = page.getByRole('list', { name: 'Versions' })
  await list.getByText('before the talk').waitFor()
  expect((await server.versions()).map((v) => v.name)).toEqual(['before the talk', 'first draft'])
  await list.getByRole('button', { name: 'More for first draft' }).click()
  await page.getByRole('menuitem', { name: 'Rename…' }).click()
  await page.getByRole('textbox', { name: 'Name this version' }).fill('x'.repeat(101))
  await page.keyboard.press('Enter')
  await page.getByText('The version was not named. A name has at most 100 bytes').waitFor()
  await list.getByRole('button', { name: 'More for first draft' }).click()
  await page.getByRole('menuitem', { name: 'Rename…' }).click()
  await page.getByRole('textbox', { name: 'Name this version' }).fill('')
  await page.keyboard.press('Enter')
  await expect.poll(async () => (await server.versions()).map((v) => v.name)).toEqual(['before the talk', undefined])
  const other = await open(browser, `/s/${id}`)
  await other.page.locator('.cell.active').waitFor()
  await other.page.getByRole('button', { name: 'Notebook', exact: true }).click()
  await other.page.getByRole('menuitem', { name: 'Versions' }).click()
  await other.page.getByRole('list', { name: 'Versions' }).getByText('before the talk').waitFor()
  await other.context.close()
  expect(complaints.filter((c) => !c.includes('400'))).toEqual([])
  await close()
})

it('restores nothing if the present state is not stored, and says so', async () => {
  const { page, close } = await twoVersions()
  await openVersions(page)
  // The server answers as if its space were full: the newest version is that of a while ago.
  await page.route('**/v1/notebooks/*/versions', async (route) => {
    const { versions } = await (await route.fetch()).json() as { versions: unknown[] }
    await route.fulfill({ json: { versions: versions.slice(1) } })
  })
  await page.getByRole('button', { name: 'More for first draft' }).click()
  await page.getByRole('menuitem', { name: 'Restore…' }).click()
  await page.getByRole('button', { name: 'Restore', exact: true }).click()
  await page.getByText('The server has not stored the present state as a version').waitFor()
  expect((await sources(page))[0]).toBe('price = 20\ntotal = price * 3')
  await close()
})

it('keeps the versions of a notebook that is renamed', async () => {
  const { page, complaints, close } = await twoVersions()
  await page.getByRole('button', { name: 'Notebook notebook.ipynb' }).click()
  await page.getByRole('menuitem', { name: 'Rename this notebook…' }).click()
  await page.getByRole('dialog').getByRole('textbox').fill('prices')
  await page.getByRole('button', { name: 'Rename', exact: true }).click()
  await page.getByRole('button', { name: 'Notebook prices.ipynb' }).waitFor()
  await page.locator('.cell.active').focus()
  await openVersions(page)
  await page.getByRole('button', { name: /first draft/ }).first().click()
  await page.getByText('Cells: 1 changed, 1 added, 1 removed, 2 unchanged.').waitFor()
  expect(complaints).toEqual([])
  await close()
})

it('says why versions cannot be listed, and tries again', async () => {
  const { page, close } = await twoVersions({ viewport: { width: 390, height: 844 } })
  await page.route('**/v1/notebooks?*', (route) => route.fulfill({ status: 503, json: { error: { kind: 'unavailable', message: 'the node is away' } } }))
  await page.getByRole('button', { name: 'Notebook', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Versions' }).click()
  await page.getByText('The versions were not loaded. The node is away.').waitFor()
  await page.unroute('**/v1/notebooks?*')
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('list', { name: 'Versions' }).getByText('first draft').click()
  await page.getByText('Cells: 1 changed, 1 added, 1 removed, 2 unchanged.').waitFor()
  await shot(page, 'versions-phone')
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true)
  await close()
})
