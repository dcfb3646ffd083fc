// Tests help while code is typed, and the settings, in Chromium with real kernels.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { barriers, launch, open, session, shot } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

async function notebook(language = 'python') {
  const s = await session(language)
  const opened = await open(browser, `/s/${s.id}`)
  await opened.page.locator('.cell.active .cm-content').waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}

/** Runs code as the first cell. The next cell is active then. */
async function run(page: Page, code: string): Promise<void> {
  await page.locator('.cell.active .cm-content').click()
  await page.keyboard.insertText(code)
  await page.keyboard.press('Shift+Enter')
  await page.locator('.cell[data-state="ok"]').first().waitFor()
  await page.getByRole('button', { name: 'Kernels: Ready' }).waitFor()
  await page.locator('.cell.active .cm-content').click()
}
const list = (page: Page) => page.locator('.cm-tooltip-autocomplete')
const text = (page: Page) => page.locator('.cell.active .cm-content').innerText()

it('suggests completions while typing, which Tab takes and Enter does not', async () => {
  const { page, complaints, close } = await notebook()
  await run(page, 'forty_two_things = 42\nforty_two_words = "42"')
  await page.keyboard.type('forty')
  await list(page).getByText('forty_two_things').waitFor()
  expect(await list(page).locator('[aria-selected="true"]').count()).toBe(0)
  await shot(page, 'notebook-suggestions')
  await page.keyboard.press('Enter')
  await list(page).waitFor({ state: 'detached' })
  expect(await text(page)).toBe('forty\n\n')
  await page.keyboard.type('forty_two_w')
  await list(page).getByText('forty_two_words').waitFor()
  await page.keyboard.press('Tab')
  await expect.poll(() => text(page)).toBe('forty\nforty_two_words')
  // Escape leaves the editor, although suggestions are shown.
  await page.keyboard.type('\nforty_t')
  await list(page).getByText('forty_two_things').waitFor()
  await page.keyboard.press('Escape')
  await list(page).waitFor({ state: 'detached' })
  await page.locator('.cell.active[data-mode="command"]').waitFor()
  // Text and comments get none: the request would have come with the letters before the dot.
  await page.keyboard.press('Enter')
  await page.keyboard.press('Control+a')
  await page.keyboard.type('# forty')
  await page.keyboard.press('Enter')
  await page.keyboard.type('forty_two_things.')
  await list(page).getByText('bit_length').waitFor()
  expect(complaints).toEqual([])
  await close()
})

it('shows the signature while arguments are typed', async () => {
  const { page, close } = await notebook()
  await run(page, 'def area(width, height=2):\n    "Multiplies."\n    return width * height\ndef inner(first):\n    return first')
  await page.keyboard.type('area(')
  const shown = page.locator('.cm-signature')
  await shown.getByText('area(width, height=2)').waitFor()
  expect(await shown.innerText()).not.toContain('Multiplies')
  await page.keyboard.type('inner(')
  await shown.getByText('inner(first)').waitFor()
  await page.keyboard.type('(1, 2)), 3')
  await shown.getByText('area(width, height=2)').waitFor()
  await page.keyboard.type(')')
  await shown.waitFor({ state: 'detached' })
  await close()
})

it('has settings that stay in the browser', async () => {
  const { page, context, complaints, id, close } = await notebook()
  await run(page, 'some_name = 1')
  await page.getByRole('button', { name: 'Settings' }).click()
  await page.getByRole('menuitem', { name: 'All settings…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Settings' })
  await dialog.getByLabel('Size of code and output').selectOption('18')
  await dialog.getByLabel('Width of the notebook').selectOption('true')
  await dialog.getByLabel('Suggest completions while you type').uncheck()
  await dialog.getByLabel('Show line numbers').check()
  await dialog.getByLabel('Theme').selectOption('dark')
  await shot(page, 'settings', ['light'])
  expect(await barriers(page)).toEqual([])
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  const other = await context.newPage()
  await other.setViewportSize({ width: 1600, height: 900 })
  await other.goto(new URL(`/s/${id}`, page.url()).href)
  await other.locator('.cell .cm-lineNumbers').first().waitFor()
  const look = await other.locator('.cell .cm-editor').first().evaluate((e) => ({ size: getComputedStyle(e).fontSize, width: e.closest('.cells')!.getBoundingClientRect().width, theme: document.documentElement.dataset.theme }))
  expect(look).toEqual({ size: '18px', width: 1600, theme: 'dark' })
  // Without suggestions, Tab still completes.
  await other.locator('.cell').last().locator('.cm-content').click()
  await other.keyboard.type('some_n')
  await other.keyboard.press('Tab')
  await list(other).getByText('some_name').or(other.locator('.cell.active .cm-content', { hasText: 'some_name' })).first().waitFor()
  expect(complaints).toEqual([])
  await close()
})
