// Tests the main flows in Firefox: Debian's, as it is, driven by WebDriver BiDi.
import { join } from 'node:path'
import { firefox, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, session, shot, token, url, watch } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await firefox.launch({
    channel: 'moz-firefox', executablePath: join(import.meta.dirname, 'firefox/start.mjs'), headless: true,
    firefoxUserPrefs: { 'ui.prefersReducedMotion': 1, 'layout.css.prefers-color-scheme.content-override': 1 },
  })
})
afterAll(() => browser?.close())

interface Opened {
  page: Page
  context: BrowserContext
  complaints: string[]
}

async function open(path: string, width = 1280): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width, height: 800 } })
  const page = await context.newPage()
  const complaints = watch(page)
  await page.goto(`${url}${path}#token=${token}`)
  return { page, context, complaints }
}

const code = (page: Page, n: number) => page.locator('.cell').nth(n).locator('.cm-content')
const output = (page: Page, n: number) => page.locator('.cell').nth(n).locator('.output')

it('makes a session at home, runs a cell, shows output while it is printed, and finds it again', async () => {
  const { page, context, complaints } = await open('/')
  await page.getByRole('button', { name: 'Python', exact: true }).click()
  await code(page, 0).waitFor()
  const id = new URL(page.url()).pathname.split('/')[2]!
  // Text that is typed at once is code.
  await page.keyboard.type('6 * 7')
  await page.keyboard.press('Shift+Enter')
  await output(page, 0).getByText('42', { exact: true }).waitFor()
  await code(page, 1).click()
  await page.keyboard.insertText('import time, os\nfor i in range(600):\n    if os.path.exists("stop"): break\n    print("line", i, flush=True); time.sleep(0.2)\nprint("stopped")')
  await page.keyboard.press('Control+Enter')
  await output(page, 1).getByText('line 2', { exact: false }).waitFor()
  expect(await page.locator('.cell').nth(1).getAttribute('data-state')).toBe('running')
  // A reload in the middle shows what was printed before, and what comes after.
  await page.reload()
  await output(page, 1).getByText('line 0', { exact: false }).waitFor()
  await output(page, 0).getByText('42', { exact: true }).waitFor()
  const before = Number(/line (\d+)\s*$/.exec(await output(page, 1).innerText())![1])
  await expect.poll(async () => Number(/line (\d+)\s*$/.exec(await output(page, 1).innerText())?.[1])).toBeGreaterThan(before)
  await fetch(`${url}/v1/sessions/${id}/files/stop`, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body: '' })
  await output(page, 1).getByText('stopped').waitFor()
  const lines = (await output(page, 1).locator('.out-text').innerText()).trim().split('\n')
  expect(lines.slice(0, -1)).toEqual(lines.slice(0, -1).map((_, i) => `line ${i}`))
  await shot(page, 'firefox-notebook', ['light'])
  // An error marks its line, and Markdown is rendered.
  await code(page, 1).click()
  await page.keyboard.press('Escape')
  await page.keyboard.press('b')
  await page.keyboard.press('Enter')
  await page.keyboard.insertText('print("before")\n1 / 0')
  await page.keyboard.press('Control+Enter')
  await output(page, 2).getByText('ZeroDivisionError').first().waitFor()
  await page.keyboard.press('b')
  await page.keyboard.press('m')
  await page.keyboard.press('Enter')
  await page.keyboard.insertText('# A *heading*')
  await page.keyboard.press('Control+Enter')
  await page.getByRole('heading', { name: 'A heading' }).waitFor()
  await expect.poll(async () => (await api<{ cells: object[] }>('GET', `/v1/sessions/${id}/files/notebook.ipynb`)).cells.length).toBe(4)
  expect(complaints).toEqual([])
  await context.close()
  await api('DELETE', `/v1/sessions/${id}`)
})

it('types in a terminal, splits it, and shows all of it after a reload', async () => {
  const s = await session()
  const { page, context, complaints } = await open(`/s/${s.id}/terminal`)
  await page.getByRole('button', { name: 'Open a terminal' }).click()
  const shows = (text: string | RegExp) => page.locator('.pane.active .xterm-rows').filter({ hasText: text }).waitFor()
  await shows(/[$#]/)
  await page.keyboard.type('echo six-$((6*7)); stty size')
  await page.keyboard.press('Enter')
  await shows('six-42')
  await page.keyboard.press('Control+Shift+E')
  await expect.poll(() => page.locator('.pane').count()).toBe(2)
  await shows(/[$#]/)
  await page.keyboard.type('echo second-$((2*4))')
  await page.keyboard.press('Enter')
  await shows('second-8')
  await page.keyboard.type('echo begun-$((1)); sleep 600')
  await page.keyboard.press('Enter')
  await shows('begun-1') // bash ignores the key while it starts a command
  await page.keyboard.press('Control+c')
  await page.keyboard.type('echo after-$((1+1))')
  await page.keyboard.press('Enter')
  await shows('after-2')
  await shot(page, 'firefox-terminal', ['light'])
  await page.reload()
  await page.locator('.xterm-rows').filter({ hasText: 'six-42' }).waitFor()
  await page.locator('.xterm-rows').filter({ hasText: 'after-2' }).waitFor()
  expect(complaints).toEqual([])
  await context.close()
  await s.end()
})

it('edits one notebook in two tabs, with the cursors of both', async () => {
  const s = await session()
  const one = await open(`/s/${s.id}`)
  const two = await open(`/s/${s.id}`)
  for (const { page } of [one, two]) await code(page, 0).waitFor()
  await code(one.page, 0).click()
  await one.page.keyboard.insertText('base')
  await code(two.page, 0).filter({ hasText: 'base' }).waitFor()
  await code(two.page, 0).click()
  await two.page.keyboard.press('Control+Home')
  await one.page.keyboard.press('Control+End')
  await Promise.all([one.page.keyboard.type(' + back'), two.page.keyboard.type('front + ')])
  const source = async () => (await api<{ cells: { source: string[] }[] }>('GET', `/v1/sessions/${s.id}/files/notebook.ipynb`)).cells[0]!.source.join('')
  await expect.poll(source).toBe('front + base + back')
  // One window of Firefox has the focus, and only there an editor has a cursor.
  await two.page.bringToFront()
  await code(two.page, 0).click()
  await one.page.locator('.cm-ySelectionInfo').first().waitFor({ state: 'attached' })
  await one.page.bringToFront()
  await code(one.page, 0).click()
  await two.page.locator('.cm-ySelectionInfo').first().waitFor({ state: 'attached' })
  await one.page.keyboard.press('Control+a')
  await one.page.keyboard.insertText('print("from", "one")')
  await one.page.keyboard.press('Control+Enter')
  await output(two.page, 0).getByText('from one').waitFor()
  for (const { complaints, context } of [one, two]) {
    expect(complaints.filter((c) => !c.includes('409'))).toEqual([])
    await context.close()
  }
  await s.end()
})

it('shows a terminal and a second notebook beside the first, and remembers both', async () => {
  const s = await session()
  const { page, context, complaints } = await open(`/s/${s.id}`, 1600)
  const main = page.getByRole('main')
  const dock = page.getByRole('complementary', { name: 'Beside the notebook' })
  const other = dock.getByRole('region', { name: 'Notebook other.ipynb' })
  await code(page, 0).click()
  await page.keyboard.insertText('shared = 20')
  await page.keyboard.press('Control+Enter')
  await expect.poll(() => page.locator('.cell').first().getAttribute('data-state')).toBe('ok')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('terminal beside')
  await page.keyboard.press('Enter')
  await dock.locator('.xterm-rows', { hasText: '$' }).waitFor()
  await page.keyboard.type('echo beside-$((3*3))')
  await page.keyboard.press('Enter')
  await dock.locator('.xterm-rows', { hasText: 'beside-9' }).waitFor()
  await page.getByRole('button', { name: 'Files', exact: true }).click()
  await page.getByRole('button', { name: 'New notebook', exact: true }).click()
  await page.getByRole('textbox', { name: 'New notebook' }).fill('other')
  await page.keyboard.press('Enter')
  await other.locator('.cell.active .cm-content').waitFor()
  await expect.poll(() => page.evaluate(() => document.activeElement?.closest('.dock-notebook') !== null)).toBe(true)
  await page.keyboard.insertText('print("other", shared + 22)')
  await page.keyboard.press('Control+Enter')
  await other.locator('.output').getByText('other 42').waitFor()
  await dock.getByRole('button', { name: /^Arrange / }).click()
  await page.getByRole('menuitem', { name: 'Move to a new group', exact: true }).click()
  await expect.poll(() => dock.getByRole('tablist').count()).toBe(2)
  // A cell moves between the notebooks by a menu.
  await main.locator('.gutter .count').first().click()
  await main.getByRole('button', { name: 'More for this cell' }).click()
  await page.getByRole('menuitem', { name: 'Copy cells to another notebook…' }).click()
  await page.getByRole('dialog', { name: 'Copy cells to' }).getByRole('button', { name: 'other.ipynb' }).click()
  await expect.poll(() => other.locator('.cell').count()).toBe(2)
  await shot(page, 'firefox-dock', ['light'])
  await page.locator('.dock-notebook .save-state.saved').waitFor()
  await page.reload()
  await other.locator('.output').getByText('other 42').waitFor()
  await dock.locator('.xterm-rows', { hasText: 'beside-9' }).waitFor()
  expect(await dock.getByRole('tablist').count()).toBe(2)
  expect(complaints).toEqual([])
  await context.close()
  await s.end()
})
