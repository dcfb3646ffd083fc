// Tests the widgets of Jupyter in the notebook, in Chromium, with real kernels.
import type { Browser, FrameLocator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launch, open, session, shot, still, token, url, watch } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

async function run(page: Page, code: string): Promise<void> {
  await page.locator('.cell.active .cm-content').click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText(code)
  await page.keyboard.press('Shift+Enter')
}
const output = (page: Page, n: number) => page.locator('.cell').nth(n).locator('.output')
const done = (page: Page, n: number) => page.locator(`.cells > .cell:nth-of-type(${n + 1})[data-state="ok"]`).waitFor()
const frame = (page: Page, n: number, widget = 0): FrameLocator => output(page, n).locator('.widget iframe').nth(widget).contentFrame()
/** Shows the widget of a cell, which is loaded when it is in sight. */
async function seen(page: Page, n: number): Promise<void> {
  await output(page, n).locator('.widget').first().scrollIntoViewIfNeeded()
  await output(page, n).locator('.widget[data-state="live"]').first().waitFor()
  await still(output(page, n).locator('.widget iframe').first())
}
/** The second page that shows the session. */
async function another(id: string): Promise<{ page: Page; complaints: string[]; close: () => Promise<void> }> {
  const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 800 } })
  const page = await context.newPage()
  const complaints = watch(page)
  await page.goto(`${url}/s/${id}#token=${token}`)
  return { page, complaints, close: () => context.close() }
}

async function notebook() {
  const s = await session()
  const opened = await open(browser, `/s/${s.id}`)
  await opened.page.locator('.cell.active .cm-content').waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}

describe('widgets', () => {
  it('move in all pages and cells, print to an Output, and come back after a reload', async () => {
    const { page, id, complaints, close } = await notebook()
    await run(page, [
      'import ipywidgets as w', 's = w.IntSlider(value=3, max=10, description="n")', 'out = w.Output()', 'b = w.Button(description="Press", icon="check")',
      'def press(_):', '    with out: print("pressed at", s.value)', 'b.on_click(press)', 'w.VBox([s, b, out])',
    ].join('\n'))
    await done(page, 0)
    await seen(page, 0)
    const readout = (f: FrameLocator) => f.locator('.widget-readout').first()
    await expect.poll(() => readout(frame(page, 0)).innerText()).toBe('3')
    await run(page, 's') // a second view of the same model
    await done(page, 1)
    await seen(page, 1)
    await expect.poll(() => readout(frame(page, 1)).innerText()).toBe('3')
    await expect.poll(() => page.locator('.save-state.saved').count()).toBe(1)
    const second = await another(id)
    await seen(second.page, 0)
    await expect.poll(() => readout(frame(second.page, 0)).innerText()).toBe('3') // requested from the kernel

    await seen(page, 0)
    await frame(page, 0).locator('.noUi-handle').focus()
    for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowRight')
    for (const f of [frame(page, 0), frame(page, 1), frame(second.page, 0)]) await expect.poll(() => readout(f).innerText()).toBe('7')
    await run(page, 's.value')
    await output(page, 2).getByText('7', { exact: true }).waitFor()
    await frame(second.page, 0).getByRole('button', { name: 'Press' }).click()
    for (const p of [page, second.page]) await frame(p, 0).locator('.widget-output').getByText('pressed at 7').waitFor()
    expect(await output(page, 0).getByText('pressed').count()).toBe(0) // not in the cell's own output
    await run(page, 's.value = 1\nlen(out.outputs)')
    for (const f of [frame(page, 0), frame(page, 1), frame(second.page, 0)]) await expect.poll(() => readout(f).innerText()).toBe('1')
    await shot(page, 'widgets-basic')

    await expect.poll(() => page.locator('.save-state.saved').count()).toBe(1)
    await page.reload()
    await seen(page, 0)
    await expect.poll(() => readout(frame(page, 0)).innerText()).toBe('1')
    await frame(page, 0).locator('.widget-output').getByText('pressed at 7').waitFor()
    await frame(page, 0).getByRole('button', { name: 'Press' }).click()
    await frame(page, 0).locator('.widget-output').getByText('pressed at 1').waitFor()
    expect([...complaints, ...second.complaints]).toEqual([])
    await second.close()

    // The kernel ends, and with it the widgets.
    await page.getByRole('button', { name: 'Kernel', exact: true }).or(page.getByRole('button', { name: /Restart/ })).first().click()
    await close()
  })
})
