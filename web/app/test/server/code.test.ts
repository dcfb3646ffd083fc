// Tests what the notebook does with the names in its code, in Chromium, with a real kernel.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

async function notebook() {
  const s = await session()
  const opened = await open(browser, `/s/${s.id}`)
  await opened.page.locator('.cell.active .cm-content').waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}

const cell = (page: Page, n: number) => page.locator('.cell').nth(n)
const code = (page: Page, n: number) => cell(page, n).locator('.cm-content')
const text = async (page: Page, n: number) => (await cell(page, n).locator('.cm-line').allInnerTexts()).join('\n').replaceAll('\u200b', '')
/** Puts the cursor before a text of a cell. */
async function cursor(page: Page, n: number, before: string) {
  await code(page, n).click()
  const at = (await text(page, n)).indexOf(before)
  await page.keyboard.press('Control+Home')
  for (let i = 0; i < at; i++) await page.keyboard.press('ArrowRight')
}
async function write(page: Page, n: number, source: string, key = 'Shift+Enter') {
  await code(page, n).click()
  await page.keyboard.insertText(source)
  if (key) await page.keyboard.press(key)
}

it('shows problems while code is written, goes to definitions, renames in all cells', async () => {
  const { page, id, complaints, close } = await notebook()
  await write(page, 0, 'def area(r):\n    total = r * r\n    return total')
  await page.locator('.cell').nth(1).waitFor()
  await write(page, 1, 'total = area(3)\nprint(totl, total)', '')
  // Problems of a name and of the syntax, while the code is written.
  const problems = cell(page, 1).getByRole('group', { name: 'Problems' })
  await problems.getByRole('button', { name: 'Line 2: totl is not defined in this notebook' }).waitFor()
  expect(await cell(page, 1).locator('.cm-problem.warning').innerText()).toBe('totl')
  await shot(page, 'code-problem')
  expect(await barriers(page)).toEqual([])
  await problems.getByRole('button').click()
  await page.keyboard.press('Delete')
  for (let i = 0; i < 3; i++) await page.keyboard.press('Delete')
  await page.keyboard.insertText('total')
  await expect.poll(() => problems.count()).toBe(0)
  await page.keyboard.press('Control+End')
  await page.keyboard.insertText('\nx = = 1')
  await problems.getByRole('button', { name: /^Line 3: invalid syntax/ }).waitFor()
  for (let i = 0; i < 7; i++) await page.keyboard.press('Backspace')
  await page.keyboard.press('Backspace')
  await expect.poll(() => problems.count()).toBe(0)
  // The definition of a function is in another cell.
  await cursor(page, 1, 'area(3)')
  await page.keyboard.press('F12')
  await expect.poll(() => cell(page, 0).getAttribute('class')).toContain('active')
  await expect.poll(() => page.evaluate(() => getSelection()!.anchorNode!.parentElement!.closest('.cm-line')!.textContent)).toBe('def area(r):')
  // A new name replaces the variable of the notebook, and not that of the function.
  await cursor(page, 1, 'total = area')
  await page.keyboard.press('F2')
  const dialog = page.getByRole('dialog', { name: 'Rename total' })
  await dialog.getByText('It is at 3 places in 1 cell.').waitFor({ timeout: 5000 }).catch(() => {})
  expect(await dialog.innerText()).toContain('It is at 3 places in 1 cell.')
  await dialog.getByRole('textbox').fill('sum of it')
  await page.keyboard.press('Enter')
  await page.getByText("'sum of it' is not a name").waitFor()
  await page.getByRole('button', { name: 'Dismiss' }).click()
  await cursor(page, 1, 'total = area')
  await page.keyboard.press('F2')
  await page.getByRole('dialog', { name: 'Rename total' }).getByRole('textbox').fill('square')
  await page.keyboard.press('Enter')
  await expect.poll(() => text(page, 1)).toBe('square = area(3)\nprint(square, square)')
  expect(await text(page, 0)).toBe('def area(r):\n    total = r * r\n    return total')
  await cursor(page, 0, 'area(r)')
  await page.keyboard.press('F2')
  await page.getByRole('dialog', { name: 'Rename area' }).getByRole('textbox').fill('surface')
  await page.keyboard.press('Enter')
  await expect.poll(async () => [await text(page, 0), await text(page, 1)]).toEqual(['def surface(r):\n    total = r * r\n    return total', 'square = surface(3)\nprint(square, square)'])
  await expect.poll(async () => (await api<{ cells: { source: string[] }[] }>('GET', `/v1/sessions/${id}/files/notebook.ipynb`)).cells[1]?.source.join('')).toContain('surface(3)')
  expect(complaints).toEqual([])
  await close()
})

it('opens the file of a definition, and formats with the package that the session has', async () => {
  const { page, id, complaints, close } = await notebook()
  await write(page, 0, 'open("shapes.py", "w").write("\\n\\ndef cube(a):\\n    return a ** 3\\n")\nimport shapes')
  await cell(page, 0).and(page.locator('[data-state="ok"]')).waitFor()
  await write(page, 1, 'shapes.cube( 2 )\n!echo  x', '')
  await cursor(page, 1, 'cube')
  await page.keyboard.press('F12')
  const file = page.getByRole('dialog', { name: /shapes\.py$/ })
  await expect.poll(() => file.locator('mark').innerText()).toMatch(/^3\s*def cube\(a\):/)
  await shot(page, 'code-file')
  await page.keyboard.press('Escape')
  await code(page, 1).click()
  await page.keyboard.press('Alt+Shift+F')
  await page.getByText(/Formatting needs the package black|formatting needs the package black/).waitFor()
  // A package that the user has installed.
  await fetch(`${process.env.SANDGATE_URL}/v1/sessions/${id}/files/black.py`, {
    method: 'PUT', headers: { Authorization: `Bearer ${process.env.SANDGATE_TOKEN}` }, body: 'import sys\nsys.stdout.write(sys.stdin.read().replace("( 2 )", "(2)"))\n',
  })
  await code(page, 1).click()
  await page.keyboard.press('Alt+Shift+F')
  await expect.poll(() => text(page, 1)).toBe('shapes.cube(2)\n!echo  x')
  expect(complaints).toEqual([])
  await close()
})
