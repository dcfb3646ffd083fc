// Tests code on a phone: the keys above its keyboard.
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { barriers, launch, open, session, shot } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

describe('code on a phone', () => {
  it('has keys that its keyboard lacks, while code is edited', async () => {
    const s = await session()
    const { page, context, complaints } = await open(browser, `/s/${s.id}`, { viewport: { width: 390, height: 600 }, hasTouch: true, isMobile: true })
    const code = page.locator('.cell .cm-content').first()
    await code.tap()
    const bar = page.getByRole('toolbar', { name: 'Keys for code' })
    await bar.waitFor()
    const press = async (...names: string[]) => {
      for (const name of names) await bar.getByRole('button', { name, exact: true }).tap()
    }
    const text = () => code.evaluate((e) => [...e.querySelectorAll('.cm-line')].map((l) => l.textContent).join('\n'))
    await page.keyboard.type('print')
    await press('(', '[')
    // A bracket brings its partner, as on a keyboard, and typing it moves behind the partner.
    expect(await text()).toBe('print([])')
    await page.keyboard.type('4, 5')
    await press(']', 'Left', 'Right')
    await press('[')
    await page.keyboard.type('-1')
    await press(']', ')')
    expect(await text()).toBe('print([4, 5][-1])')
    await press('Undo')
    expect(await text()).not.toBe('print([4, 5][-1])')
    await press('Redo')
    expect(await text()).toBe('print([4, 5][-1])')
    // The editor has kept the focus, and so the phone its keyboard.
    expect(await code.evaluate((e) => e === document.activeElement)).toBe(true)
    await shot(page, 'phone-keys')
    expect(await barriers(page)).toEqual([])
    await press('Run the cell')
    await page.locator('.out-text', { hasText: /^5\s*$/ }).waitFor()
    // The line with the cursor stays above the keys.
    await code.tap()
    await page.keyboard.press('Control+End')
    for (let i = 0; i < 40; i++) await page.keyboard.press('Enter')
    const cursor = await page.locator('.cm-cursor-primary').first().boundingBox()
    const keys = await bar.boundingBox()
    expect(cursor!.y + cursor!.height).toBeLessThanOrEqual(keys!.y)
    await press('Tab: indent or complete')
    expect((await text()).endsWith('\n    ')).toBe(true)
    await press('Outdent')
    expect((await text()).endsWith('\n')).toBe(true)
    await page.keyboard.press('Escape')
    await bar.waitFor({ state: 'detached' })
    expect(complaints).toEqual([])
    await context.close()
    await s.end()
  })

  it('is absent with a mouse', async () => {
    const s = await session('bash')
    const { page, context } = await open(browser, `/s/${s.id}`)
    await page.locator('.cell .cm-content').first().click()
    expect(await page.getByRole('toolbar', { name: 'Keys for code' }).isVisible()).toBe(false)
    await context.close()
    await s.end()
  })
})
