// Tests buttons between cells, cells that are dragged, and a notebook that is saved by hand, in
// Chromium.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { barriers, launch, open, session, shot, token, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

async function notebook(cells: object[] = []) {
  const s = await session()
  if (cells.length) {
    const body = JSON.stringify({ cells, metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' } }, nbformat: 4, nbformat_minor: 5 })
    await fetch(`${url}/v1/sessions/${s.id}/files/notebook.ipynb`, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body })
  }
  const opened = await open(browser, `/s/${s.id}`)
  await opened.page.locator('.cell.active').waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}
const code = (id: string, source: string) => ({ cell_type: 'code', id, metadata: {}, source: [source], outputs: [], execution_count: null })
const text = (id: string, source: string) => ({ cell_type: 'markdown', id, metadata: {}, source: [source] })
const order = (page: Page) => page.locator('.cell').evaluateAll((all) => all.map((e) => e.id.slice(5)))

it('inserts cells between two others, and moves cells of both kinds by their grip', async () => {
  const { page, complaints, close } = await notebook([code('one', 'a = 1'), text('two', '# Two'), code('three', 'c = 3')])
  await page.locator('#cell-three').waitFor()
  // A button appears between two cells, under the pointer.
  const gap = page.locator('#cell-three > .insert')
  expect(await gap.getByRole('button').count()).toBe(0)
  await gap.hover()
  await shot(page, 'insert-between', ['light'])
  expect(await barriers(page)).toEqual([])
  await gap.hover()
  await page.getByRole('button', { name: 'Insert code before cell 3' }).click()
  await expect.poll(() => order(page)).toEqual(['one', 'two', expect.any(String), 'three'])
  // It can be written in at once.
  await page.keyboard.insertText('b = 2')
  await page.locator('.cell.active .cm-content', { hasText: 'b = 2' }).waitFor()
  await page.locator('#cell-one > .insert').hover()
  await page.getByRole('button', { name: 'Insert text before cell 1' }).click()
  await expect.poll(() => page.locator('.cell').first().getAttribute('class')).toMatch(/markdown/)
  await page.keyboard.press('Escape')
  const before = await order(page)
  // The grip of a page of text moves it after the last cell; a line shows where it will be.
  await page.locator('#cell-two').hover()
  const from = (await page.locator('#cell-two > .gutter').boundingBox())!
  const to = (await page.locator('#cell-three').boundingBox())!
  await page.mouse.move(from.x + from.width / 2, from.y + from.height - 8)
  await page.mouse.down()
  await page.mouse.move(to.x + 80, to.y + 4, { steps: 5 })
  await page.locator('#cell-three[data-drop="before"]').waitFor()
  await page.mouse.move(to.x + 80, to.y + to.height - 4, { steps: 5 })
  await page.locator('#cell-three[data-drop="after"]').waitFor()
  await shot(page, 'drag-cell', ['light'])
  await page.mouse.up()
  await expect.poll(() => order(page)).toEqual([before[0], before[1], before[3], before[4], before[2]])
  await expect.poll(() => page.locator('[data-drop]').count()).toBe(0)
  expect(complaints).toEqual([])
  await close()
})

it('saves only on demand if the setting says so, and loses nothing by a reload', async () => {
  const { page, id, complaints, close } = await notebook([code('one', 'a = 1')])
  const stored = async () => (await fetch(`${url}/v1/sessions/${id}/files/notebook.ipynb`, { headers: { Authorization: `Bearer ${token}` } })).text()
  await page.getByRole('button', { name: 'Settings' }).click()
  await page.getByRole('menuitem', { name: 'All settings…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Settings' })
  await dialog.getByLabel('Save the notebook automatically').uncheck()
  await shot(page, 'settings-all', ['light'])
  expect(await barriers(page)).toEqual([])
  await page.keyboard.press('Escape')
  await page.locator('#cell-one .cm-content').click()
  await page.keyboard.press('Control+End')
  await page.keyboard.insertText('; print("mine")')
  await page.getByText('Unsaved changes').waitFor()
  await page.keyboard.press('Control+Enter')
  await page.locator('#cell-one[data-state="ok"]').waitFor()
  expect(await stored()).not.toContain('mine')
  await page.reload()
  await page.locator('#cell-one .cm-content', { hasText: 'mine' }).waitFor()
  await page.getByText('Unsaved changes').waitFor()
  expect(await stored()).not.toContain('mine')
  await page.keyboard.press('Control+s')
  await page.locator('.save-state.saved').waitFor()
  expect(await stored()).toContain('mine')
  expect(complaints).toEqual([])
  await close()
})
