// Tests home, phones, contrast, names for screen readers, and the first paint.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot, url } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const wide = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)

describe('home', () => {
  it('makes a session, lists it with what it is, hibernates, wakes and ends it', async () => {
    const { page, context, complaints } = await open(browser)
    const before = new Set((await api<{ sessions: { id: string }[] }>('GET', '/v1/sessions')).sessions.map((s) => s.id))
    await page.getByRole('button', { name: 'Python', exact: true }).click()
    await page.locator('.cell').waitFor()
    const id = new URL(page.url()).pathname.split('/')[2]!
    expect(before.has(id)).toBe(false)
    await page.getByRole('link', { name: 'Sandgate, all sessions' }).click()
    const row = page.locator('.session', { has: page.locator(`a[href="/s/${id}"]`) })
    await row.locator('.state.running').waitFor()
    const act = async (name: string) => {
      await row.getByRole('button', { name: /^More for/ }).click()
      await page.getByRole('menuitem', { name, exact: true }).click()
    }
    await act('Rename…')
    await page.getByRole('textbox', { name: 'Rename the session' }).fill('my numbers')
    await page.getByRole('button', { name: 'Rename', exact: true }).click()
    await row.getByRole('link', { name: 'my numbers', exact: true }).waitFor()
    await row.locator('.memory', { hasText: /^\d[\d,]* MB$/ }).waitFor()
    // The last output is shown, and reading it resumes no session.
    await api('POST', '/v1/run', { session: id, language: 'python', code: 'print("first")\nprint("\\x1b[31mprinted last\\x1b[0m")' })
    await row.locator('.last-output').getByText('printed last', { exact: true }).waitFor()
    await shot(page, 'home')
    await act('Pause')
    await row.locator('.state.paused').waitFor()
    await act('Resume')
    await row.locator('.state.running').waitFor()
    await act('Hibernate')
    await row.locator('.state.hibernated').waitFor()
    await page.reload()
    await row.locator('.last-output').getByText('printed last', { exact: true }).waitFor()
    await row.locator('.state.hibernated').waitFor()
    await act('Resume')
    await row.locator('.state.running').waitFor()
    await act('Keep awake')
    await row.getByText('kept awake').waitFor()
    await act('Fork')
    const copy = page.locator('.session', { has: page.getByRole('link', { name: 'my numbers (copy)', exact: true }) })
    await page.getByRole('status').getByRole('button', { name: 'Open' }).click() // it is offered for ten seconds
    await page.locator('.cell').first().waitFor()
    const forked = new URL(page.url()).pathname.split('/')[2]
    await page.goto(url)
    await copy.locator('.state.running').waitFor()
    await api('DELETE', `/v1/sessions/${forked}`)
    await act('End session…')
    await page.getByRole('button', { name: 'End session' }).click()
    await row.waitFor({ state: 'detached' })
    expect(complaints).toEqual([])
    await context.close()
  })

  it('makes a template, says why one fails, starts sessions from one, and deletes it', async () => {
    const { page, context, complaints } = await open(browser)
    const form = page.getByRole('dialog', { name: 'New template' })
    const fill = async (name: string, more: () => Promise<void>) => {
      await page.getByRole('button', { name: 'New template' }).click()
      await form.getByLabel('Name', { exact: true }).fill(name)
      await more()
      await form.getByRole('button', { name: 'Build it' }).click()
    }
    await fill('numbers', async () => {
      await form.getByLabel('Description').fill('Has a secret number')
      await form.getByLabel(/^Startup code/).fill('import os\nsecret = int(os.environ["SECRET"]) + 11')
      await form.getByText('Commands, environment, volumes, network').click()
      await form.getByLabel(/^Environment/).fill('no value')
      await form.getByRole('button', { name: 'Build it' }).click()
      await form.getByRole('alert').getByText('“no value” is not of the form NAME=value').waitFor()
      await expect.poll(() => barriers(page), { timeout: 20_000 }).toEqual([]) // without running animations
      await shot(page, 'home-new-template')
      await form.getByLabel(/^Environment/).fill('SECRET=4700')
      await form.getByLabel(/^Volumes/).fill('no volume!')
      await form.getByRole('button', { name: 'Build it' }).click()
      await form.getByRole('alert').getByText('“no volume!” is not a volume').waitFor()
      await form.getByLabel(/^Volumes/).fill('')
      // This server allows no network, and reports that.
      await form.getByText('Packages from an index').click()
      await form.getByLabel(/^Python names/).fill('tinydb')
      expect(await form.getByLabel(/The build may reach/).isChecked()).toBe(true)
      await form.getByRole('button', { name: 'Build it' }).click()
      await form.getByRole('alert').getByText(/egress\.allow/).waitFor()
      await shot(page, 'home-new-template-index')
      await form.getByLabel(/^Python names/).fill('')
      await form.getByLabel(/The build may reach/).uncheck()
    })
    await form.waitFor({ state: 'detached' })
    await page.getByText('Building…').first().waitFor()
    await fill('broken', async () => {
      await form.getByText('Commands, environment, volumes, network').click()
      await form.getByLabel(/^Commands/).fill('echo it goes wrong; exit 3')
    })
    await page.getByText(/^Build failed: /).waitFor({ timeout: 90_000 })
    await page.getByRole('button', { name: 'More for template broken' }).click()
    await page.getByRole('menuitem', { name: 'Build output…' }).click()
    await page.locator('.build-log', { hasText: 'it goes wrong' }).waitFor()
    await shot(page, 'home-build-log')
    await page.getByRole('button', { name: 'Close' }).click()
    const start = page.getByRole('button', { name: /^numbers Has a secret number/ })
    await start.and(page.locator(':enabled')).waitFor({ timeout: 90_000 })
    await shot(page, 'home-templates')
    await start.click({ timeout: 90_000 })
    await page.locator('.cell.active .cm-content').click()
    await page.keyboard.insertText('secret')
    await page.keyboard.press('Shift+Enter')
    await page.locator('.output').getByText('4711').waitFor()
    const id = new URL(page.url()).pathname.split('/')[2]!
    await page.getByRole('link', { name: 'Sandgate, all sessions' }).click()
    await page.locator('.session', { hasText: 'from numbers' }).waitFor()
    await api('DELETE', `/v1/sessions/${id}`)
    await page.getByRole('button', { name: 'More for template numbers' }).click()
    await page.getByRole('menuitem', { name: 'Delete…' }).click()
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await start.waitFor({ state: 'detached' })
    await api('DELETE', '/v1/templates/broken')
    // The page may have requested the session while it was being deleted, and the build got no
    // network.
    expect(complaints.filter((c) => !c.includes(id) && !(c.includes('403') && c.includes('/v1/templates/numbers')))).toEqual([])
    await context.close()
  })

  it('makes a volume, gives it to a session, and deletes it once no session has it', async () => {
    const { page, context, complaints } = await open(browser)
    await page.getByRole('button', { name: 'New volume' }).click()
    await page.getByRole('textbox', { name: 'New volume' }).fill('shelf')
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    const row = page.locator('.volume', { hasText: 'shelf' })
    await row.getByText('in no session').waitFor()
    await page.getByRole('group', { name: 'Volumes of the new session' }).getByRole('button', { name: 'shelf', pressed: true }).waitFor()
    await shot(page, 'home-volumes')
    await page.getByRole('button', { name: 'Bash', exact: true }).click()
    await page.locator('.cell.active .cm-content').click({ timeout: 90_000 })
    await page.keyboard.insertText('echo kept > /volumes/shelf/x; cat /volumes/shelf/x')
    await page.keyboard.press('Shift+Enter')
    await page.locator('.output').getByText('kept').waitFor()
    const id = new URL(page.url()).pathname.split('/')[2]!
    await page.getByRole('link', { name: 'Sandgate, all sessions' }).click()
    await row.getByText('in 1 session').waitFor()
    expect(await row.getByRole('button', { name: 'Delete volume shelf' }).isDisabled()).toBe(true)
    await api('DELETE', `/v1/sessions/${id}`)
    await row.getByText('in no session').waitFor()
    await row.getByRole('button', { name: 'Delete volume shelf' }).click()
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await row.waitFor({ state: 'detached' })
    expect(complaints.filter((c) => !c.includes(id))).toEqual([])
    await context.close()
  })

  it('says at once that the browser is offline, and nothing twice', async () => {
    const own = await session()
    const { page, context } = await open(browser, `/s/${own.id}`)
    await page.locator('.cell').waitFor()
    await page.keyboard.press('Escape')
    for (let i = 0; i < 3; i++) await page.keyboard.press('z')
    await page.locator('.toast').getByText('There is nothing to undo').waitFor()
    expect(await page.locator('.toast').count()).toBe(1)
    await context.setOffline(true)
    await page.getByText('You are offline').waitFor({ timeout: 2000 })
    await shot(page, 'notebook-offline')
    await context.setOffline(false)
    await page.getByText('You are offline').waitFor({ state: 'detached' })
    await context.close()
    await own.end()
  })

  it('paints within a second', async () => {
    const { page, context } = await open(browser)
    const first = () => page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0)
    // A busy machine delays some paint: the best of five counts.
    let best = Infinity
    for (let n = 0; best >= 1000 && n < 5; n++) {
      await page.reload()
      await expect.poll(first).toBeGreaterThan(0)
      best = await first()
    }
    expect(best).toBeLessThan(1000)
    await context.close()
  })
})

describe('in light and in dark', () => {
  it('axe finds nothing, at any width, and nothing is wider than a phone', async () => {
    const s = await session()
    const { page, context } = await open(browser)
    await page.locator('.session').first().waitFor()
    await expect.poll(() => barriers(page), { timeout: 20_000 }).toEqual([]) // without running animations
    await page.goto(`${url}/s/${s.id}`)
    await page.locator('.cell.active .cm-content').waitFor()
    await expect.poll(() => barriers(page), { timeout: 20_000 }).toEqual([]) // without running animations
    await page.locator('.cell.active .cm-content').click()
    await page.keyboard.insertText('import sys\nprint("\\x1b[32mok\\x1b[0m"); print("no", file=sys.stderr)\nx = {"a": 1.5}  # comment\n1/0')
    await page.keyboard.press('Shift+Enter')
    await page.locator('.cell[data-state="error"]').waitFor()
    await page.getByRole('button', { name: 'Variables' }).click()
    await page.getByRole('table', { name: 'Values' }).waitFor()
    await expect.poll(() => barriers(page), { timeout: 20_000 }).toEqual([]) // without running animations
    await page.getByRole('button', { name: 'Files' }).click()
    await page.locator('.side').getByRole('button', { name: 'Close' }).waitFor()
    await expect.poll(() => barriers(page), { timeout: 20_000 }).toEqual([]) // without running animations
    await page.locator('.side').getByRole('button', { name: 'Close' }).click()
    await page.setViewportSize({ width: 360, height: 700 })
    await expect.poll(() => wide(page)).toBeLessThanOrEqual(0)
    await expect.poll(() => barriers(page), { timeout: 20_000 }).toEqual([]) // without running animations
    await shot(page, 'notebook-phone')
    await page.getByRole('link', { name: 'Sandgate, all sessions' }).click()
    await page.locator('.session').first().waitFor()
    await expect.poll(() => wide(page)).toBeLessThanOrEqual(0)
    await expect.poll(() => barriers(page), { timeout: 20_000 }).toEqual([]) // without running animations
    await shot(page, 'home-phone')
    await s.end()
    await page.goto(`${url}/s/${s.id}`)
    await page.getByRole('heading', { name: 'This session has ended' }).waitFor()
    await shot(page, 'gone-phone')
    await expect.poll(() => barriers(page), { timeout: 20_000 }).toEqual([]) // without running animations
    await context.close()
  })
})
