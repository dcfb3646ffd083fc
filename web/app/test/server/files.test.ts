// Tests files of a session that are opened and edited in the page, in Chromium.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot, token, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFElEQVR4nGP8z8Dwn4GBgYGJAQoAHxcCAr7cR/sAAAAASUVORK5CYII=', 'base64')

async function files(content: Record<string, string | Buffer>, o: Parameters<typeof open>[2] = {}) {
  const s = await session()
  for (const [name, body] of Object.entries(content)) await put(s.id, name, body)
  const opened = await open(browser, `/s/${s.id}`, o)
  await opened.page.locator('.cell.active .cm-content').waitFor()
  await opened.page.getByRole('button', { name: 'Files' }).click()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}
async function put(id: string, name: string, body: string | Buffer): Promise<void> {
  const res = await fetch(`${url}/v1/sessions/${id}/files/${name}`, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body: typeof body === 'string' ? body : new Uint8Array(body) })
  if (!res.ok) throw new Error(`${res.status} ${await res.text()}`)
}
const text = async (id: string, name: string) => (await fetch(`${url}/v1/sessions/${id}/files/${name}`, { headers: { Authorization: `Bearer ${token}` } })).text()
const view = (page: Page, name: string) => page.getByRole('dialog', { name })
async function openFile(page: Page, name: string) {
  await page.locator('.file-list').getByRole('button', { name, exact: true }).click()
  return view(page, name)
}

it('shows a table that is sorted and filtered, a page, a picture, and data that is no text', async () => {
  const { page, complaints, close } = await files({
    'people.csv': `name,age,note\n${Array.from({ length: 300 }, (_, i) => `person ${i},${(i * 7) % 307},"note, ${i}"`).join('\n')}\n`,
    'readme.md': '# Hello\n\n- one\n- two\n', 'dot.png': png, 'data.bin': Buffer.from([1, 0, 2, 255]), 'broken.png': 'no picture',
  })
  const table = await openFile(page, 'people.csv')
  await table.getByText('300 rows, 3 columns').waitFor()
  expect(await table.locator('tbody tr').count()).toBe(200)
  await table.getByRole('button', { name: 'Show 100 more rows' }).click()
  await expect.poll(() => table.locator('tbody tr').count()).toBe(300)
  await table.getByRole('button', { name: 'age' }).click()
  await table.getByRole('button', { name: 'age' }).click()
  await expect.poll(() => table.locator('tbody tr').first().innerText()).toMatch(/^person 263\s+306\s+note, 263$/)
  await table.getByRole('searchbox', { name: 'Filter rows' }).fill('NOTE, 12')
  await table.getByText('11 rows of 300').waitFor()
  await shot(page, 'file-table')
  expect(await barriers(page)).toEqual([])
  await table.getByRole('columnheader', { name: 'name' }).getByRole('button').focus()
  await page.keyboard.press('Escape')
  const md = await openFile(page, 'readme.md')
  await md.getByRole('heading', { name: 'Hello' }).waitFor()
  await shot(page, 'file-page')
  await md.getByRole('button', { name: 'Close' }).click()
  const picture = await openFile(page, 'dot.png')
  await expect.poll(() => picture.locator('img').evaluate((e) => (e as HTMLImageElement).naturalWidth)).toBe(2)
  await picture.getByRole('button', { name: 'Close' }).click()
  const broken = await openFile(page, 'broken.png')
  await broken.getByText('The browser cannot show this file.').waitFor()
  await broken.getByRole('button', { name: 'Close' }).click()
  await (await openFile(page, 'data.bin')).getByText('This is no text that can be shown.').waitFor()
  expect(complaints).toEqual([])
  await close()
})

it('makes and edits a text file, which the cells can use, and loses no change of others', async () => {
  const { page, complaints, id, close } = await files({})
  await page.getByRole('button', { name: 'New file' }).click()
  await page.getByRole('textbox', { name: 'New file' }).fill('helper.py')
  await page.keyboard.press('Enter')
  const file = view(page, 'helper.py')
  await file.locator('.cm-content').click()
  await page.keyboard.insertText('answer = 42')
  await file.getByText('(changed)').waitFor()
  await shot(page, 'file-editor')
  expect(await barriers(page)).toEqual([])
  await page.keyboard.press('Control+s')
  await file.getByText('(changed)').waitFor({ state: 'detached' })
  expect(await text(id, 'helper.py')).toBe('answer = 42')
  // A program changes the file, then this page.
  await put(id, 'helper.py', 'answer = 43')
  await file.locator('.cm-content').click()
  await page.keyboard.press('Control+End')
  await page.keyboard.insertText('\nmine = 1')
  await file.getByRole('button', { name: 'Save' }).click()
  await file.getByText('The file has changed since you opened it.').waitFor()
  expect(await text(id, 'helper.py')).toBe('answer = 43')
  // Escape leaves the editor, then the dialog, which asks first.
  await file.locator('.cm-content').click()
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog', { name: 'Discard the changes to helper.py?' }).getByRole('button', { name: 'Cancel' }).click()
  await file.locator('.cm-content', { hasText: 'mine = 1' }).waitFor()
  await file.getByRole('button', { name: 'Overwrite it' }).click()
  await expect.poll(() => text(id, 'helper.py')).toBe('answer = 42\nmine = 1')
  await file.getByRole('button', { name: 'Close' }).click()
  await file.waitFor({ state: 'detached' })
  await page.locator('.cell.active .cm-content').click()
  await page.keyboard.insertText('import helper; print("answer", helper.answer)')
  await page.keyboard.press('Shift+Enter')
  await page.locator('.output').getByText('answer 42').waitFor()
  expect(complaints.filter((c) => !/40[49]|412/.test(c))).toEqual([])
  await close()
})

it('only shows files to those who watch', async () => {
  const { page, id, close } = await files({ 'a.txt': 'only to read' })
  await page.locator('.file-list').getByText('a.txt').waitFor()
  const link = await api<{ token: string }>('POST', `/v1/sessions/${id}/links`, { expires_seconds: 600 })
  const other = await open(browser, `/s/${id}#view=${link.token}`, { signedIn: false })
  await other.page.getByRole('button', { name: 'Files' }).click()
  const file = await openFile(other.page, 'a.txt')
  await file.locator('.cm-content', { hasText: 'only to read' }).waitFor()
  expect(await file.getByRole('button', { name: 'Save' }).count()).toBe(0)
  expect(await other.page.getByRole('button', { name: 'New file' }).count()).toBe(0)
  await other.context.close()
  await close()
})

it('uploads a folder, and downloads one as an archive', async () => {
  const { page, complaints, id, close } = await files({ 'data/old.txt': 'old' })
  const here = mkdtempSync(join(tmpdir(), 'folder-'))
  mkdirSync(join(here, 'data/deep'), { recursive: true })
  writeFileSync(join(here, 'data/deep/new.txt'), 'new')
  const more = async (item: string) => {
    await page.getByRole('button', { name: 'More for this folder' }).press('Enter')
    await page.getByRole('menuitem', { name: item }).press('Enter')
  }
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), more('Upload a folder…')])
  await chooser.setFiles(join(here, 'data'))
  const asked = page.getByRole('dialog', { name: 'Add to the folder data?' })
  await asked.getByRole('button', { name: 'Add' }).click()
  await expect.poll(() => text(id, 'data/deep/new.txt')).toBe('new')
  expect(await text(id, 'data/old.txt')).toBe('old')
  await page.locator('.file-list').getByRole('button', { name: 'More for data' }).press('Enter')
  await shot(page, 'files-folder')
  expect(await barriers(page)).toEqual([])
  const [archive] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: 'Download' }).press('Enter')])
  expect(archive.suggestedFilename()).toBe('data.zip')
  const zip = readFileSync((await archive.path())!)
  expect(zip.subarray(0, 2).toString()).toBe('PK')
  for (const name of ['data/old.txt', 'data/deep/new.txt']) expect(zip.includes(name), name).toBe(true)
  const [whole] = await Promise.all([page.waitForEvent('download'), more('Download this folder')])
  expect(whole.suggestedFilename()).toBe('home.zip')
  rmSync(here, { recursive: true })
  expect(complaints).toEqual([])
  await close()
})
