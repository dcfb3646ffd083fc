// Tests of the findings of a review of the application: see docs/internals/web-review.md.
import { readFileSync } from 'node:fs'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const state = (page: Page, n: number, s: string) => page.locator(`.cells > .cell:nth-of-type(${n + 1})[data-state="${s}"]`).waitFor()
const code = (page: Page, n: number) => page.locator(`.cells > .cell:nth-of-type(${n + 1}) .cm-content`)

async function run(page: Page, source: string, language?: string): Promise<void> {
  const cell = page.locator('.cell.active')
  await cell.locator('.cm-content').click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText(source)
  if (language) {
    await cell.getByRole('button', { name: /^Language/ }).click()
    await page.getByRole('menuitemradio', { name: language }).click()
    await cell.locator('.cm-content').click()
  }
  await page.keyboard.press('Shift+Enter')
}

/** Opens a session with a notebook of these cells. */
async function notebook(cells: { type: string; source: string; language?: string }[] = [], path = 'notebook.ipynb') {
  const s = await session()
  const json = cells.map(({ type, source, language }, i) => ({
    cell_type: type, id: `cell-${i}`, metadata: language ? { vscode: { languageId: language } } : {}, source, ...(type === 'code' ? { outputs: [], execution_count: null } : {}),
  }))
  if (cells.length) await api('PUT', `/v1/sessions/${s.id}/files/${path}`, { cells: json, metadata: {}, nbformat: 4, nbformat_minor: 5 })
  const opened = await open(browser, `/s/${s.id}`)
  await opened.page.locator('.cell').first().waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}

it('shows task lists, footnotes, a few elements of HTML and diagrams in text, also in a page that is exported', async () => {
  const { page, complaints, close } = await notebook([
    { type: 'markdown', source: '# Plan\n\n[to the data](#The-data)\n\n- [x] load\n- [ ] plot\n\nH<sub>2</sub>O[^1]\n\n<details><summary>More</summary>\n\n*hidden*\n\n</details>\n\n[^1]: Water.' },
    { type: 'markdown', source: '```mermaid\ngraph LR\n  A[Start] --> B{Ready?}\n  B -->|yes| C[End]\n```\n\n```mermaid\nnot a diagram\n```' },
    ...Array.from({ length: 30 }, (_, i) => ({ type: 'markdown', source: `Text ${i}` })),
    { type: 'markdown', source: '## The data' },
  ])
  const first = page.locator('.cell').first()
  await first.getByRole('checkbox', { name: 'To do' }).waitFor()
  expect(await first.getByRole('checkbox', { name: 'Done' }).isChecked()).toBe(true)
  await first.locator('sub', { hasText: '2' }).waitFor()
  await first.getByText('More').click()
  await first.locator('em', { hasText: 'hidden' }).waitFor()
  await first.getByRole('link', { name: 'Footnote 1' }).click()
  expect(await page.evaluate(() => document.activeElement?.textContent)).toContain('Water.')
  const picture = page.locator('.cell').nth(1).getByRole('img', { name: /^Diagram: graph LR/ })
  await expect.poll(() => picture.evaluate((i: HTMLImageElement) => i.naturalWidth)).toBeGreaterThan(100)
  await page.getByText('The diagram was not drawn:').waitFor()
  await page.getByText('not a diagram').first().waitFor()
  await shot(page, 'text-cells')
  expect(await barriers(page)).toEqual([])
  await first.getByRole('link', { name: 'to the data' }).click()
  await expect.poll(() => page.getByRole('heading', { name: 'The data' }).evaluate((h) => h === document.activeElement && h.getBoundingClientRect().bottom < innerHeight)).toBe(true)
  expect(page.url()).not.toContain('#')
  await page.getByRole('button', { name: 'Notebook', exact: true }).click()
  const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: 'Download as page (.html)' }).click()])
  const html = readFileSync(await saved.path(), 'utf8')
  expect(html).toContain('data:image/svg+xml,')
  expect(html).toMatch(/<input type="checkbox"[^>]*checked=/)
  expect(complaints).toEqual([])
  await close()
})

it('hides the description of a function when its cell has run', async () => {
  const { page, complaints, close } = await notebook()
  await code(page, 0).click()
  await page.keyboard.insertText('pass')
  await page.keyboard.press('Shift+Enter')
  await state(page, 0, 'ok')
  await code(page, 1).click()
  await page.keyboard.type('print(')
  await page.locator('.cm-signature').waitFor()
  await page.keyboard.type('1')
  await page.keyboard.press('Shift+Enter')
  await state(page, 1, 'ok')
  await page.locator('.cm-signature').waitFor({ state: 'detached' })
  // The answer of a kernel that was busy comes when the call is complete.
  await code(page, 2).click()
  await page.keyboard.type('print(2)')
  await page.keyboard.press('Shift+Enter')
  await state(page, 2, 'ok')
  await page.waitForLoadState('networkidle')
  await code(page, 3).click()
  expect(await page.locator('.cm-signature').count()).toBe(0)
  expect(complaints).toEqual([])
  await close()
})

it('keeps what is typed while a new notebook and its editor are being loaded', async () => {
  const s = await session()
  const { page, context, complaints } = await open(browser, '/')
  await page.getByRole('heading', { level: 1 }).waitFor()
  let go = () => {}
  const held = new Promise<void>((resolve) => (go = resolve))
  await page.route('**/assets/editor-*.js', async (route) => {
    await held
    await route.continue()
  })
  await page.goto(`${page.url().replace(/#.*/, '')}s/${s.id}`)
  await page.locator('.cell.active').waitFor()
  await expect.poll(() => page.evaluate(() => document.activeElement?.matches('.cell.active'))).toBe(true)
  await page.keyboard.type('x = 41')
  await page.keyboard.press('Enter')
  await page.keyboard.type('ddx + 12')
  await page.keyboard.press('Backspace')
  expect(await page.locator('.cell').count()).toBe(1)
  go()
  await page.locator('.cell.active .cm-content').waitFor()
  await expect.poll(() => page.evaluate(() => !!document.activeElement?.closest('.cm-editor'))).toBe(true)
  await page.keyboard.type('!')
  expect(await page.locator('.cell.active .cm-content').innerText()).toBe('x = 41\nddx + 1!')
  expect(complaints).toEqual([])
  await context.close()
  await s.end()
})

it('renames the session and the notebook where their names are, and lists the other notebooks', async () => {
  const { page, complaints, id, close } = await notebook([{ type: 'markdown', source: '# Sales of May\n\nText' }])
  await page.locator('.save-state.saved').waitFor()
  await page.getByRole('button', { name: 'Python session' }).click()
  const name = `review-${Date.now()}`
  await page.getByRole('dialog').getByRole('textbox').fill(name)
  await page.getByRole('button', { name: 'Rename', exact: true }).click()
  await page.getByRole('button', { name, exact: true }).waitFor()
  await expect.poll(() => page.title()).toContain(name)
  expect((await api<{ name: string }>('GET', `/v1/sessions/${id}`)).name).toBe(name)

  await api('PUT', `/v1/sessions/${id}/files/other.ipynb`, { cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 })
  await page.getByRole('button', { name: 'Notebook notebook.ipynb' }).click()
  await page.getByRole('menuitem', { name: 'other.ipynb' }).waitFor()
  await shot(page, 'notebooks-menu')
  expect(await barriers(page)).toEqual([])
  await page.getByRole('menuitem', { name: 'Rename this notebook…' }).click()
  await page.getByRole('dialog').getByRole('textbox').fill('may')
  await page.getByRole('button', { name: 'Rename', exact: true }).click()
  await page.getByRole('button', { name: 'Notebook may.ipynb' }).waitFor()
  expect(page.url()).toContain('file=may.ipynb')
  await page.locator('.rendered').dblclick()
  await page.locator('.cell.active .cm-content').click()
  await page.keyboard.type('more ')
  await page.locator('.save-state.saved').waitFor()
  await expect.poll(() => api<{ cells: { source: string[] }[] }>('GET', `/v1/sessions/${id}/files/may.ipynb`).then((n) => n.cells[0]!.source.join(''))).toContain('more ')
  const { entries } = await api<{ entries: { path: string }[] }>('GET', `/v1/sessions/${id}/files/?list`)
  expect(entries.map((e) => e.path.split('/').pop()).filter((f) => f!.endsWith('.ipynb')).sort()).toEqual(['may.ipynb', 'other.ipynb'])
  expect(complaints).toEqual([])
  await close()
})

it('names sessions on the page of all sessions after the content of their notebooks', async () => {
  const { page, complaints, id, close } = await notebook([{ type: 'markdown', source: `# Title of ${Date.now()}` }])
  const title = await page.locator('.rendered h1').innerText()
  await page.goto(page.url().replace(/\/s\/.*/, '/'))
  const row = page.locator('.session', { has: page.getByRole('link', { name: title, exact: true }) })
  await row.waitFor()
  expect(await row.locator('.id').getAttribute('title')).toBe(id)
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: /^Command/ }).fill(title)
  await page.getByRole('option', { name: title }).waitFor()
  expect(complaints).toEqual([])
  await close()
})

it('interrupts one kernel of several, and shows the memory of the session', async () => {
  const { page, complaints, close } = await notebook()
  await run(page, 'import time\nfor i in range(10_000): time.sleep(0.1)')
  await state(page, 0, 'running')
  await run(page, 'while true; do sleep 1; done', 'Bash')
  await state(page, 1, 'running')
  await page.getByRole('button', { name: /^Kernels:/ }).click()
  const bash = page.getByRole('group', { name: 'Bash' })
  await page.locator('.menu meter').waitFor()
  await shot(page, 'kernel-menu')
  expect(await barriers(page)).toEqual([])
  await bash.getByRole('menuitem', { name: 'Interrupt' }).click()
  await state(page, 1, 'error')
  await state(page, 0, 'running')
  await page.getByRole('button', { name: /^Kernels:/ }).click()
  await page.getByRole('group', { name: 'Python' }).getByRole('menuitem', { name: 'Interrupt' }).click()
  await state(page, 0, 'error')
  expect(complaints).toEqual([])
  await close()
})

it('numbers the cells of several languages in the order in which they ran, also after a reload', async () => {
  const { page, complaints, close } = await notebook()
  await run(page, '1')
  await state(page, 0, 'ok')
  await run(page, '2', 'JavaScript and TypeScript')
  await state(page, 1, 'ok')
  await run(page, '3', 'Python')
  await state(page, 2, 'ok')
  const numbers = () => page.locator('.cell .count').allInnerTexts()
  expect(await numbers()).toEqual(['1', '2', '3', ''])
  await page.locator('.save-state.saved').waitFor()
  await page.reload()
  await page.locator('.cell').nth(3).waitFor()
  await expect.poll(numbers).toEqual(['1', '2', '3', ''])
  await code(page, 1).click()
  await page.keyboard.press('Control+Enter')
  await expect.poll(numbers).toEqual(['1', '4', '3', ''])
  expect(complaints).toEqual([])
  await close()
})

it('shows the whole value of a variable: a table, or text with its memory', async () => {
  const { page, complaints, close } = await notebook()
  await run(page, 'import pandas as pd\nframe = pd.DataFrame({"n": range(1000)})\nwords = ["a long word"] * 100')
  await state(page, 0, 'ok')
  await page.getByRole('button', { name: 'Variables' }).click()
  const pane = page.getByRole('complementary', { name: 'Variables' })
  await pane.getByRole('button', { name: 'frame' }).click()
  await pane.getByRole('region', { name: 'Value of frame' }).getByText('1,000 rows, 1 column').waitFor()
  await shot(page, 'variable-table')
  expect(await barriers(page)).toEqual([])
  await pane.getByRole('button', { name: 'words' }).click()
  const value = pane.getByRole('region', { name: 'Value of words' })
  await value.getByText("'a long word',").waitFor()
  await value.getByText(/of memory$/).waitFor()
  expect(await pane.getByRole('region', { name: 'Value of frame' }).count()).toBe(0)
  await pane.getByRole('button', { name: 'words' }).click()
  await value.waitFor({ state: 'detached' })
  expect(complaints).toEqual([])
  await close()
})

it('has room for the bar on a tablet, for filters on a phone, and for the name at the cursor of another user', async () => {
  const { page, complaints, id, close } = await notebook()
  await page.setViewportSize({ width: 820, height: 1180 })
  const boxes = () => page.locator('.bar').evaluate((bar) => {
    const seen = [...bar.querySelectorAll('button, a')].filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect())
    return seen.filter((a, i) => seen.some((b, j) => j > i && a.left < b.right - 1 && b.left < a.right - 1)).length
  })
  expect(await boxes()).toBe(0)
  expect(await page.getByRole('button', { name: 'Notebook notebook.ipynb' }).evaluate((b) => b.querySelector('span')!.scrollWidth <= b.querySelector('span')!.clientWidth)).toBe(true)
  await shot(page, 'bar-tablet')

  const other = await open(browser, `/s/${id}`)
  await other.page.locator('.cell.active .cm-content').click()
  await other.page.keyboard.type('ab')
  const name = page.locator('.cm-ySelectionInfo')
  await name.waitFor()
  await expect.poll(() => name.evaluate((e) => e.getBoundingClientRect().top >= e.closest('.source')!.getBoundingClientRect().top)).toBe(true)
  await other.context.close()

  const others = [await session(), await session(), await session()]
  const phone = await open(browser, '/', { viewport: { width: 390, height: 844 } })
  const search = phone.page.getByRole('searchbox', { name: 'Search your sessions' })
  await search.waitFor()
  const [field, choice, select] = await Promise.all([search, phone.page.getByLabel('State'), phone.page.getByRole('button', { name: 'Select', exact: true })].map((l) => l.boundingBox()))
  expect(field!.width).toBeGreaterThan(340)
  expect(Math.abs(choice!.y - select!.y)).toBeLessThan(10)
  expect([...complaints, ...phone.complaints, ...other.complaints]).toEqual([])
  await phone.context.close()
  await Promise.all(others.map((s) => s.end()))
  await close()
})
