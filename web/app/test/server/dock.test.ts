// Tests files and terminals beside the notebook in Chromium, and that the page remembers them.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot, token, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const put = async (id: string, name: string, body: string) => fetch(`${url}/v1/sessions/${id}/files/${name}`, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body })
const text = async (id: string, name: string) => (await fetch(`${url}/v1/sessions/${id}/files/${name}`, { headers: { Authorization: `Bearer ${token}` } })).text()
const dock = (page: Page) => page.getByRole('complementary', { name: 'Beside the notebook' })
const command = async (page: Page, name: string) => {
  await page.keyboard.press('Control+Shift+P')
  await page.getByRole('combobox').fill(name)
  await page.keyboard.press('Enter')
}

it('shows a file and a terminal beside the notebook, and remembers them with the pane', async () => {
  const s = await session()
  await put(s.id, 'helper.py', 'answer = 41\n')
  const { page, context, complaints } = await open(browser, `/s/${s.id}`, { viewport: { width: 1600, height: 900 } })
  await page.locator('.cell.active .cm-content').waitFor()
  await page.getByRole('button', { name: 'Files', exact: true }).click()
  await page.locator('.file-list').getByRole('button', { name: 'helper.py', exact: true }).click()
  await page.getByRole('dialog', { name: 'helper.py' }).getByRole('button', { name: 'Show beside the notebook' }).click()
  const editor = dock(page).locator('.cm-content')
  await editor.click()
  await page.keyboard.press('Control+End')
  await page.keyboard.insertText('answer += 1\n')
  // Keys of the notebook do not act here, and Ctrl-S saves the file.
  await page.keyboard.press('Control+s')
  await expect.poll(() => text(s.id, 'helper.py')).toBe('answer = 41\nanswer += 1\n')
  await page.locator('.cell.active .cm-content').click()
  await page.keyboard.insertText('import helper; print("answer", helper.answer)')
  await page.keyboard.press('Control+Enter')
  await page.locator('.output').getByText('answer 42').waitFor()
  await command(page, 'terminal beside')
  await dock(page).locator('.xterm-rows', { hasText: '$' }).waitFor()
  await page.keyboard.type('echo shared; cat helper.py')
  await page.keyboard.press('Enter')
  await dock(page).locator('.xterm-rows', { hasText: 'answer += 1' }).waitFor()
  expect(await page.locator('.cell').count()).toBe(1)
  expect(await page.locator('.cell .cm-content').innerText()).not.toContain('shared')
  // The line between both moves with keys and with the pointer.
  const divider = dock(page).getByRole('separator')
  await divider.focus()
  await page.keyboard.press('ArrowRight')
  expect(await divider.getAttribute('aria-valuenow')).toBe('43')
  const at = (await divider.boundingBox())!
  await page.mouse.move(at.x + 3, at.y + 300)
  await page.mouse.down()
  await page.mouse.move(at.x - 157, at.y + 300, { steps: 4 })
  await page.mouse.up()
  expect(Number(await divider.getAttribute('aria-valuenow'))).toBeGreaterThan(50)
  await shot(page, 'dock-side')
  expect(await barriers(page)).toEqual([])
  // All of it is there after a reload, and the notebook has the focus.
  await page.reload()
  await page.getByRole('heading', { name: 'Files' }).waitFor()
  await dock(page).locator('.xterm-rows', { hasText: 'shared' }).waitFor()
  expect(Number(await divider.getAttribute('aria-valuenow'))).toBeGreaterThan(50)
  expect(await page.evaluate(() => document.activeElement?.closest('.dock'))).toBe(null)
  await dock(page).getByRole('tab', { name: 'helper.py' }).click()
  await dock(page).locator('.cm-content', { hasText: 'answer += 1' }).waitFor()
  await dock(page).getByRole('button', { name: 'Move below' }).click()
  await expect.poll(() => dock(page).evaluate((e) => Math.round(e.getBoundingClientRect().bottom - innerHeight))).toBe(0)
  await shot(page, 'dock-below')
  expect(await barriers(page)).toEqual([])
  await dock(page).getByRole('button', { name: 'Hide' }).click()
  await page.getByRole('button', { name: 'Show files and terminals beside the notebook' }).click()
  // A file with changes is not closed without a question.
  await dock(page).locator('.cm-content').click()
  await page.keyboard.insertText('x')
  await dock(page).getByRole('button', { name: 'Close helper.py' }).click()
  await page.getByRole('dialog', { name: 'Discard the changes to helper.py?' }).getByRole('button', { name: 'Discard' }).click()
  await dock(page).getByRole('tab', { name: 'helper.py' }).waitFor({ state: 'detached' })
  await dock(page).getByRole('button', { name: /^Close / }).click()
  await dock(page).waitFor({ state: 'detached' })
  await expect.poll(async () => (await api<{ channels: { kind: string; state: string }[] }>('GET', `/v1/sessions/${s.id}/channels`)).channels.filter((c) => c.kind === 'terminal' && c.state !== 'exited').length).toBe(0)
  expect(complaints).toEqual([])
  await context.close()
  await s.end()
})
