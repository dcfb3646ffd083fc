// Compares pages with their references in this folder, or writes the references.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { api, token, url, watch } from '../rig.js'
import { compare, draw, type Difference } from './compare.js'
import { describe, format, parse } from './describe.js'
import { writePNG } from './png.js'

const folder = import.meta.dirname
const update = process.env.VISUAL === 'update'
/** The folder of pictures that show differences. */
const out = process.env.VISUAL_OUT ?? join(folder, '../../../../../bin/visual')
/** How long a page may take until it looks like its reference, in milliseconds. */
const patience = 60_000

/** A browser that draws alike on all machines: one font, no hinting, no colour profile. */
export async function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell',
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--force-color-profile=srgb', '--font-render-hinting=none', '--disable-lcd-text'],
    env: { ...process.env, FONTCONFIG_FILE: join(folder, 'fonts.conf') } as Record<string, string>,
  })
}

export const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } }

/** Opens a page as the owner of a tenant, or as the operator. */
export async function open(browser: Browser, at: string, o: BrowserContextOptions & { secret?: string } = {}): Promise<Page> {
  const { secret = token, ...rest } = o
  const context = await browser.newContext({ reducedMotion: 'reduce', serviceWorkers: 'block', viewport: sizes.desktop, locale: 'en-US', timezoneId: 'UTC', ...rest })
  const page = await context.newPage()
  watch(page)
  await page.goto(at.startsWith('http') ? at : `${url}${at}#token=${secret}`)
  return page
}

/** Makes a tenant, which has nothing of other tests, and returns its key. */
export async function tenant(name: string): Promise<{ secret: string; end: () => Promise<void> }> {
  const { key, secret } = await api<{ key: { id: string }; secret: string }>('POST', '/v1/keys', { tenant: name, role: 'owner' })
  return { secret, end: async () => void (await api('DELETE', `/v1/keys/${key.id}`)) }
}

/** Texts that differ from one time to the next, by a selector, and what takes their place. */
export type Fixed = Record<string, string>

/** Replaces texts in the page, those in shadow roots too. */
async function fix(page: Page, texts: Fixed): Promise<void> {
  await page.evaluate((all) => {
    const roots = (root: ParentNode): ParentNode[] => [root, ...[...root.querySelectorAll('*')].flatMap((e) => (e.shadowRoot ? roots(e.shadowRoot) : []))]
    for (const root of roots(document)) {
      for (const [selector, text] of Object.entries(all)) {
        for (const e of root.querySelectorAll(selector)) {
          const walk = document.createTreeWalker(e, NodeFilter.SHOW_TEXT)
          for (let n = walk.nextNode(), first = true; n; n = walk.nextNode(), first = false) (n as Text).data = first ? text : ''
        }
      }
      for (const e of root.querySelectorAll('meter')) {
        e.value = 0.4
        e.setAttribute('aria-label', 'memory')
      }
    }
  }, texts)
}

/** Returns how a page differs from its reference now. */
export async function differences(page: Page, name: string, texts: Fixed = {}): Promise<{ found: Difference[]; picture: () => Buffer }> {
  await fix(page, texts)
  const { description, picture } = await describe(page)
  const found = compare(parse(readFileSync(join(folder, `${name}.txt`), 'utf8')), description)
  return { found, picture: () => writePNG(draw(picture, found)) }
}

/**
 * Waits until a page looks like its reference. If it does not, it stores a picture of the differences,
 * and throws an error that lists them. With VISUAL=update it writes the reference.
 */
export async function check(page: Page, name: string, texts: Fixed = {}): Promise<void> {
  await page.evaluate(() => document.fonts.ready)
  if (update || !existsSync(join(folder, `${name}.txt`))) {
    if (!update) throw new Error(`${name} has no reference: write it with VISUAL=update`)
    writeFileSync(join(folder, `${name}.txt`), await settled(page, texts))
    return
  }
  const end = Date.now() + patience
  for (;;) {
    const { found, picture } = await differences(page, name, texts)
    if (found.length === 0) return
    if (Date.now() < end) {
      await page.waitForTimeout(300)
      continue
    }
    mkdirSync(out, { recursive: true })
    const file = join(out, `${name}.png`)
    writeFileSync(file, picture())
    const lines = found.slice(0, 30).map((d) => `  ${d.text}`)
    throw new Error(`${name} does not look like its reference, in ${found.length} places:\n${lines.join('\n')}\nThe picture ${file} shows them: blue is the reference. If the page is right, write the references with VISUAL=update.`)
  }
}

/** Returns the description once it has been the same for two seconds. */
async function settled(page: Page, texts: Fixed): Promise<string> {
  let before = ''
  for (let same = 0; same < 4;) {
    await fix(page, texts)
    const now = format((await describe(page)).description)
    same = now === before ? same + 1 : 0
    before = now
    await page.waitForTimeout(500)
  }
  return before
}
