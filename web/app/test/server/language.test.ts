// Tests the pages in another language, and from right to left.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { german } from '../../src/language/de/index.js'
import { barriers, launch, open, session, shot } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

/** English texts whose German differs, and that are whole sentences or labels. */
const english = Object.entries(german.texts)
  .map(([text, entry]) => [text.split('|', 1)[0]!, entry])
  .filter(([text, entry]) => text !== (typeof entry === 'string' ? entry : 'other'))
  .map(([text]) => text as string)
  .filter((text) => !text.includes('{'))

/** The English texts that a page shows, or has for screen readers. */
function left(page: Page): Promise<string[]> {
  return page.evaluate((known) => {
    const texts = new Set(known)
    const found = new Set<string>()
    const see = (s: string | null, at: Element) => {
      if (s && texts.has(s.trim()) && !at.closest('.cm-editor, .xterm, .out-text, .out-error pre, code, [translate=no]')) found.add(`${s.trim()} in ${at.localName}.${at.className}`)
    }
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    while (walker.nextNode()) see(walker.currentNode.nodeValue, walker.currentNode.parentElement!)
    for (const e of document.querySelectorAll('*')) for (const a of ['aria-label', 'title', 'placeholder', 'aria-description']) see(e.getAttribute(a), e)
    return [...found]
  }, english)
}

describe('in German', () => {
  it('shows each page without English texts', async () => {
    const s = await session()
    const { page, context, complaints } = await open(browser, `/s/${s.id}`, { locale: 'de-DE' })
    await page.locator('.cell .cm-content').first().click()
    await page.keyboard.type('1/0')
    await page.keyboard.press('Shift+Enter')
    await page.locator('.out-error').waitFor()
    expect(await page.evaluate(() => document.documentElement.lang)).toBe('de')
    expect(await left(page)).toEqual([])
    await shot(page, 'german-notebook')
    // The palette finds a command by its German name.
    await page.keyboard.press('Escape')
    await page.keyboard.press('Control+Shift+P')
    await page.getByRole('combobox').fill('Einstell')
    await page.getByRole('option', { name: german.texts.Settings as string }).first().waitFor()
    expect(await left(page)).toEqual([])
    await page.keyboard.press('Escape')
    for (const [path, ready] of [['/', '.session'], [`/s/${s.id}/terminal`, 'main h1, .terminals, main button.primary'], ['/console', 'main h1']] as const) {
      await page.goto(new URL(path, page.url()).href)
      await page.locator(ready).first().waitFor()
      expect(await left(page), path).toEqual([])
      expect(await barriers(page, ['light']), path).toEqual([])
      await shot(page, `german${path.replaceAll(/\W/g, '-')}`)
    }
    expect(complaints).toEqual([])
    await context.close()
    await s.end()
  })

  it('follows the setting at once, and keeps it', async () => {
    const { page, context, complaints } = await open(browser)
    const de = german.texts as Record<string, string>
    const set = async (settings: string, all: string, label: string, tag: string) => {
      await page.getByRole('banner').getByRole('button', { name: settings }).click()
      await page.getByRole('menuitem', { name: all }).click()
      await page.getByLabel(label).selectOption(tag)
    }
    await set('Settings', 'All settings…', 'Language', 'de')
    await page.getByRole('heading', { name: de.Settings! }).waitFor()
    await page.reload()
    await page.getByRole('banner').waitFor()
    expect(await page.evaluate(() => document.documentElement.lang)).toBe('de')
    await set(de.Settings!, de['All settings…']!, de.Language!, 'en')
    await page.getByRole('heading', { name: 'Settings' }).waitFor()
    expect(complaints).toEqual([])
    await context.close()
  })
})

describe('from right to left', () => {
  it('mirrors the layout, and not code', async () => {
    const s = await session()
    for (const viewport of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
      const { page, context, complaints } = await open(browser, `/s/${s.id}`, { viewport })
      await page.locator('.cell .cm-content').first().waitFor()
      const mirror = () => page.evaluate(() => {
        document.documentElement.dir = 'rtl'
      })
      const wide = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      const start = () => page.evaluate(() => document.querySelector('.bar a')!.getBoundingClientRect().left > innerWidth / 2)
      await mirror()
      expect(await start()).toBe(true)
      expect(await wide()).toBeLessThanOrEqual(0)
      expect(await page.locator('.cm-content').first().evaluate((e) => getComputedStyle(e).direction)).toBe('ltr')
      await shot(page, `rtl-notebook-${viewport.width}`)
      for (const [path, ready] of [['/', '.session'], [`/s/${s.id}/terminal`, 'main h1, .terminals, main button.primary'], ['/console', 'main h1']] as const) {
        await page.goto(new URL(path, page.url()).href)
        await page.locator(ready).first().waitFor()
        await mirror()
        expect(await start(), path).toBe(true)
        expect(await wide(), path).toBeLessThanOrEqual(0)
        await shot(page, `rtl${path.replaceAll(/\W/g, '-')}-${viewport.width}`)
      }
      expect(complaints).toEqual([])
      await context.close()
    }
    await s.end()
  })
})
