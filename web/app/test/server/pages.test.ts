// Home, phones, contrast and names for screen readers, the first paint.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { api, launch, open, session } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

async function violations(page: Page): Promise<string[]> {
  // The page's own policy lets no script be added; a debugger may.
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('Page.setBypassCSP', { enabled: true })
  await page.evaluate(axe)
  return page.evaluate(async () => {
    const run = (window as unknown as { axe: { run: (c: unknown, o: unknown) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe.run
    const r = await run({ exclude: [['iframe']] }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], iframes: false })
    return r.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 160)} ${n.failureSummary.slice(0, 200)}`).join(' | ')}`)
  })
}

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
      await page.getByRole('menuitem', { name }).click()
    }
    await act('Hibernate')
    await row.locator('.state.hibernated').waitFor()
    await act('Wake')
    await row.locator('.state.running').waitFor()
    await act('End session')
    await page.getByRole('button', { name: 'End session' }).click()
    await row.waitFor({ state: 'detached' })
    expect(complaints).toEqual([])
    await context.close()
  })

  it('paints within a second', async () => {
    const { page, context } = await open(browser)
    await page.reload()
    const first = () => page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0)
    await expect.poll(first).toBeGreaterThan(0)
    expect(await first()).toBeLessThan(1000)
    await context.close()
  })
})

describe.each(['light', 'dark'] as const)('in %s', (colorScheme) => {
  it('axe finds nothing, at any width, and nothing is wider than a phone', async () => {
    const s = await session()
    const { page, context } = await open(browser, '/', { colorScheme })
    await page.locator('.session').first().waitFor()
    expect(await violations(page)).toEqual([])
    await page.goto(`${new URL(page.url()).origin}/s/${s.id}`)
    await page.locator('.cell.active .cm-content').click()
    await page.keyboard.insertText('import sys\nprint("\\x1b[32mok\\x1b[0m"); print("no", file=sys.stderr)\nx = {"a": 1.5}  # comment\n1/0')
    await page.keyboard.press('Shift+Enter')
    await page.locator('.cell[data-state="error"]').waitFor()
    await page.getByRole('button', { name: 'Variables' }).click()
    await page.locator('.variables').waitFor()
    expect(await violations(page)).toEqual([])
    await page.locator('.pane').getByRole('button', { name: 'Close' }).click()
    await page.setViewportSize({ width: 360, height: 700 })
    expect(await wide(page)).toBeLessThanOrEqual(0)
    expect(await violations(page)).toEqual([])
    await page.getByRole('link', { name: 'Sandgate, all sessions' }).click()
    await page.locator('.session').first().waitFor()
    expect(await wide(page)).toBeLessThanOrEqual(0)
    await context.close()
    await s.end()
  })
})
