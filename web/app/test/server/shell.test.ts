// Tests what terminals know of the shell, in Chromium: its commands, its folder, its servers.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { barriers, launch, open, session, shot, token, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

async function terminal(o: Parameters<typeof open>[2] = {}) {
  const s = await session('bash')
  const opened = await open(browser, `/s/${s.id}/terminal`, o)
  await opened.page.getByRole('button', { name: 'Open a terminal' }).click()
  await opened.page.locator('.xterm-rows', { hasText: '$' }).waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}
const rows = (page: Page) => page.locator('.xterm-rows').innerText()
async function type(page: Page, line: string, answer: string | RegExp): Promise<void> {
  await page.keyboard.type(line)
  await page.keyboard.press('Enter')
  await page.locator('.xterm-rows > div').filter({ hasText: answer }).first().waitFor()
}

it('marks commands with their status, goes from prompt to prompt, and copies the last output', async () => {
  const { page, complaints, close } = await terminal({ permissions: ['clipboard-read', 'clipboard-write'] })
  await type(page, 'true; echo fine', /^fine/)
  await page.locator('.command-mark.ok').waitFor()
  await type(page, 'ls /missing; false', /^ls: cannot access/)
  await expect.poll(() => page.locator('.command-mark.failed').getAttribute('title')).toBe('The command failed with status 1')
  await shot(page, 'terminal-marks')
  expect(await barriers(page)).toEqual([])
  await type(page, 'seq 1 200', /^200\s*$/)
  await type(page, 'echo first; echo second', /^second/)
  await expect.poll(() => page.locator('.command-mark').count()).toBeGreaterThan(0)
  const top = async () => (await rows(page)).split('\n').find((l) => l.trim()) ?? ''
  // Two prompts above the lines in sight is the command that failed.
  await page.keyboard.press('Control+Shift+ArrowUp')
  await expect.poll(top).toMatch(/seq 1 200/)
  await page.keyboard.press('Control+Shift+ArrowUp')
  await expect.poll(top).toMatch(/ls \/missing/)
  await page.keyboard.press('Control+Shift+ArrowDown')
  await expect.poll(top).toMatch(/seq 1 200/)
  await page.getByRole('button', { name: 'Terminal', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Copy the last output' }).click()
  await page.getByText('The output of the last command is in the clipboard').waitFor()
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('first\nsecond')
  // The marks are there after a reload.
  await page.reload()
  await page.locator('.xterm-rows', { hasText: 'second' }).waitFor()
  await page.locator('.command-mark.ok:visible').first().waitFor()
  expect(complaints).toEqual([])
  await close()
})

it('uploads dropped files into the folder of the shell, and types their names', async () => {
  const { page, id, complaints, close } = await terminal()
  await type(page, 'mkdir "my data"; cd "my data"; pwd', /^\/home\/user\/my data/)
  await page.locator('.xterm-rows', { hasText: /my data\$/ }).waitFor()
  const files = await page.evaluateHandle(() => {
    const d = new DataTransfer()
    d.items.add(new File(['a,b\n'], 'two words.csv'))
    d.items.add(new File(['x'], 'plain.txt'))
    return d
  })
  await page.locator('.pane').dispatchEvent('dragover', { dataTransfer: files })
  await page.locator('.pane.over').waitFor()
  await page.locator('.pane').dispatchEvent('drop', { dataTransfer: files })
  await page.locator('.xterm-rows', { hasText: `'two words.csv' plain.txt` }).waitFor()
  await page.getByText(/^2 files are in \/home\/user\/my data$/).waitFor()
  const got = await fetch(`${url}/v1/sessions/${id}/files/my%20data/two%20words.csv`, { headers: { Authorization: `Bearer ${token}` } })
  expect(await got.text()).toBe('a,b\n')
  // A second time, it asks.
  await page.locator('.pane').dispatchEvent('drop', { dataTransfer: files })
  await page.getByRole('dialog', { name: 'Replace 2 files?' }).getByRole('button', { name: 'Cancel' }).click()
  expect(complaints).toEqual([])
  await close()
})

it('offers what a program serves, and opens it', async () => {
  const { page, complaints, close } = await terminal()
  await type(page, 'mkdir site; echo "the served page" >site/index.html; cd site; ls', /^index\.html/)
  await page.keyboard.type('python3 -u -m http.server 8123')
  await page.keyboard.press('Enter')
  const note = page.locator('.note.served')
  await note.getByText('A program serves http://0.0.0.0:8123/').waitFor()
  await shot(page, 'terminal-served')
  expect(await barriers(page)).toEqual([])
  const [preview] = await Promise.all([page.waitForEvent('popup'), note.getByRole('button', { name: 'Open preview' }).click()])
  await preview.getByText('the served page').waitFor()
  expect(new URL(preview.url()).host).toMatch(/^8123-/)
  await note.getByRole('button', { name: 'Dismiss' }).click()
  await note.waitFor({ state: 'detached' })
  expect(complaints).toEqual([])
  await close()
})
