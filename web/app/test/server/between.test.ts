// Tests cells that move between two notebooks of a page, and copies of notebooks, in Chromium.
import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { barriers, launch, open, session, shot, token, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const headers = { Authorization: `Bearer ${token}` }
const code = (id: string, source: string, printed?: string) => ({ cell_type: 'code', id, metadata: {}, source: [source], outputs: printed ? [{ output_type: 'stream', name: 'stdout', text: [printed] }] : [], execution_count: null })
const text = (id: string, source: string) => ({ cell_type: 'markdown', id, metadata: {}, source: [source] })
const format = (cells: object[]) => JSON.stringify({ cells, metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' } }, nbformat: 4, nbformat_minor: 5 })
const put = async (id: string, name: string, body: string) => fetch(`${url}/v1/sessions/${id}/files/${name}`, { method: 'PUT', headers, body })

interface File {
  cells: { id: string; source: string[]; outputs?: { text: string[] }[]; metadata: { sandgate?: unknown } }[]
}
const read = async (id: string, name: string) => (await fetch(`${url}/v1/sessions/${id}/files/${name}`, { headers })).json() as Promise<File>
const sources = async (id: string, name: string) => (await read(id, name)).cells.map((c) => c.source.join(''))

const idsOf = (box: Locator) => box.locator('.cell').evaluateAll((all) => all.map((e) => (e as HTMLElement).dataset.cell!))
const shown = (box: Locator) => box.locator('.cell').evaluateAll((all) => all.map((e) => (e.querySelector('.cm-content') ?? e.querySelector('.source-static') ?? e.querySelector('.rendered'))?.textContent?.trim() ?? ''))
const mainOf = (page: Page) => page.getByRole('main')
const otherOf = (page: Page) => page.getByRole('region', { name: 'Notebook other.ipynb' })
const beside = async (page: Page, name: string) => {
  await page.getByRole('button', { name: 'Files', exact: true }).click()
  await page.getByRole('button', { name: `More for ${name}` }).click()
  await page.getByRole('menuitem', { name: 'Show beside the notebook' }).click()
  await page.getByRole('button', { name: 'Files', exact: true }).click()
  await page.getByRole('region', { name: `Notebook ${name}` }).locator('.cell').first().waitFor()
}

/** Opens two notebooks side by side. */
async function both(first: object[], second: object[]) {
  const s = await session()
  await put(s.id, 'notebook.ipynb', format(first))
  await put(s.id, 'other.ipynb', format(second))
  const opened = await open(browser, `/s/${s.id}`, { viewport: { width: 1600, height: 900 } })
  await opened.page.locator('.cell.active').waitFor()
  await beside(opened.page, 'other.ipynb')
  return { ...opened, ...s, main: mainOf(opened.page), other: otherOf(opened.page), async close() { await opened.context.close(); await s.end() } }
}

/** Clicks on the grip of a cell. */
const grip = async (cell: Locator, o: { modifiers?: 'Shift'[] } = {}) => {
  const { width, height } = (await cell.locator('.gutter').boundingBox())!
  await cell.locator('.gutter').click({ position: { x: width / 2, y: height - 6 }, ...o })
}

/** Drags the grip of a cell to the upper edge of another one, or to its lower edge. */
async function drag(page: Page, cell: Locator, to: Locator, o: { after?: boolean; copy?: boolean } = {}): Promise<void> {
  await page.bringToFront() // no other page can be dragged in
  await cell.hover()
  const from = (await cell.locator('.gutter').boundingBox())!
  await page.mouse.move(from.x + from.width / 2, from.y + from.height - 6)
  await page.mouse.down()
  if (o.copy) await page.keyboard.down('Control')
  const at = (await to.boundingBox())!
  const y = at.y + (o.after ? at.height - 3 : 3)
  await page.mouse.move(at.x + 90, y, { steps: 6 })
  let x = at.x + 90
  // The first move into an element only enters it.
  await expect.poll(async () => {
    await page.mouse.move(x++, y)
    return page.locator(`[data-drop="${o.after ? 'after' : 'before'}"]`).count()
  }).toBe(1)
  await page.mouse.up()
  if (o.copy) await page.keyboard.up('Control')
}

it('moves cells between two notebooks that have equal ids, with output, and undoes it in both', async () => {
  const { page, context, complaints, id, main, other, close } = await both(
    [code('one', 'a = 1'), text('two', '# Two'), code('three', 'print("th" + "ree")')],
    [code('one', 'b = 2'), text('two', '# Other'), code('three', 'c = 3')],
  )
  // Somebody else has the second notebook open.
  const friend = await open(browser, `/s/${id}?file=other.ipynb`)
  await friend.page.locator('.cell').nth(2).waitFor()
  await main.getByRole('button', { name: 'Run this cell' }).last().click()
  await main.locator('.output').getByText('three').waitFor()
  await drag(page, main.locator('.cell').nth(2), other.locator('.cell').nth(1))
  await expect.poll(() => idsOf(main)).toEqual(['one', 'two'])
  await expect.poll(() => shown(other)).toEqual(['b = 2', 'print("th" + "ree")', 'Other', 'c = 3'])
  const ids = await idsOf(other)
  expect(ids).toEqual(['one', expect.stringMatching(/^[0-9a-f]{8}$/), 'two', 'three'])
  await other.locator('.output').getByText('three').waitFor()
  await expect.poll(() => shown(mainOf(friend.page))).toEqual(['b = 2', 'print("th" + "ree")', 'Other', 'c = 3'])
  await mainOf(friend.page).locator('.output').getByText('three').waitFor()
  await expect.poll(() => sources(id, 'other.ipynb')).toEqual(['b = 2', 'print("th" + "ree")', '# Other', 'c = 3'])
  await expect.poll(() => sources(id, 'notebook.ipynb')).toEqual(['a = 1', '# Two'])
  expect((await read(id, 'other.ipynb')).cells[1]!.outputs![0]!.text).toEqual(['three\n'])
  await shot(page, 'cell-moved')
  expect(await barriers(page)).toEqual([])
  // The second notebook has the keys. Undo returns the cell with later changes.
  await expect.poll(() => page.evaluate(() => document.activeElement?.closest('.dock-notebook') !== null)).toBe(true)
  await other.locator('.cell').nth(1).locator('.cm-content').click()
  await page.keyboard.press('Control+End')
  await page.keyboard.insertText('  # edited')
  await page.keyboard.press('Escape')
  await page.keyboard.press('z')
  await expect.poll(() => shown(main)).toEqual(['a = 1', 'Two', 'print("th" + "ree")  # edited'])
  await expect.poll(() => shown(other)).toEqual(['b = 2', 'Other', 'c = 3'])
  await main.locator('.output').getByText('three').waitFor()
  await expect.poll(() => sources(id, 'notebook.ipynb')).toEqual(['a = 1', '# Two', 'print("th" + "ree")  # edited'])
  await page.keyboard.press('Shift+Z')
  await expect.poll(() => idsOf(main)).toEqual(['one', 'two'])
  await expect.poll(() => idsOf(other)).toEqual(ids)
  // Undo in the first notebook does the same, although another step came later in the second one.
  await grip(other.locator('.cell').last())
  await page.keyboard.press('b')
  await expect.poll(() => other.locator('.cell').count()).toBe(5)
  await grip(main.locator('.cell').first())
  await page.keyboard.press('z')
  await expect.poll(() => shown(main)).toEqual(['a = 1', 'Two', 'print("th" + "ree")  # edited'])
  await expect.poll(() => shown(other)).toEqual(['b = 2', 'Other', 'c = 3', ''])
  await expect.poll(() => sources(id, 'other.ipynb')).toEqual(['b = 2', '# Other', 'c = 3', ''])
  await expect.poll(() => shown(mainOf(friend.page))).toEqual(['b = 2', 'Other', 'c = 3', ''])
  for (const c of [...complaints, ...friend.complaints]) expect(c).toContain('409')
  await friend.context.close()
  await context.close()
  await close()
})

it('keeps a moved cell if the notebook that it came from is closed', async () => {
  const { page, complaints, main, other, close } = await both([code('one', 'a = 1')], [code('x', 'x = 1'), code('y', 'y = 2')])
  await drag(page, other.locator('.cell').nth(1), main.locator('.cell').nth(0), { after: true })
  await expect.poll(() => shown(main)).toEqual(['a = 1', 'y = 2'])
  await page.getByRole('button', { name: 'Close other.ipynb' }).click()
  await other.waitFor({ state: 'detached' })
  await grip(main.locator('.cell').first())
  await page.keyboard.press('z')
  await page.getByText('The cells stay here: other.ipynb is closed').waitFor()
  expect(await shown(main)).toEqual(['a = 1', 'y = 2'])
  expect(complaints).toEqual([])
  await close()
})

it('copies cells with Ctrl, and moves several by menus, keys and the clipboard', async () => {
  const { page, complaints, id, main, other, close } = await both(
    [code('one', 'a = 1', 'printed\n'), code('two', 'b = 2'), code('three', 'c = 3')],
    [code('x', 'x = 1')],
  )
  await drag(page, main.locator('.cell').first(), other.locator('.cell').first(), { copy: true })
  await expect.poll(() => shown(other)).toEqual(['a = 1', 'x = 1'])
  expect(await shown(main)).toEqual(['a = 1', 'b = 2', 'c = 3'])
  await other.locator('.output').getByText('printed').waitFor()
  // A selection of several cells is dragged as one.
  await grip(main.locator('.cell').nth(1))
  await grip(main.locator('.cell').nth(2), { modifiers: ['Shift'] })
  await drag(page, main.locator('.cell').nth(2), other.locator('.cell').nth(1), { after: true })
  await expect.poll(() => shown(other)).toEqual(['a = 1', 'x = 1', 'b = 2', 'c = 3'])
  await expect.poll(() => shown(main)).toEqual(['a = 1'])
  // The palette offers the other notebook. The cells go below the active cell there.
  await grip(other.locator('.cell').nth(2))
  await page.keyboard.press('Shift+J')
  await page.keyboard.press('Control+Shift+P')
  await page.getByRole('combobox').fill('move cells to another')
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Move cells to' })
  await dialog.getByRole('button', { name: 'notebook.ipynb' }).waitFor()
  await shot(page, 'move-cells')
  expect(await barriers(page)).toEqual([])
  await expect.poll(() => dialog.getByRole('button', { name: 'notebook.ipynb' }).evaluate((e) => e === document.activeElement)).toBe(true)
  await page.keyboard.press('Enter')
  await expect.poll(() => shown(main)).toEqual(['a = 1', 'b = 2', 'c = 3'])
  await expect.poll(() => shown(other)).toEqual(['a = 1', 'x = 1'])
  // The menu of a cell copies to a notebook that is made for it.
  await grip(main.locator('.cell').first())
  await main.getByRole('button', { name: 'More for this cell' }).click()
  await page.getByRole('menuitem', { name: 'Copy cells to another notebook…' }).click()
  await page.getByRole('dialog', { name: 'Copy cells to' }).getByRole('button', { name: 'New notebook…' }).click()
  await page.getByRole('textbox', { name: 'New notebook' }).fill('third')
  await page.keyboard.press('Enter')
  const third = page.getByRole('region', { name: 'Notebook third.ipynb' })
  await third.locator('.output').getByText('printed').waitFor()
  expect(await shown(third)).toContain('a = 1')
  await expect.poll(async () => (await sources(id, 'third.ipynb')).includes('a = 1')).toBe(true)
  // Cells that are cut in one notebook can be pasted in another.
  await grip(main.locator('.cell').nth(1))
  await page.keyboard.press('x')
  await expect.poll(() => shown(main)).toEqual(['a = 1', 'c = 3'])
  await grip(third.locator('.cell').first())
  await page.keyboard.press('v')
  await expect.poll(async () => (await shown(third)).includes('b = 2')).toBe(true)
  expect(complaints).toEqual([])
  await close()
})

it('keeps a notebook and its copy apart, and gives copies ids of their own', async () => {
  const cells = [text('head', '# Head'), ...Array.from({ length: 12 }, (_, i) => code(`c${i}`, `value_${i} = ${i}; print("cell", ${i})`))]
  const { page, complaints, id, main, other, close } = await both(cells, cells)
  // Both have the same ids. No two elements of the page do.
  expect(await idsOf(other)).toEqual(await idsOf(main))
  expect(await page.evaluate(() => {
    const all = [...document.querySelectorAll('[id]')].map((e) => e.id)
    return all.filter((x, i) => all.indexOf(x) !== i)
  })).toEqual([])
  // An execution, a comment and the presence of somebody are in one of them.
  await other.getByRole('button', { name: 'Run this cell' }).first().click()
  await other.locator('.output').getByText('cell 0').waitFor()
  expect(await main.locator('.output').first().innerText()).toBe('')
  await other.locator('.cell').nth(1).locator('.cm-content').click()
  await other.getByRole('button', { name: 'More for this cell' }).click()
  await page.getByRole('menuitem', { name: 'Comment on the cell' }).click()
  await page.getByLabel('Comment', { exact: true }).fill('only here')
  await page.keyboard.press('Control+Enter')
  await other.getByText('only here').waitFor()
  const friend = await open(browser, `/s/${id}`)
  await friend.page.locator('.cell').nth(1).locator('.source').click()
  await main.locator('.cell').nth(1).locator('.people-in-cell').waitFor()
  expect(await other.locator('.people-in-cell').count()).toBe(0)
  expect(await main.locator('.comment').count() + await friend.page.locator('.comment').count()).toBe(0)
  await friend.context.close()
  await expect.poll(async () => (await read(id, 'other.ipynb')).cells.filter((c) => c.metadata.sandgate).length).toBe(1)
  expect((await read(id, 'notebook.ipynb')).cells.filter((c) => c.metadata.sandgate).length).toBe(0)
  // The search of the second notebook shows its own cells.
  await page.keyboard.press('Escape')
  await other.locator('.cell').first().locator('.rendered').click()
  await page.keyboard.press('f')
  await page.getByRole('searchbox', { name: 'Search' }).fill('value_11')
  await page.keyboard.press('Enter')
  await expect.poll(() => other.locator('.cell').last().evaluate((e) => {
    const { top } = e.getBoundingClientRect()
    return top > 0 && top < innerHeight
  })).toBe(true)
  expect(await page.evaluate(() => scrollY)).toBe(0)
  await page.getByRole('button', { name: 'Close', exact: true }).click()
  // Text that is typed last and not saved returns to the notebook in which it was typed.
  await page.evaluate(() => localStorage.setItem('sandgate.set.autosave', 'false'))
  await page.reload()
  await other.locator('.cell').nth(2).locator('.source').click()
  await other.locator('.cell').nth(2).locator('.cm-content').click()
  await page.keyboard.press('Control+Home')
  await page.keyboard.insertText('# draft\n')
  await page.reload()
  await expect.poll(async () => (await shown(other))[2]).toContain('# draft')
  expect((await shown(main)).join()).not.toContain('draft')
  await page.evaluate(() => localStorage.removeItem('sandgate.set.autosave'))
  await page.reload()
  // A copy that the page makes has other ids, and the same content.
  await other.locator('.cell').first().waitFor()
  await page.getByRole('button', { name: 'Notebook', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Make a copy of the notebook' }).click()
  await page.getByRole('region', { name: 'Notebook notebook-copy.ipynb' }).locator('.cell').nth(12).waitFor()
  const [original, copy] = [await read(id, 'notebook.ipynb'), await read(id, 'notebook-copy.ipynb')]
  expect(copy.cells.map((c) => c.source)).toEqual(original.cells.map((c) => c.source))
  const ids = original.cells.map((c) => c.id)
  expect(copy.cells.filter((c) => ids.includes(c.id))).toEqual([])
  await page.getByRole('button', { name: 'Files', exact: true }).click()
  await page.getByRole('button', { name: 'More for other.ipynb' }).click()
  await page.getByRole('menuitem', { name: 'Duplicate' }).click()
  await page.locator('.file-list').getByRole('button', { name: 'other-copy.ipynb', exact: true }).waitFor()
  expect((await read(id, 'other-copy.ipynb')).cells.filter((c) => ids.includes(c.id))).toEqual([])
  // So has one from this computer.
  await page.locator('input[accept*=ipynb]').setInputFiles({ name: 'notebook.ipynb', mimeType: 'application/json', buffer: Buffer.from(format(cells)) })
  await page.waitForURL(/\?file=notebook-2\.ipynb$/)
  await main.locator('.cell').nth(12).waitFor()
  expect((await idsOf(main)).filter((x) => ids.includes(x))).toEqual([])
  expect(complaints).toEqual([])
  await close()
})
