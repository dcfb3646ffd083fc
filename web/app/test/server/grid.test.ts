// Tests tables as grids, in Chromium, with real kernels.
import { readFileSync } from 'node:fs'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { barriers, launch, open, session, shot } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

async function notebook(o: Parameters<typeof open>[2] = {}) {
  const s = await session()
  const opened = await open(browser, `/s/${s.id}`, o)
  await opened.page.locator('.cell.active .cm-content').waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}

async function run(page: Page, code: string, language?: string): Promise<void> {
  const cell = page.locator('.cell.active')
  await cell.locator('.cm-content').click()
  await page.keyboard.insertText(code)
  if (language) {
    await cell.getByRole('button', { name: /^Language/ }).click()
    await page.getByRole('menuitemradio', { name: language }).click()
    await cell.locator('.cm-content').click()
  }
  await page.keyboard.press('Control+Enter')
}

const million = 'import numpy as np, pandas as pd\nrng = np.random.default_rng(1)\nn = 1_000_000\n' +
  'big = pd.DataFrame({"number": np.arange(n), "value": rng.normal(100, 15, n).round(4), "city": rng.choice(["Berlin", "Oslo", "Paris", "Rome"], n), "day": pd.date_range("2026-01-01", periods=n, freq="min")})\nbig'
const grid = (page: Page) => page.getByRole('grid', { name: 'Table' })
const column = (page: Page, n: number) => page.locator(`.grid-body .grid-cell[data-column="${n}"]`)
const status = (page: Page) => page.locator('.grid-tools [role="status"]')
async function download(page: Page, item: string): Promise<Buffer> {
  await page.getByRole('button', { name: 'Download the table' }).click()
  const [d] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: item }).click()])
  return readFileSync(await d.path())
}

describe('a DataFrame of a million rows', () => {
  it('is scrolled, sorted, filtered, described, copied and downloaded, while the page holds a few rows', async () => {
    const { page, complaints, context, close } = await notebook()
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await run(page, million)
    await grid(page).waitFor()
    await expect.poll(() => status(page).innerText()).toBe('1,000,000 rows, 4 columns')
    expect(await grid(page).getAttribute('aria-rowcount')).toBe('1000001')
    await expect.poll(() => column(page, 1).first().innerText()).toBe('0')
    expect(await page.locator('.grid-row').count()).toBeLessThan(60)
    await shot(page, 'grid')
    // The keyboard goes to the last row, which the kernel sends.
    await grid(page).focus()
    await page.keyboard.press('Control+End')
    await expect.poll(() => page.locator('.grid-cell.at').innerText()).toBe('2027-11-26 10:39:00')
    const active = await grid(page).getAttribute('aria-activedescendant')
    expect(await page.locator(`[id="${active}"]`).getAttribute('role')).toBe('gridcell')
    expect(await page.locator(`[id="${active}"]`).evaluate((e) => e.parentElement!.getAttribute('aria-rowindex'))).toBe('1000001')
    // Half way by the scroll bar.
    await grid(page).evaluate((e) => (e.scrollTop = e.scrollHeight / 2))
    await expect.poll(async () => Number(await column(page, 1).nth(8).innerText())).toBeGreaterThan(490_000)
    // Sorted by a click on the head, and back by the keyboard.
    await grid(page).evaluate((e) => (e.scrollTop = 0))
    await page.getByRole('columnheader', { name: /^number/ }).locator('.grid-name').click()
    await page.getByRole('columnheader', { name: /^number/ }).locator('.grid-name').click()
    await expect.poll(() => column(page, 1).first().innerText()).toBe('999999')
    expect(await page.getByRole('columnheader', { name: /^number/ }).getAttribute('aria-sort')).toBe('descending')
    await page.keyboard.press('Enter')
    await expect.poll(() => column(page, 1).first().innerText()).toBe('0')
    // Filtered by the panel of a column.
    await page.getByRole('columnheader', { name: /^city/ }).locator('.grid-menu').click()
    const panel = page.getByRole('dialog', { name: 'Column city' })
    await panel.getByRole('table', { name: 'Most common values' }).waitFor()
    expect(await panel.locator('.grid-statistics').innerText()).toMatch(/Rows\s*1,000,000\s*Missing\s*0\s*Distinct\s*4/)
    await panel.getByRole('combobox').selectOption('is')
    await panel.getByRole('textbox', { name: 'Value' }).fill('Oslo')
    await shot(page, 'grid-filter')
    await page.keyboard.press('Enter')
    await expect.poll(() => status(page).innerText()).toMatch(/^2[45]\d,\d{3} rows of 1,000,000, 4 columns$/)
    await expect.poll(async () => new Set(await column(page, 3).allInnerTexts())).toEqual(new Set(['Oslo']))
    // The statistics are those of the rows that are left. The keyboard opens them too.
    await grid(page).focus()
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Home')
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('Alt+ArrowDown')
    const value = page.getByRole('dialog', { name: 'Column value' })
    await value.getByRole('img', { name: /^Histogram from / }).waitFor()
    expect(await value.locator('.grid-statistics').innerText()).toMatch(/Rows\s*2[45]\d,\d{3}[\s\S]*Mean\s*(99|100)\.\d+/)
    await shot(page, 'grid-statistics')
    expect(await barriers(page)).toEqual([])
    await page.keyboard.press('Escape')
    await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute('role'))).toBe('grid')
    // Copied: what is selected.
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('Shift+ArrowDown')
    await page.keyboard.press('Shift+ArrowLeft')
    await expect.poll(() => status(page).innerText()).toContain('4 values selected')
    await page.keyboard.press('Control+c')
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toMatch(/^[\d.]+\tOslo\n[\d.]+\tOslo$/)
    expect(await barriers(page)).toEqual([])
    // Downloaded: what is shown.
    const lines = (await download(page, 'Download as CSV')).toString().trimEnd().split('\n')
    expect(lines[0]).toBe('number,value,city,day')
    expect(lines.length - 1).toBe(Number((await status(page).innerText()).split(' ')[0]!.replace(',', '')))
    expect(lines.slice(1).every((l) => l.includes(',Oslo,'))).toBe(true)
    // Parquet needs a package that the image does not have.
    await page.getByRole('button', { name: 'Download the table' }).click()
    await page.getByRole('menuitem', { name: 'Download as Parquet' }).click()
    await page.getByText('Parquet needs the package pyarrow').waitFor()
    await page.getByRole('button', { name: 'city = Oslo: remove this filter' }).click()
    await expect.poll(() => status(page).innerText()).toBe('1,000,000 rows, 4 columns')
    // Escape leads back to the cell.
    await grid(page).focus()
    await page.keyboard.press('Escape')
    await page.locator('.cell.active:focus').waitFor()
    expect(complaints).toEqual([])
    await close()
  })

  it('keeps its first rows when its kernel has ended, and in the file', async () => {
    const { page, complaints, close } = await notebook()
    await run(page, million)
    await grid(page).waitFor()
    await expect.poll(() => page.locator('.save-state.saved').count()).toBe(1)
    await page.reload()
    await grid(page).waitFor()
    await grid(page).evaluate((e) => (e.scrollTop = e.scrollHeight))
    await expect.poll(() => column(page, 1).last().innerText()).toBe('999999')
    await page.getByRole('button', { name: /^Kernels/ }).click()
    await page.getByRole('group', { name: 'Python' }).getByRole('menuitem', { name: 'Restart…' }).click()
    await page.getByRole('button', { name: 'Restart', exact: true }).click()
    await page.locator('.chip.ready').waitFor()
    await page.reload()
    await grid(page).waitFor()
    await grid(page).evaluate((e) => (e.scrollTop = e.scrollHeight / 2))
    await page.getByText('These are the first 500 of 1,000,000 rows. Run the cell again to see all of them.').waitFor()
    await grid(page).evaluate((e) => (e.scrollTop = e.scrollHeight))
    await expect.poll(() => column(page, 1).last().innerText()).toBe('499')
    await shot(page, 'grid-gone')
    // Only these rows are sorted then.
    await page.getByRole('columnheader', { name: /^number/ }).locator('.grid-name').click()
    await page.getByRole('columnheader', { name: /^number/ }).locator('.grid-name').click()
    await expect.poll(() => column(page, 1).first().innerText()).toBe('499')
    expect(complaints).toEqual([])
    await close()
  })
})

it('shows small tables, rows of SQL, lists of objects and long values as a grid', async () => {
  const { page, complaints, close } = await notebook()
  await run(page, 'import pandas as pd\npd.DataFrame({"a": [1, None], "long": ["x" * 1000, "y"]}, index=["p", "q"])')
  await grid(page).waitFor()
  await expect.poll(() => page.getByRole('rowheader').allInnerTexts()).toEqual(['p', 'q'])
  expect(await page.getByRole('gridcell', { name: 'null' }).count()).toBe(1)
  await page.locator('.grid-cell[data-row="0"][data-column="2"]').dblclick()
  await expect.poll(async () => (await page.getByRole('dialog', { name: 'Value' }).locator('pre').innerText()).length).toBe(1000)
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
  await page.keyboard.press('b')
  await run(page, 'SELECT 1 AS n, \'x\' AS s UNION SELECT 2, NULL', 'SQL')
  await expect.poll(() => page.locator('.cell').nth(1).getByRole('gridcell').allInnerTexts()).toEqual(['1', 'x', '2', 'null'])
  await page.keyboard.press('b')
  await run(page, 'from IPython.display import JSON; JSON([{"k": 1}, {"k": 2, "m": "t"}])', 'Python')
  await expect.poll(() => page.locator('.cell').nth(2).getByRole('gridcell').allInnerTexts()).toEqual(['1', 'null', '2', 't'])
  await page.mouse.move(2, 2) // the pointer is not over code, which would be explained
  await expect.poll(() => page.locator('.cm-inspect').count()).toBe(0)
  await shot(page, 'grid-small')
  expect(await barriers(page)).toEqual([])
  expect(complaints).toEqual([])
  await close()
})
