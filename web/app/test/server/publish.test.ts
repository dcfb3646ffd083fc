// Tests a notebook as an app, on paper and as a page of its own, and PDFs, in Chromium.
import { readFileSync } from 'node:fs'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { barriers, launch, open, session, shot, token, url, watch } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

async function put(id: string, name: string, body: string | Uint8Array): Promise<void> {
  const res = await fetch(`${url}/v1/sessions/${id}/files/${name}`, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body: body as BodyInit })
  if (!res.ok) throw new Error(`${res.status} ${await res.text()}`)
}

const show = (data: object) => ({ data, metadata: {}, output_type: 'display_data' })
const report = JSON.stringify({
  cells: [
    { cell_type: 'markdown', id: 'm1', metadata: {}, source: ['# Sales\n\nAll numbers are *made up*.\n\n```python\ntotal = sum(x)  # of all\n```\n'] },
    { cell_type: 'code', id: 'c1', execution_count: 4, metadata: {}, source: ['def total(x):\n    return sum(x)  # of all\n'], outputs: [] },
    { cell_type: 'code', id: 'c2', execution_count: 5, metadata: {}, source: ['print("secret of the code")\n', ...Array.from({ length: 60 }, (_, i) => `line_${i} = ${i}\n`)], outputs: [
      { name: 'stdout', output_type: 'stream', text: Array.from({ length: 80 }, (_, i) => `printed ${i}\n`) },
      show({ 'text/html': '<b id="bold">bold of HTML</b>' }),
    ] },
    { cell_type: 'code', id: 'c3', execution_count: 1, metadata: { vscode: { languageId: 'shellscript' } }, source: ['echo hi'], outputs: [{ name: 'stdout', output_type: 'stream', text: ['the last output\n'] }] },
  ],
  metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' } }, nbformat: 4, nbformat_minor: 5,
})

async function notebook(path = '') {
  const s = await session()
  await put(s.id, 'notebook.ipynb', report)
  const opened = await open(browser, `/s/${s.id}${path}`)
  await opened.page.locator('.markdown h1', { hasText: 'Sales' }).waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}
const choose = async (page: Page, item: string) => {
  await page.getByRole('button', { name: 'Notebook', exact: true }).click()
  await page.getByRole('menuitem', { name: item }).click()
}

it('is shared as an app, with text and output and without code', async () => {
  const { page, complaints, close } = await notebook()
  await choose(page, 'Share for viewing…')
  const dialog = page.getByRole('dialog', { name: 'Share for viewing' })
  await dialog.getByLabel('An app: text and output, with the code hidden').check()
  await dialog.getByRole('button', { name: 'Create link' }).click()
  const link = await dialog.getByLabel('Link for viewing').inputValue()
  expect(link).toMatch(/\?view=app#view=sgv_/)
  await shot(page, 'share-app', ['light'])
  expect(await barriers(page)).toEqual([])
  await dialog.getByLabel('The notebook').check()
  expect(await dialog.getByLabel('Link for viewing').inputValue()).not.toContain('view=app')
  await page.keyboard.press('Escape')
  const guest = await (await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 800 } })).newPage()
  const theirs = watch(guest)
  await guest.goto(link)
  await guest.getByRole('heading', { name: 'Sales' }).waitFor()
  await guest.getByText('printed 3', { exact: false }).first().waitFor()
  await guest.frameLocator('.cells iframe').locator('#bold').waitFor()
  expect(await guest.getByText('secret of the code').isVisible()).toBe(false)
  expect(await guest.locator('.cell:visible').count()).toBe(3)
  expect(await guest.locator('.add-bar, .tools:visible').count()).toBe(0)
  await shot(guest, 'app-view')
  expect(await barriers(guest)).toEqual([])
  await guest.getByRole('button', { name: 'Show code' }).click()
  await guest.getByText('secret of the code').first().waitFor()
  expect(theirs).toEqual([])
  // The owner's keys change nothing that is not shown.
  await choose(page, 'Show or hide the code (app view)')
  await page.locator('.app-view').waitFor()
  await page.locator('.markdown h1').click()
  await page.keyboard.press('x')
  await page.keyboard.press('b')
  expect(await page.locator('.cell').count()).toBe(4)
  await page.getByRole('button', { name: 'Run all', exact: true }).click()
  await page.locator('#cell-c3[data-state="ok"]').waitFor()
  await page.getByText('hi', { exact: true }).waitFor()
  expect(complaints).toEqual([])
  await guest.context().close()
  await close()
})

it('is printed as a whole, in light colours, and the viewer shows the PDF', async () => {
  const { page, id, complaints, close } = await notebook()
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.evaluate(() => Object.assign(window, { print: () => Object.assign(window, { printed: true }) }))
  await choose(page, 'Print or save as PDF…')
  await page.waitForFunction(() => (window as unknown as { printed?: boolean }).printed)
  const pdf = await page.pdf({ format: 'A4', printBackground: true })
  await page.emulateMedia({ colorScheme: 'light' })
  await put(id, 'paper.pdf', pdf)
  await page.getByRole('button', { name: 'Files', exact: true }).click()
  await page.locator('.file-list').getByRole('button', { name: 'paper.pdf', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'paper.pdf' })
  const frame = dialog.frameLocator('iframe[title="Pages of paper.pdf"]')
  await frame.getByText(/^Page 1 of \d$/).waitFor()
  await frame.locator('.textLayer', { hasText: 'Sales' }).waitFor()
  await shot(page, 'file-pdf')
  expect(await barriers(page)).toEqual([])
  // All of the output is on paper, and nothing of the toolbar.
  const pages = frame.locator('.pdf-page')
  const words: string[] = []
  for (let i = 0; i < await pages.count(); i++) {
    await pages.nth(i).scrollIntoViewIfNeeded()
    await pages.nth(i).locator('.textLayer span').first().waitFor()
    words.push(await pages.nth(i).innerText())
  }
  const all = words.join(' ').replace(/\s+/g, ' ')
  for (const s of ['All numbers are', 'secret of the code', 'line_59', 'printed 0', 'printed 79', 'bold of HTML', 'the last output']) expect(all).toContain(s)
  expect(all).not.toMatch(/Run all|Saved|Other language/)
  // The zoom changes, and the keyboard reaches it.
  const size = await frame.locator('.pdf-page').first().evaluate((e) => e.clientWidth)
  await frame.getByRole('button', { name: 'Larger' }).focus()
  await page.keyboard.press('Enter')
  await expect.poll(() => frame.locator('.pdf-page').first().evaluate((e) => e.clientWidth)).toBeGreaterThan(size)
  expect(complaints).toEqual([])
  await close()
})

it('says why a PDF cannot be shown, and gives a hostile one nothing', async () => {
  const { page, id, close } = await notebook()
  await put(id, 'broken.pdf', 'this is no PDF')
  await page.getByRole('button', { name: 'Files', exact: true }).click()
  await page.locator('.file-list').getByRole('button', { name: 'broken.pdf', exact: true }).click()
  const frame = page.getByRole('dialog', { name: 'broken.pdf' }).locator('iframe')
  expect(await frame.getAttribute('sandbox')).toBe('allow-scripts')
  await page.frameLocator('.file-pdf iframe').getByText(/^This file cannot be shown/).waitFor()
  await close()
})

it('is exported as a page that looks like the notebook', async () => {
  const { page, close } = await notebook()
  const colours = (p: Page, keyword: string) => p.locator('span', { hasText: new RegExp(`^${keyword}$`) }).first().evaluate((e) => getComputedStyle(e).color)
  await page.locator('#cell-c1 .cm-content').waitFor()
  const inPage = await colours(page, 'return')
  // Code in text has the same colours.
  await page.locator('.markdown code .code-comment', { hasText: '# of all' }).waitFor()
  await page.getByRole('button', { name: 'Notebook', exact: true }).click()
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: 'Download as page' }).click()])
  const html = readFileSync(await download.path(), 'utf8')
  await page.goto('about:blank')
  await page.setContent(html)
  expect(await colours(page, 'return')).toBe(inPage)
  expect(await page.locator('.count').allInnerTexts()).toEqual(['', '4', '5', '1'])
  expect(await page.locator('.language').allInnerTexts()).toEqual(['Py', 'Py', 'Bash'].map(() => expect.any(String)))
  expect(await page.locator('.markdown .code-comment').innerText()).toBe('# of all')
  await shot(page, 'export-looks')
  await close()
})
