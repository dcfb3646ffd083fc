import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Cutter } from '../../../../client/typescript/test/rig.js'
import { api, barriers, launch, open, session, shot, token, url } from './rig.js'

let browser: Browser
let made: { id: string; end: () => Promise<void> }
beforeAll(async () => {
  browser = await launch()
  made = await session()
})
afterAll(async () => {
  await made?.end()
  await browser?.close()
})

const screen = (page: Page) => page.locator('.pane.active .xterm-rows')
/** Waits until the focused terminal shows the text. */
const shows = (page: Page, text: string | RegExp) => screen(page).filter({ hasText: text }).waitFor()
/** Opens a terminal in a new tab, and waits for its prompt. */
const add = async (page: Page) => {
  const button = page.getByRole('button', { name: 'New terminal' })
  await button.waitFor()
  const before = await page.getByRole('tab').count()
  await button.click()
  await page.getByRole('tab').nth(before).and(page.locator('[aria-selected=true]')).waitFor()
  await page.locator('.split:not([hidden]) .pane.active .xterm-rows').filter({ hasText: /[$#]/ }).waitFor()
}
/** Returns the number of columns that the program in the focused terminal sees. */
let asked = 0
const columns = async (page: Page) => {
  await run(page, `echo at-${++asked}-$(tput cols)-$((1)).`)
  const found = new RegExp(`at-${asked}-(\\d+)-1\\.`)
  await shows(page, found)
  return Number(found.exec(await screen(page).innerText())![1])
}
const run = async (page: Page, line: string) => {
  await page.keyboard.type(line)
  await page.keyboard.press('Enter')
}
const terminals = async (id = made.id) => (await api<{ channels: { id: string; kind: string; end: number }[] }>('GET', `/v1/sessions/${id}/channels`)).channels.filter((c) => c.kind === 'terminal')

it('opens nothing by a link, then types, splits, ends, and shows all of it after a reload', async () => {
  const { page, context, complaints } = await open(browser, `/s/${made.id}/terminal`)
  await page.getByRole('heading', { name: 'No terminal is open' }).waitFor()
  expect(await terminals()).toEqual([])
  await expect.poll(() => barriers(page)).toEqual([]) // without running animations
  await shot(page, 'terminal-empty')
  await page.getByRole('button', { name: 'Open a terminal' }).click()
  await shows(page, /[$#]/)
  await run(page, 'echo six-$((6*7)); printf "\\033]2;my title\\007\\033[31mred\\033[0m\\n"')
  await shows(page, 'six-42')
  await page.getByRole('tab', { name: 'my title' }).waitFor()
  await page.keyboard.press('Control+Shift+E')
  await expect.poll(() => page.locator('.pane').count()).toBe(2)
  await shows(page, /[$#]/)
  await run(page, 'echo second-$((2*4)); stty size')
  await shows(page, 'second-8')
  await shot(page, 'terminal-split')
  await page.reload()
  await page.locator('.xterm-rows').filter({ hasText: 'six-42' }).waitFor()
  await page.locator('.xterm-rows').filter({ hasText: 'second-8' }).waitFor()
  await page.locator('.pane').filter({ hasText: 'second-8' }).locator('.xterm-screen').click()
  await run(page, 'exit 3')
  await page.getByText('Ended with status 3.').waitFor()
  await expect.poll(() => barriers(page)).toEqual([]) // without running animations
  await shot(page, 'terminal-ended')
  await page.locator('.ended').getByRole('button', { name: 'Close' }).click()
  await expect.poll(() => page.locator('.pane').count()).toBe(1)
  expect(complaints).toEqual([])
  await context.close()
})

it('opens from the notebook, splits in both directions, and shows reversed text', async () => {
  const own = await session()
  const { page, context, complaints } = await open(browser, `/s/${own.id}`)
  await page.getByRole('link', { name: 'Terminal' }).click()
  await shows(page, /[$#]/)
  await page.getByRole('button', { name: 'Terminal', exact: true }).click()
  const menu = await page.getByRole('menu', { name: 'Terminal' }).innerText()
  expect(menu).toContain('Ctrl+⇧+X')
  expect(menu).not.toMatch(/⇧\+[TWN]/) // browsers keep these
  await page.getByRole('menuitem', { name: 'Split right' }).click()
  await expect.poll(() => page.locator('.pane').count()).toBe(2)
  await shows(page, /[$#]/)
  await page.keyboard.press('Control+Shift+O')
  await expect.poll(() => page.locator('.pane').count()).toBe(3)
  await shows(page, /[$#]/)
  const [left, above, below] = await Promise.all([0, 1, 2].map(async (i) => (await page.locator('.pane').nth(i).boundingBox())!))
  expect(left!.height).toBeCloseTo(above!.height + below!.height, 0)
  expect([below!.x, below!.width]).toEqual([above!.x, above!.width])
  expect(below!.y).toBeCloseTo(above!.y + above!.height, 0)
  await run(page, `printf '\\033[7m%s\\033[0m\\n' reversed-$((1+1))`)
  const bar = page.locator('.pane.active .xterm-rows span', { hasText: /^reversed-2$/ })
  await bar.waitFor()
  await shot(page, 'terminal-splits')
  // The terminal draws the row again at any time.
  await expect.poll(() => bar.evaluate((el) => getComputedStyle(el).color === getComputedStyle(document.querySelector('.panes')!).backgroundColor
    && getComputedStyle(el).backgroundColor === getComputedStyle(document.body).color)).toBe(true)
  await page.keyboard.press('Control+Shift+X')
  await expect.poll(() => page.locator('.pane').count()).toBe(2)
  await page.keyboard.press('Control+Shift+Enter')
  await expect.poll(() => page.getByRole('tab').count()).toBe(2)
  expect(complaints).toEqual([])
  await context.close()
  await own.end()
})

it('has the Command key on macOS', async () => {
  const context = await browser.newContext({ reducedMotion: 'reduce' })
  await context.addInitScript(() => Object.defineProperty(navigator, 'platform', { value: 'MacIntel' }))
  const page = await context.newPage()
  await page.goto(`${url}/s/${made.id}/terminal#token=${token}`)
  await add(page)
  await page.keyboard.press('Meta+Shift+E')
  await expect.poll(() => page.locator('.split:not([hidden]) .pane').count()).toBe(2)
  await page.getByRole('button', { name: 'Terminal', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Split right ⌘⇧E' }).waitFor()
  await context.close()
})

it('obeys Ctrl-C in a flood, whose output ends', async () => {
  const { page, context } = await open(browser, `/s/${made.id}/terminal`)
  await add(page)
  await run(page, 'yes flooding all of the screen')
  await shows(page, /(flooding all of the screen\s*){3}/)
  await shot(page, 'terminal-flood')
  await page.keyboard.press('Control+C')
  await run(page, 'echo over-$((1+1))')
  await shows(page, 'over-2')
  // A page that is far slower than the program skips most of the output, and shows a note.
  const cdp = await context.newCDPSession(page)
  await cdp.send('Emulation.setCPUThrottlingRate', { rate: 20 })
  await run(page, 'yes $(printf %0200d 7)') // so long that everything since the note fits into the scrollback
  await shows(page, /0{80}/)
  await expect.poll(async () => (await terminals()).at(-1)!.end).toBeGreaterThan(16 << 20)
  await page.keyboard.press('Control+C')
  await run(page, 'echo done-$((1+1))')
  await screen(page).filter({ hasText: 'done-2' }).waitFor()
  await cdp.send('Emulation.setCPUThrottlingRate', { rate: 1 })
  await page.keyboard.press('Control+Shift+F')
  await page.getByRole('searchbox').fill('left out to keep up')
  await shows(page, /[\d,]{6,} bytes left out to keep up/)
  await context.close()
})

it('asks before several lines are pasted, and lets none out of their brackets', async () => {
  const { page, context } = await open(browser, `/s/${made.id}/terminal`)
  await add(page)
  const paste = (text: string) => page.evaluate((text) => {
    const d = new DataTransfer()
    d.setData('text/plain', text)
    document.activeElement!.dispatchEvent(new ClipboardEvent('paste', { clipboardData: d, bubbles: true, cancelable: true }))
  }, text)
  await run(page, 'echo ready-$((1+1)); cat -v') // it does not mark pastes, unlike the shell
  await shows(page, 'ready-2')
  await paste('one\ntwo\n')
  await page.getByRole('heading', { name: 'Paste 2 lines?' }).waitFor()
  await shot(page, 'terminal-paste')
  await page.getByRole('button', { name: 'Cancel' }).click()
  await paste('harm\x1b[201~less')
  await shows(page, 'harm␛[201~less')
  expect(await screen(page).innerText()).not.toContain('one')
  await context.close()
})

it('lets a second page watch, which can change nothing', async () => {
  const { page, context } = await open(browser, `/s/${made.id}/terminal`)
  await add(page)
  await run(page, 'echo watched-$((3*3))')
  await shows(page, 'watched-9')
  const other = await open(browser, `/s/${made.id}/terminal?watch`)
  await other.page.getByRole('tab').last().click()
  await shows(other.page, 'watched-9')
  await other.page.getByText('Watching', { exact: true }).waitFor()
  await other.page.keyboard.type('not me')
  await run(page, 'echo live-$((4*4))')
  await shows(other.page, 'live-16')
  expect(await screen(page).innerText()).not.toContain('not me')
  await other.context.close()
  await context.close()
})

it('follows links after a question, lets programs write to the clipboard and none read it, and grows', async () => {
  const { page, context } = await open(browser, `/s/${made.id}/terminal`)
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await add(page)
  await run(page, "printf '\\n%s\\n' 'see https://exam''ple.com/a?b for more'")
  const row = page.locator('.pane.active .xterm-rows > div', { hasText: 'https://example.com/a?b' })
  await row.waitFor()
  const box = (await row.boundingBox())!
  const width = (await page.locator('.pane.active .xterm-screen').boundingBox())!.width / await columns(page)
  await page.mouse.move(box.x + 8 * width, box.y + box.height / 2)
  await page.mouse.move(box.x + 9 * width, box.y + box.height / 2)
  await page.locator('.pane.active .xterm-cursor-pointer').waitFor()
  await page.mouse.click(box.x + 9 * width, box.y + box.height / 2)
  await page.getByRole('dialog', { name: 'Open this link?' }).getByText('https://example.com/a?b').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.locator('.pane.active .xterm-screen').click()
  await run(page, `printf '\\033]52;c;%s\\007' $(printf 'from a program' | base64)`)
  await page.getByText('A program has put 14 characters on the clipboard').waitFor()
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('from a program')
  // A query gets no answer: nothing is typed into the shell.
  await run(page, `printf '\\033]52;c;?\\007'; read -t 1 -n 1 x; echo "asked[$x]"`)
  await shows(page, 'asked[]')
  const before = await columns(page)
  for (let i = 0; i < 4; i++) await page.keyboard.press('Control+=')
  await expect.poll(() => columns(page)).toBeLessThan(before)
  await page.keyboard.press('Control+0')
  await expect.poll(() => columns(page)).toBe(before)
  await context.close()
})

it('loses no key while the connection is away', async () => {
  const cutter = await Cutter.start(url, 0, 1, 7)
  const context = await browser.newContext({ reducedMotion: 'reduce' })
  try {
    const page = await context.newPage()
    page.setDefaultTimeout(180_000)
    await page.goto(`${cutter.url}/s/${made.id}/terminal#token=${token}`)
    await add(page)
    await run(page, 'echo before-$((1+2))')
    await shows(page, 'before-3')
    cutter.cuts = 1000 // no connection succeeds until everything is typed
    cutter.cutNow()
    await page.locator('.pane.active').getByText('Reconnecting').waitFor()
    await page.keyboard.type('echo kept-$((5*5))') // the terminal still has the focus
    await page.keyboard.press('Enter')
    cutter.cuts = 0
    await shows(page, 'kept-25')
    await page.locator('.pane.active').getByText('Reconnecting').waitFor({ state: 'detached' })
  } finally {
    await context.close()
    cutter.stop()
  }
})

it('finds text, and works on a phone', async () => {
  const { page, context } = await open(browser, `/s/${made.id}/terminal`, { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 })
  await add(page)
  await run(page, 'ls /')
  await shows(page, 'home')
  await page.getByRole('toolbar', { name: 'Keys' }).last().waitFor()
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390)
  await expect.poll(() => barriers(page)).toEqual([]) // without running animations
  await shot(page, 'terminal-phone')
  // A signal between bash's fork and the start of the program can be lost, as in any terminal. The
  // program runs when it has printed.
  await run(page, "sh -c 'echo up-$((3*3)); exec sleep 100'")
  await shows(page, 'up-9')
  await page.locator('.pane.active').getByRole('button', { name: 'Ctrl' }).click()
  await page.keyboard.type('c')
  await run(page, 'echo back-$((6*6))')
  await shows(page, 'back-36')
  await page.getByRole('button', { name: 'Terminal', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Find' }).click()
  await page.getByRole('searchbox').fill('nowhere-to-be-found')
  await page.getByText('No match').waitFor()
  await context.close()
})

it('fits a larger screen into a phone, with its note above the keys', async () => {
  const own = await session()
  const wide = await open(browser, `/s/${own.id}/terminal`, { viewport: { width: 1000, height: 700 } })
  await add(wide.page)
  const { page, context } = await open(browser, `/s/${own.id}/terminal`, { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 })
  await shows(page, /[$#]/)
  await run(wide.page, 'echo wide-$((5+5))')
  await shows(page, 'wide-10')
  const note = page.getByText('Somebody else is typing')
  await note.waitFor()
  await shot(page, 'terminal-phone-watches')
  const [told, keys, pane, drawn] = await Promise.all(['.pane .note', '.pane .keybar', '.pane .xterm-box', '.pane .xterm-screen'].map(async (s) => (await page.locator(s).boundingBox())!))
  expect(told!.y + told!.height).toBeLessThanOrEqual(keys!.y)
  expect(drawn!.y + drawn!.height).toBeLessThanOrEqual(pane!.y + pane!.height)
  // Smaller text would not be readable. The other columns are reached by scrolling.
  await page.locator('.pane .xterm-box').evaluate((el) => el.scrollTo(9999, 0))
  await expect.poll(async () => (await page.locator('.pane .xterm-screen').boundingBox())!.x + drawn!.width).toBeLessThanOrEqual(391)
  await page.getByRole('button', { name: 'Use my size' }).tap()
  await note.waitFor({ state: 'detached' })
  await expect.poll(async () => (await page.locator('.pane .xterm-screen').boundingBox())!.width).toBeLessThanOrEqual(390)
  await context.close()
  await wide.context.close()
  await own.end()
})

it('replays what was recorded, from a link too, and has no barrier for axe', async () => {
  const { page, context, complaints } = await open(browser, `/s/${made.id}/terminal`)
  await add(page)
  await run(page, 'echo recorded-$((7*7))')
  await shows(page, 'recorded-49')
  await expect.poll(() => barriers(page)).toEqual([]) // without running animations
  await page.getByRole('button', { name: 'Terminal', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Replay and record' }).click()
  await page.locator('.stage .xterm-rows').filter({ hasText: 'recorded-49' }).waitFor()
  await page.getByText(/^Recording of (terminal \d|[^t])/).waitFor()
  // The whole recorded screen, which was as high as this page
  const [drawn, room] = await Promise.all(['.stage', 'main'].map(async (s) => (await page.locator(s).boundingBox())!))
  expect(drawn!.y + drawn!.height).toBeLessThanOrEqual(room!.y + room!.height)
  // It has reached its end, after as long as the typing took
  await page.getByRole('button', { name: 'Play', exact: true }).waitFor()
  await page.getByRole('slider', { name: 'Position' }).fill('0')
  await expect.poll(() => page.locator('.stage .xterm-rows').innerText()).not.toContain('recorded-49')
  await page.getByRole('combobox', { name: 'Speed' }).selectOption('8')
  await page.getByRole('button', { name: 'Play', exact: true }).click()
  await page.locator('.stage .xterm-rows').filter({ hasText: 'recorded-49' }).waitFor()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download' }).click()
  expect((await download).suggestedFilename()).toMatch(/\.cast$/)
  await expect.poll(() => barriers(page)).toEqual([]) // without running animations
  await shot(page, 'terminal-replay')
  expect(complaints).toEqual([])
  await context.close()
})

it('shows pictures of programs, also after a reload, in a recording and on the alternate screen', async () => {
  const own = await session()
  const { page, context, complaints } = await open(browser, `/s/${own.id}/terminal`)
  await add(page)
  const pixel = (name: string, x: number, y: number, at = '.pane.active') => page.locator(at).getByRole('img', { name, exact: true })
    .evaluate((c, [x, y]) => [...(c as HTMLCanvasElement).getContext('2d')!.getImageData(x!, y!, 1, 1).data], [x, y])
  const sixel = 'Picture, 40 by 24 pixels'
  const file = 'Picture dot.png, 2 by 3 pixels'
  const large = 'Picture, 30 by 12 pixels'
  const all = page.locator('.pane.active .pictures canvas')
  const both = async (at?: string) => {
    expect(await pixel(sixel, 5, 5, at)).toEqual([255, 0, 0, 255])
    expect(await pixel(sixel, 30, 20, at)).toEqual([0, 255, 0, 255])
    await expect.poll(() => pixel(file, 1, 2, at)).toEqual([0, 0, 255, 255])
    expect(await pixel(large, 29, 11, at)).toEqual([0, 0, 255, 255])
  }
  // A program asks for sixel, and for the size of a cell.
  await run(page, `printf '\\033[c'; read -rs -d c x; echo "has [\${x//[^0-9;]/}]"; printf '\\033[16t'; read -rs -d t x; echo "cell [\${x//[^0-9;]/}]"`)
  await shows(page, 'has [62;4;9;22]')
  await shows(page, /cell \[6;\d+;\d+\]/)
  const red = `\\033P0;1q"1;1;40;24#1;2;100;0;0#2;2;0;100;0${'#1!20~#2!20~-'.repeat(4)}\\033\\\\`
  await run(page, `clear; printf '${red}\\n'`)
  const picture = page.getByRole('img', { name: sixel, exact: true })
  await picture.waitFor()
  await run(page, "printf '\\033]1337;File=inline=1;width=4;name=%s:%s\\007\\n' $(printf dot.png | base64) iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnWAAAAD0lEQVR4nGNgYPgPRsgUADjcBftBwbf8AAAAAElFTkSuQmCC")
  await page.getByRole('img', { name: file, exact: true }).waitFor()
  // A picture that is longer than the usual part of older output, which is cut in it. Spaces draw nothing.
  await run(page, `(printf '\\033Pq"1;1;30;12#1;2;0;0;100'; head -c 300000 /dev/zero | tr '\\0' ' '; printf '#1!30~-#1!30~\\033\\\\\\n'); echo end-$((1+1))`)
  await shows(page, 'end-2')
  await both()
  // It is where the screen was cleared, and as wide as it should be.
  const [drawn, cells] = await Promise.all([picture, screen(page)].map(async (l) => (await l.boundingBox())!))
  expect(drawn!.width).toBeGreaterThan(30)
  expect(drawn!.width).toBeLessThan(50)
  expect(drawn!.y).toBeCloseTo(cells!.y, 0)
  await expect.poll(() => barriers(page)).toEqual([]) // without running animations
  await shot(page, 'terminal-pictures')
  await page.reload()
  await shows(page, 'end-2')
  await expect.poll(() => all.count()).toBe(3)
  await both()
  // The alternate screen has its own pictures.
  await page.locator('.pane.active .xterm-screen').click()
  await run(page, `printf '\\033[?1049h\\033[H${red}\\033[8Hother screen'; read -rsn1; printf '\\033[?1049l'`)
  await shows(page, 'other screen')
  await expect.poll(() => all.count()).toBe(1)
  await page.keyboard.press('x')
  await expect.poll(() => all.count()).toBe(3)
  await page.getByRole('button', { name: 'Terminal', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Replay and record' }).click()
  await page.locator('.stage .xterm-rows').filter({ hasText: 'end-2' }).waitFor()
  await page.locator('.stage').getByRole('img', { name: large, exact: true }).waitFor()
  await both('.stage')
  await page.getByRole('link', { name: 'Terminals' }).click()
  await expect.poll(() => all.count()).toBe(3)
  // Text takes the place of a picture, and so does an empty screen.
  await page.locator('.pane.active .xterm-screen').click()
  await run(page, `printf '\\033[1;1H\\033[2J${red}\\033[1;3Hx\\033[9H'`)
  await expect.poll(() => all.count()).toBe(1)
  await expect.poll(() => pixel(sixel, 20, 5)).toEqual([0, 0, 0, 0])
  expect(await pixel(sixel, 2, 2)).toEqual([255, 0, 0, 255])
  await run(page, 'clear')
  await expect.poll(() => all.count()).toBe(0)
  await run(page, `printf '\\033Pq"1;1;9999;9999~\\033\\\\\\n'`)
  await shows(page, '[A picture of more than 4,000,000 pixels is not shown]')
  expect(complaints).toEqual([])
  await context.close()
  await own.end()
})
