// Tests help while code is typed, search and settings, in Chromium with real kernels.
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

it('finds text in sources and outputs, with patterns, and replaces one place or all', async () => {
  const { page, complaints, close } = await notebook()
  await run(page, 'rate_a = 1\nrate_b = 2\nprint("total " + "rate: 3")')
  await page.getByRole('button', { name: 'Search' }).click()
  const field = page.getByRole('searchbox', { name: 'Search' })
  const hits = page.locator('.hits button')
  const cell = page.locator('.cell').first()
  await field.fill('rate')
  await page.getByText('4 places').waitFor()
  await shot(page, 'notebook-search')
  expect(await barriers(page)).toEqual([])
  // Enter selects the next place and keeps the focus in the field. An output is marked.
  for (let i = 1; i <= 4; i++) {
    await field.press('Enter')
    await page.getByText(`${i} of 4 places`).waitFor()
  }
  await expect.poll(() => page.evaluate(() => [...(CSS.highlights.get('found') ?? [])].map((r) => (r as Range).toString()))).toEqual(['rate'])
  await field.press('Shift+Enter')
  await page.getByText('3 of 4 places').waitFor()
  expect(await field.evaluate((e) => e === document.activeElement)).toBe(true)
  await page.getByLabel('In outputs too').uncheck()
  await page.getByText('3 places').waitFor()
  await page.getByLabel('Regular expression').check()
  await field.fill('rate_(')
  await page.getByText('The expression is not valid').waitFor()
  await field.fill('rate_(\\w) =')
  await page.getByText('2 places').waitFor()
  await page.getByLabel('Replace with').fill('$1_rate =')
  await page.getByRole('button', { name: 'Replace', exact: true }).click()
  await page.getByText('1 place', { exact: true }).or(page.getByText('1 of 1 place')).waitFor()
  expect(await cell.locator('.cm-content').innerText()).toContain('a_rate = 1\nrate_b = 2')
  await page.getByRole('button', { name: 'Replace all' }).click()
  await page.getByText('Nothing found').waitFor()
  expect(await cell.locator('.cm-content').innerText()).toContain('a_rate = 1\nb_rate = 2')
  await field.fill('total rate')
  await page.getByLabel('In outputs too').check()
  await expect.poll(() => hits.count()).toBe(1)
  expect(complaints).toEqual([])
  await close()
})
