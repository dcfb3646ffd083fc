// Tests folded sections, pictures and links of the notebook, in Chromium, with a real kernel.
import { readFileSync } from 'node:fs'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot, token, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

/** A notebook whose file has these cells. */
async function notebook(cells: { cell_type: 'markdown' | 'code'; source: string }[]) {
  const s = await session()
  const full = cells.map((c, i) => ({ ...c, id: `c${i}`, metadata: {}, ...(c.cell_type === 'code' ? { outputs: [], execution_count: null } : {}) }))
  const body = JSON.stringify({ cells: full, metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' } }, nbformat: 4, nbformat_minor: 5 })
  await fetch(`${url}/v1/sessions/${s.id}/files/notebook.ipynb`, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body })
  const opened = await open(browser, `/s/${s.id}`)
  await opened.page.locator('.cell').first().waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}

it('folds sections, keeps that in the file, and shows what is gone to', async () => {
  const { page, id, complaints, close } = await notebook([
    { cell_type: 'markdown', source: '# Load' }, { cell_type: 'code', source: 'x = 1' }, { cell_type: 'markdown', source: '## Clean' }, { cell_type: 'code', source: 'y = 2' },
    { cell_type: 'markdown', source: '# Plot' }, { cell_type: 'code', source: 'z = 3' },
  ])
  const shown = () => page.locator('.cell:visible').count()
  await page.getByRole('button', { name: 'Fold the section of 3 cells' }).click()
  await expect.poll(shown).toBe(3)
  expect(await page.getByRole('button', { name: 'Show the 3 cells of this section' }).getAttribute('aria-expanded')).toBe('false')
  await shot(page, 'sections')
  expect(await barriers(page)).toEqual([])
  type File = { cells: { metadata: Record<string, unknown> }[] }
  await expect.poll(async () => (await api<File>('GET', `/v1/sessions/${id}/files/notebook.ipynb`)).cells[0]!.metadata['jp-MarkdownHeadingCollapsed']).toBe(true)
  await page.reload()
  await page.locator('.cell').first().waitFor()
  await expect.poll(shown).toBe(3)
  // Keys skip what is folded, and fold.
  await page.locator('#cell-c0').click()
  await page.keyboard.press('ArrowDown')
  await expect.poll(() => page.locator('.cell.active').getAttribute('id')).toBe('cell-c4')
  await page.keyboard.press('ArrowLeft')
  await expect.poll(shown).toBe(2)
  await page.keyboard.press('ArrowRight')
  await expect.poll(shown).toBe(3)
  // A search shows what it finds.
  await page.keyboard.press('f')
  await page.getByRole('searchbox', { name: 'Search' }).fill('y = 2')
  await page.locator('.hits button').first().click()
  await expect.poll(shown).toBe(6)
  expect(complaints).toEqual([])
  await close()
})

it('enlarges and saves plots, and opens addresses and files of text', async () => {
  const { page, complaints, close } = await notebook([
    { cell_type: 'code', source: 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()' },
    { cell_type: 'code', source: 'open("a.py", "w").write("one\\ntwo\\nthree\\n")\nprint("a.py:2: see https://sandgate.example/help.")' },
  ])
  await page.locator('.cell').first().waitFor()
  await page.getByRole('button', { name: 'Run all' }).click()
  const plot = page.locator('.picture')
  await plot.locator('img').waitFor()
  await plot.hover()
  const [download] = await Promise.all([page.waitForEvent('download'), plot.getByRole('button', { name: 'Save the picture' }).click()])
  expect(download.suggestedFilename()).toBe('figure.png')
  expect(readFileSync(await download.path()).subarray(1, 4).toString()).toBe('PNG')
  await shot(page, 'plot')
  await plot.getByRole('button', { name: 'Enlarge the picture' }).click()
  const large = page.getByRole('dialog', { name: 'Picture' })
  const width = () => large.locator('img').evaluate((i) => i.getBoundingClientRect().width)
  const before = await width()
  expect(before).toBeGreaterThan(600)
  await page.keyboard.press('+')
  await expect.poll(width).toBeCloseTo(before * 1.25, -1)
  await large.locator('.picture-view').hover()
  await page.mouse.wheel(0, 400)
  await expect.poll(width).toBeLessThan(before)
  await large.getByRole('button', { name: 'Fit to the window' }).click()
  await shot(page, 'plot-large')
  expect(await barriers(page)).toEqual([])
  await page.keyboard.press('Escape')
  await expect.poll(() => large.count()).toBe(0)
  const text = page.locator('.out-text')
  const address = text.getByRole('link', { name: 'https://sandgate.example/help' })
  expect(await address.getAttribute('rel')).toBe('noopener noreferrer')
  await text.getByRole('link', { name: 'a.py:2' }).click()
  await expect.poll(() => page.getByRole('dialog', { name: 'a.py' }).locator('mark').innerText()).toMatch(/^2\s*two/)
  expect(complaints).toEqual([])
  await close()
})
