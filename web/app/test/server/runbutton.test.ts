// Tests the run button on a page of another origin: the chat of examples/.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startChat } from './chat.js'
import { api, barriers, launch, shot, token, url } from './rig.js'

let browser: Browser
let host: Awaited<ReturnType<typeof startChat>>
let chat: string

beforeAll(async () => {
  host = await startChat()
  chat = host.url
  browser = await launch()
})
afterAll(async () => {
  await browser?.close()
  host?.stop()
})

async function open(path = '/', scheme: 'light' | 'dark' = 'light'): Promise<{ page: Page; errors: string[] }> {
  const page = await browser.newPage({ colorScheme: scheme, viewport: { width: 900, height: 1000 } })
  page.setDefaultTimeout(180_000)
  const errors: string[] = []
  page.on('pageerror', (e) => errors.push(String(e)))
  page.on('console', (m) => m.type() === 'error' && errors.push(m.text()))
  await page.goto(chat + path)
  return { page, errors }
}

/** The button below the code block with this text. */
const below = (page: Page, code: string) => page.locator('pre', { hasText: code }).locator('xpath=following-sibling::code-run')
const button = (page: Page, code: string) => below(page, code).locator('.run')

it('runs what streams into a chat: pictures, input, tables, other languages, an endless loop, an error', async () => {
  const { page, errors } = await open()
  const told: string[] = []
  await page.exposeFunction('told', (s: string) => told.push(s))
  await page.evaluate(() => {
    for (const type of ['run', 'done', 'error']) {
      document.addEventListener(`code-run:${type}`, (e) => (window as unknown as { told(s: string): void }).told(`${type} ${(e as CustomEvent<{ status?: string; message?: string }>).detail.status ?? ''}`))
    }
  })
  await button(page, 'f(0)').waitFor() // all messages are there
  expect(await page.locator('code-run').count()).toBe(6)

  await button(page, 'np.sin').click()
  await below(page, 'np.sin').locator('img').waitFor()
  await below(page, 'np.sin').getByText('drawn').waitFor()
  await below(page, 'np.sin').getByText(/^Done · /).waitFor()

  await button(page, 'Your name?').click()
  const field = below(page, 'Your name?').getByLabel('Your name?')
  await field.fill('Ada')
  await field.press('Enter')
  await below(page, 'Your name?').getByText('Hello, Ada!').waitFor()

  await button(page, 'DataFrame').click()
  const frame = below(page, 'DataFrame').locator('iframe')
  await frame.waitFor()
  expect(await frame.getAttribute('sandbox')).toBe('')
  await page.frameLocator('code-run iframe').getByText('Oslo').waitFor()
  // The frame is as high as its table, which has lines between its rows only.
  const table = await page.frameLocator('code-run iframe').locator('table').evaluate((el) => {
    const { scrollHeight, clientHeight } = document.documentElement
    return { hidden: scrollHeight - clientHeight, empty: clientHeight - el.getBoundingClientRect().bottom, border: getComputedStyle(el).borderTopWidth }
  })
  expect(table).toMatchObject({ hidden: 0, border: '0px' })
  expect(table.empty).toBeLessThan(20)

  await page.evaluate(() => {
    const made = Object.assign(document.createElement('code-run'), { textContent: 'open("made.csv", "w").write("a,b")' })
    made.id = 'made'
    document.body.append(made)
  })
  await page.locator('#made .run').click()
  const file = page.locator('#made a', { hasText: 'made.csv' })
  await file.waitFor()
  const [download] = await Promise.all([page.waitForEvent('download'), file.click()])
  expect(download.suggestedFilename()).toBe('made.csv')

  await button(page, 'n ** 2').click()
  await below(page, 'n ** 2').getByText('3 9').waitFor()

  await button(page, 'while true').click()
  await below(page, 'while true').locator('pre').waitFor()
  await button(page, 'while true').click()
  await below(page, 'while true').getByText(/^Stopped · /).waitFor()
  await button(page, 'while true').getByText('Run again').waitFor()
  expect(await below(page, 'while true').locator('.err').count()).toBe(0) // the user knows why

  await button(page, 'f(0)').click()
  await below(page, 'f(0)').locator('.err b').filter({ hasText: 'ZeroDivisionError' }).waitFor()
  await below(page, 'f(0)').locator('summary').click()
  await below(page, 'f(0)').getByText('----> 2').waitFor()
  await below(page, 'f(0)').getByText(/^Failed · /).waitFor()
  expect(told.filter((t) => t.startsWith('run')).length).toBe(7)
  expect(told).toContain('done ok')
  expect(errors).toEqual([])
  await expect.poll(() => barriers(page)).toEqual([]) // without running animations
  await shot(page, 'chat')
  await page.close()
  const left = async () => (await api<{ sessions: unknown[] }>('GET', '/v1/sessions?label=sandgate.run')).sessions.length
  await expect.poll(left).toBeLessThanOrEqual(1) // each session is deleted after its run
})

it('keeps a button and its output when the chat draws a message anew, and removes it with the message', async () => {
  const { page } = await open()
  await button(page, 'n ** 2').click()
  await below(page, 'n ** 2').getByText('3 9').waitFor()
  await page.evaluate(() => {
    for (const m of document.querySelectorAll('.message')) m.innerHTML = m.innerHTML.replace(/<code-run.*?<\/code-run>/g, '')
  })
  await below(page, 'n ** 2').getByText('3 9').waitFor()
  await page.evaluate(() => document.querySelector('#chat')!.replaceChildren())
  await expect.poll(() => page.locator('code-run').count()).toBe(0)
  await page.close()
})

it('runs in a frame where a page allows no script of others', async () => {
  const { page } = await open('/strict', 'dark')
  const frame = page.frameLocator('iframe')
  await frame.getByText('print("in a frame"').waitFor()
  await frame.locator('.run').click()
  await frame.getByText('in a frame 42').waitFor()
  await shot(page, 'embed')
  await page.close()
  const phone = await browser.newContext({ viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true })
  const strict = await phone.newPage()
  await strict.goto(`${chat}/strict`)
  expect(await strict.evaluate(() => innerWidth)).toBe(390)
  await strict.goto(chat)
  await button(strict, 'n ** 2').tap()
  await below(strict, 'n ** 2').getByText('Copy output').waitFor()
  await shot(strict, 'chat-phone')
  const heights = await below(strict, 'n ** 2').locator('.bar button, .bar a').evaluateAll((all) => all.map((el) => el.getBoundingClientRect().height))
  expect(heights).toHaveLength(3)
  expect(Math.max(...heights)).toBeLessThan(40)
  await phone.close()
})

it('opens in a notebook of a new session, where it runs when somebody runs it', async () => {
  const { page } = await open()
  const link = below(page, 'n ** 2').getByRole('link', { name: 'Open in notebook' })
  const address = await link.getAttribute('href')
  expect(address).toMatch(new RegExp(`^${url}/#new=javascript&code=`))
  await page.close()
  const context = await browser.newContext()
  const app = await context.newPage()
  const sessions = async () => (await api<{ sessions: { id: string; language: string }[] }>('GET', '/v1/sessions')).sessions
  const before = new Set((await sessions()).map((s) => s.id))
  // Other tests create sessions, and sessions of runs are deleted at any time.
  const made = async () => (await sessions()).filter((s) => s.language === 'javascript' && !before.has(s.id))
  await app.goto(`${url}/#token=${token}`)
  await app.goto('about:blank')
  await app.goto(address!)
  await app.getByRole('heading', { name: /^Open .*code from another page/ }).waitFor()
  expect(app.url()).toBe(`${url}/`)
  expect(await made()).toEqual([])
  await app.getByRole('button', { name: 'Open in a new session' }).click()
  await app.getByText('console.log(n, n ** 2)').first().waitFor()
  const [fresh] = await made()
  const { channels } = await api<{ channels: { end: number }[] }>('GET', `/v1/sessions/${fresh!.id}/channels`)
  expect(channels.every((c) => c.end === 0)).toBe(true)
  await context.close()
  await api('DELETE', `/v1/sessions/${fresh!.id}`)
})
