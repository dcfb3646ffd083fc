// Tests share links and presence.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot, url, watch } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const output = (page: Page, n: number) => page.locator('.cell').nth(n).locator('.output')
async function run(page: Page, code: string): Promise<void> {
  await page.locator('.cell.active .cm-content').click()
  await page.keyboard.insertText(code)
  await page.keyboard.press('Shift+Enter')
}
/** Creates a share link with the menus of the page. */
async function share(page: Page, menu: string): Promise<string> {
  await page.getByRole('button', { name: menu, exact: true }).click()
  await page.getByRole('menuitem', { name: 'Share for viewing…' }).click()
  await page.getByRole('radio', { name: '1 day' }).check()
  await page.getByRole('button', { name: 'Create link' }).click()
  const field = page.getByRole('textbox', { name: 'Link for viewing' })
  await field.waitFor()
  return field.inputValue()
}
/** Opens a link in a browser without credentials. */
async function visit(link: string, o: object = {}) {
  const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 800 }, ...o })
  const page = await context.newPage()
  const complaints = watch(page)
  await page.goto(link)
  return { page, context, complaints }
}

it('shows a notebook live to who has its link, and lets nothing be changed', async () => {
  const s = await session()
  const { page, context, complaints } = await open(browser, `/s/${s.id}`)
  await page.locator('.cell.active .cm-content').waitFor()
  await run(page, 'x = 41\nprint("first", x)')
  await output(page, 0).getByText('first 41').waitFor()
  await run(page, 'for i in range(200): print("tick", i)')
  await page.locator('.cell').nth(1).and(page.locator('[data-state="ok"]')).waitFor()
  await page.getByText('Saved', { exact: true }).waitFor()
  const link = await share(page, 'Notebook')
  expect(link).toMatch(new RegExp(`^${url}/s/${s.id}#view=sgv_[\\w-]+$`))
  await expect.poll(() => barriers(page)).toEqual([]) // without running animations
  await shot(page, 'share-link')
  await page.getByRole('button', { name: 'Done' }).click()

  const guest = await visit(link)
  expect(guest.page.url()).not.toContain('view=')
  await output(guest.page, 0).getByText('first 41').waitFor()
  // Output that has ended is shown from its beginning.
  const ticks = output(guest.page, 1).locator('.out-text')
  await ticks.getByText('tick 199').waitFor()
  expect(await ticks.evaluate((el) => [el.scrollTop, el.scrollHeight > el.clientHeight])).toEqual([0, true])
  await guest.page.getByText('Watching', { exact: true }).waitFor()
  for (const name of ['Run all', 'Run this cell', 'Code', 'Variables']) expect(await guest.page.getByRole('button', { name, exact: true }).count(), name).toBe(0)
  // The owner sees that somebody watches, and the viewer sees the running cells live.
  await page.getByText('In this session: 1 viewer.').waitFor({ state: 'attached' })
  await guest.page.getByText('In this session: 1 other can edit.').waitFor({ state: 'attached' })
  await shot(page, 'notebook-watched')
  await run(page, 'import time\nfor i in range(100000):\n    print("live", i, flush=True)\n    time.sleep(0.1)')
  await output(guest.page, 2).getByText('live 3').waitFor()
  await guest.page.locator('.cell').nth(2).locator('.cm-content').getByText('time.sleep').waitFor()
  await shot(guest.page, 'notebook-watching')
  // Keys have no effect.
  await guest.page.locator('.cell').first().locator('.cm-content').click()
  await guest.page.keyboard.type('y = 1')
  await guest.page.keyboard.press('Shift+Enter')
  await guest.page.keyboard.press('Escape')
  for (const key of ['d', 'd', 'b', 'x', 'i', 'i', 'Control+Enter']) await guest.page.keyboard.press(key)
  expect(await guest.page.locator('.cell').first().locator('.cm-content').innerText()).toBe('x = 41\nprint("first", x)')
  await output(guest.page, 2).getByText('live 9').waitFor() // it continues to run
  await page.getByRole('button', { name: 'Stop', exact: true }).first().click()
  await guest.page.locator('.cell[data-state="error"]').waitFor()
  await expect.poll(() => barriers(guest.page)).toEqual([]) // without running animations
  // A reload keeps the link. Other pages cannot use it.
  await guest.page.reload()
  await guest.page.getByText('Watching', { exact: true }).waitFor()
  await guest.page.getByRole('link', { name: 'Sandgate, all sessions' }).click()
  await guest.page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await guest.page.goBack()
  await guest.page.getByText('Watching', { exact: true }).waitFor()
  expect(complaints).toEqual([]) // before the session is deleted, so that saving still works
  await s.end()
  await guest.page.reload()
  await guest.page.getByRole('heading', { name: 'This session has ended' }).waitFor()
  expect(guest.complaints.filter((c) => !c.includes(s.id))).toEqual([])
  await context.close()
  await guest.context.close()
})

it('shows terminals to who has their link, on a phone too, and says when a link has ended', async () => {
  const s = await session()
  const { page, context } = await open(browser, `/s/${s.id}/terminal`)
  await page.getByRole('button', { name: 'Open a terminal' }).click()
  await page.locator('.pane.active .xterm-rows').filter({ hasText: '$' }).waitFor()
  await page.keyboard.type('echo seen-$((6*7))\n')
  await page.locator('.xterm-rows').filter({ hasText: 'seen-42' }).waitFor()
  const link = await share(page, 'Terminal')
  await page.getByRole('button', { name: 'Done' }).click()
  const guest = await visit(link, { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 })
  await guest.page.locator('.xterm-rows').filter({ hasText: 'seen-42' }).waitFor()
  await guest.page.getByText('Watching', { exact: true }).waitFor()
  await page.getByText('In this session: 1 viewer. In this terminal: 1 viewer.').waitFor({ state: 'attached' })
  await shot(page, 'terminal-watched')
  await shot(guest.page, 'terminal-watching-phone')
  await guest.page.locator('.xterm-screen').click()
  await guest.page.keyboard.type('echo not-$((1+1))\n')
  await page.locator('.pane.active .xterm-helper-textarea').focus()
  await page.keyboard.type('echo then-$((2+3))\n')
  await guest.page.locator('.xterm-rows').filter({ hasText: 'then-5' }).waitFor()
  expect(await page.locator('.xterm-rows').innerText()).not.toContain('not-2')
  await guest.page.getByRole('button', { name: 'Terminal', exact: true }).click()
  await guest.page.getByRole('menuitem', { name: 'Find' }).waitFor()
  expect(await guest.page.getByRole('menuitem', { name: /Allow typing|Share|Close/ }).count()).toBe(0)
  // Ending one link does not end others, and its user sees the end at once.
  await page.getByRole('button', { name: 'Terminal', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Share for viewing…' }).click()
  const ending = page.getByRole('button', { name: 'End this link' })
  await ending.waitFor()
  await page.getByRole('button', { name: 'Create link' }).click()
  await expect.poll(() => ending.count()).toBe(2)
  await expect.poll(() => barriers(page)).toEqual([]) // without running animations
  await shot(page, 'share-links')
  const other = await page.getByRole('textbox', { name: 'Link for viewing' }).inputValue()
  await ending.first().click()
  await expect.poll(() => ending.count()).toBe(1)
  await guest.page.getByRole('heading', { name: 'This link has ended' }).waitFor()
  await guest.page.reload()
  await guest.page.getByRole('heading', { name: 'This link has ended' }).waitFor()
  await guest.context.close()
  const second = await visit(other)
  await second.page.locator('.xterm-rows').filter({ hasText: 'then-5' }).waitFor()
  await second.context.close()
  await page.getByRole('button', { name: 'Done' }).click()
  await page.locator('.people').waitFor({ state: 'detached' })
  const late = await visit(`${link.slice(0, -8)}AAAAAAAA`)
  await late.page.getByRole('heading', { name: 'This link has ended' }).waitFor()
  await shot(late.page, 'link-ended')
  await late.context.close()
  await api('DELETE', `/v1/sessions/${s.id}`)
  await context.close()
})
