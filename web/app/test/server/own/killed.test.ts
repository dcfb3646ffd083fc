// Kills the node of a server while a notebook is open, in Chromium. The server makes sessions durable.
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot } from '../rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

it('says from which copy a session continues after its server was killed', async () => {
  const s = await session()
  const { page, context } = await open(browser, `/s/${s.id}`)
  const cell = page.locator('.cell.active .cm-content')
  await cell.click()
  await page.keyboard.insertText('x = 41; print("ran")')
  await page.keyboard.press('Shift+Enter')
  await page.locator('.output').getByText('ran', { exact: true }).waitFor()
  await expect.poll(async () => (await api<{ kept_ms?: number }>('GET', `/v1/sessions/${s.id}`)).kept_ms ?? 0).toBeGreaterThan(0)

  process.kill(Number(process.env.SANDGATE_NODE), 'SIGKILL')
  const news = page.locator('.session-news')
  await news.getByText('The server was killed. The session continues from its copy of').waitFor()
  await cell.click()
  await page.keyboard.insertText('print(x + 1)')
  await page.keyboard.press('Shift+Enter')
  await page.locator('.output').getByText('42', { exact: true }).waitFor()
  await shot(page, 'session-news')
  expect(await barriers(page)).toEqual([])
  await page.setViewportSize({ width: 390, height: 844 })
  await shot(page, 'session-news-phone')
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true)
  await news.getByRole('button', { name: 'Close' }).click()
  await news.waitFor({ state: 'detached' })
  await context.close()
  await s.end()
})
