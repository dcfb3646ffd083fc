// Tests the command palette in Chromium: it finds commands, files, sessions and settings.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot, token, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const dialog = (page: Page) => page.getByRole('dialog', { name: 'Command palette' })
const option = (page: Page, name: string | RegExp) => dialog(page).getByRole('option', { name })

/** Opens the palette with keys, and waits until files and sessions are listed. */
async function ask(page: Page, text: string, keys = 'Control+k'): Promise<void> {
  await page.keyboard.press(keys)
  await dialog(page).getByRole('combobox').and(page.locator(':focus')).waitFor()
  await dialog(page).getByText('Looking for files and sessions…').waitFor({ state: 'hidden' })
  await page.keyboard.insertText(text)
}

async function put(id: string, name: string, body: string): Promise<void> {
  const res = await fetch(`${url}/v1/sessions/${id}/files/${name}`, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body })
  if (!res.ok) throw new Error(`${res.status} ${await res.text()}`)
}

it('finds commands by other words, settings, files in folders and sessions', async () => {
  const [s, other] = [await session(), await session('bash')]
  await api('PATCH', `/v1/sessions/${other.id}`, { name: `Nightly import ${other.id.slice(-6)}`, labels: { team: other.id.slice(-6) } })
  await put(s.id, 'data/prices.csv', 'a,b\n1,2\n')
  await put(s.id, 'second.ipynb', JSON.stringify({ cells: [{ cell_type: 'markdown', id: 'a', metadata: {}, source: ['# Second'] }], metadata: {}, nbformat: 4, nbformat_minor: 5 }))
  const { page, context, complaints } = await open(browser, `/s/${s.id}`)
  await page.locator('.cell.active .cm-content').waitFor()
  await page.keyboard.press('Escape')
  // A command, by a word that is not in its name, and with its keys.
  await ask(page, 'remove results')
  await option(page, /Clear all outputs/).waitFor()
  await page.keyboard.press('Escape')
  await ask(page, 'cancel')
  expect(await option(page, /^Stop running cells/).locator('kbd').innerText()).toBe('I I')
  await page.keyboard.press('Escape')
  // A setting takes effect.
  await ask(page, 'dark mode')
  await page.keyboard.press('Enter')
  await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark')
  await ask(page, 'theme system')
  await page.keyboard.press('Enter')
  await ask(page, 'line numbers')
  await page.keyboard.press('Enter')
  await page.locator('.cell .cm-lineNumbers').first().waitFor()
  // A file in a folder.
  await ask(page, 'prices')
  await expect.poll(() => option(page, /prices\.csv/).innerText()).toMatch(/data/)
  await shot(page, 'palette')
  expect(await barriers(page)).toEqual([])
  await page.keyboard.press('Enter')
  await page.getByRole('dialog', { name: 'prices.csv' }).getByText('1 row').waitFor()
  await page.getByRole('button', { name: 'Close' }).click()
  // Another notebook, then another session, from one to the other.
  await ask(page, 'second.ipynb')
  await page.keyboard.press('Enter')
  await page.locator('.markdown h1', { hasText: 'Second' }).waitFor()
  await ask(page, `team=${other.id.slice(-6)}`)
  await option(page, /Nightly import/).waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(new RegExp(other.id))
  await page.locator('.cell.active .cm-content').waitFor()
  await page.keyboard.press('Escape')
  // The page says that nothing matches.
  await ask(page, 'no such thing at all')
  await dialog(page).getByText('Nothing matches.').waitFor()
  expect(complaints).toEqual([])
  await context.close()
  await s.end()
  await other.end()
})

it('opens on home and in terminals, renames the session, and gives the focus back', async () => {
  const s = await session('bash')
  const { page, context, complaints } = await open(browser, '/')
  await page.getByRole('heading', { name: 'Your sessions' }).waitFor()
  await ask(page, 'console usage')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Console' }).waitFor()
  await ask(page, s.id)
  await page.keyboard.press('Enter')
  await page.waitForURL(new RegExp(`/s/${s.id}$`))
  await page.locator('.cell.active .cm-content').waitFor()
  await ask(page, 'open terminal')
  await page.keyboard.press('Enter')
  await page.locator('.xterm-screen').waitFor()
  await page.locator('.pane.active textarea').focus()
  // Ctrl-K is the shell's.
  await page.keyboard.press('Control+k')
  expect(await dialog(page).count()).toBe(0)
  await ask(page, 'rename session', 'Control+Shift+P')
  await page.keyboard.press('Enter')
  await page.getByRole('textbox', { name: 'Rename the session' }).fill('My shell')
  await page.keyboard.press('Enter')
  await page.getByText('The session is now called My shell').waitFor()
  expect((await api<{ name: string }>('GET', `/v1/sessions/${s.id}`)).name).toBe('My shell')
  await page.locator('.pane.active textarea').focus()
  await ask(page, 'split right', 'Control+Shift+P')
  await page.keyboard.press('Enter')
  await expect.poll(() => page.locator('.pane').count()).toBe(2)
  await ask(page, 'x', 'Control+Shift+P')
  await page.keyboard.press('Escape')
  await expect.poll(() => page.evaluate(() => document.activeElement?.matches('.xterm-helper-textarea'))).toBe(true)
  expect(complaints).toEqual([])
  await context.close()
  await s.end()
})
