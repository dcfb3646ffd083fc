// Tests the widgets of Jupyter in the notebook, in Chromium, with real kernels.
import type { Browser, FrameLocator, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { api, barriers, launch, open, session, shot, still, token, url, watch } from './rig.js'

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
}
/** Presses a button by its key: Chromium ignores a click into a frame that has just moved. */
async function press(page: Page, button: Locator): Promise<void> {
  await button.focus()
  await page.keyboard.press('Enter')
}
/** The second page that shows the session. */
async function another(id: string, as = `token=${token}`): Promise<{ page: Page; complaints: string[]; close: () => Promise<void> }> {
  const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 800 } })
  const page = await context.newPage()
  const complaints = watch(page)
  await page.goto(`${url}/s/${id}#${as}`)
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
    await press(second.page, frame(second.page, 0).getByRole('button', { name: 'Press' }))
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
    await press(page, frame(page, 0).getByRole('button', { name: 'Press' }))
    await frame(page, 0).locator('.widget-output').getByText('pressed at 1').waitFor()
    expect([...complaints, ...second.complaints].filter((c) => !c.includes('409'))).toEqual([]) // two pages save one file
    await second.close()

    // Both pages have saved. The page that did not type has the code that the other one ran.
    const { cells } = await api<{ cells: { source: string[] }[] }>('GET', `/v1/sessions/${id}/files/notebook.ipynb`)
    expect(cells.map((c) => c.source.join('')).slice(1, 4)).toEqual(['s', 's.value', 's.value = 1\nlen(out.outputs)'])

    // A viewer with a link sees the same, and changes nothing.
    const { token: view } = await api<{ token: string }>('POST', `/v1/sessions/${id}/links`, { expires_seconds: 3600 })
    const guest = await another(id, `view=${view}`)
    await seen(guest.page, 0)
    await page.locator('.cell').last().locator('.cm-content').click() // the page was opened again
    await run(page, 's.value = 6')
    await expect.poll(() => readout(frame(guest.page, 0)).innerText()).toBe('6')
    await frame(guest.page, 0).locator('.widget-output').getByText('pressed at 1').waitFor()
    expect(await output(guest.page, 0).locator('.widget .frame').evaluate((e: HTMLElement) => e.inert)).toBe(true)
    await guest.close()

    // A program that has ended leaves nothing to control.
    await page.getByRole('button', { name: 'More ways to run' }).click()
    await page.getByRole('menuitem', { name: 'Restart the kernel…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Restart' }).click()
    await output(page, 0).getByText('The kernel no longer has this widget').waitFor()
    expect(await output(page, 0).locator('.widget .frame').evaluate((e: HTMLElement) => e.inert)).toBe(true)
    await shot(page, 'widgets-gone')
    await page.reload()
    await output(page, 0).getByText('The kernel no longer has this widget').waitFor()
    await output(page, 0).getByText('VBox(children=').waitFor()
    expect(await barriers(page)).toEqual([])
    await close()
  })

  it('follow interact, tqdm, links, boxes and tabs, and the code of a widget of its own', async () => {
    const { page, complaints, close } = await notebook()
    await run(page, 'from ipywidgets import interact\n@interact(n=(0, 9), name=["x", "y"])\ndef f(n=4, name="x"):\n    print("n is", n, name)\n    return [n]')
    await done(page, 0)
    await seen(page, 0)
    const text = (n: number) => frame(page, n).locator('.widget-output')
    await text(0).getByText('n is 4 x').waitFor()
    await frame(page, 0).locator('.noUi-handle').focus()
    for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowRight')
    await text(0).getByText('n is 7 x').waitFor()
    await text(0).getByText('[7]').waitFor()
    await frame(page, 0).getByRole('combobox').selectOption('y')
    await text(0).getByText('n is 7 y').waitFor()
    expect(await text(0).getByText('n is 4').count()).toBe(0)

    await run(page, 'from tqdm.notebook import tqdm\nimport time\nfor i in tqdm(range(30), desc="steps"): time.sleep(0.02)')
    await done(page, 1)
    await seen(page, 1)
    await frame(page, 1).getByText('30/30').waitFor()
    await frame(page, 1).getByText('steps: 100%').waitFor()
    await shot(page, 'widgets-interact')

    await run(page, 'import ipywidgets as w\na, c = w.IntSlider(description="a"), w.IntSlider(description="c")\nlink = w.jslink((a, "value"), (c, "value"))\nw.HBox([a])')
    await done(page, 2)
    await run(page, 'c')
    await done(page, 3)
    await seen(page, 3)
    await frame(page, 3).locator('.noUi-handle').focus()
    for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowRight')
    for (const n of [2, 3]) await expect.poll(() => frame(page, n).locator('.widget-readout').innerText()).toBe('5')

    await run(page, 'tab = w.Tab([w.Label("in the first"), w.Label("in the second")], titles=["One", "Two"])\ntab')
    await done(page, 4)
    await seen(page, 4)
    await still(output(page, 4).locator('.widget iframe'))
    await frame(page, 4).getByText('Two').click()
    await frame(page, 4).getByText('in the second').waitFor()
    await run(page, 'tab.selected_index')
    await output(page, 5).getByText('1', { exact: true }).waitFor()

    // A widget that sends its code, as anywidget does.
    await run(page, `import traitlets
class Counter(w.DOMWidget):
    _model_module = traitlets.Unicode("anywidget").tag(sync=True)
    _model_name = traitlets.Unicode("AnyModel").tag(sync=True)
    _model_module_version = traitlets.Unicode("~0.9.*").tag(sync=True)
    _view_module = traitlets.Unicode("anywidget").tag(sync=True)
    _view_name = traitlets.Unicode("AnyView").tag(sync=True)
    _view_module_version = traitlets.Unicode("~0.9.*").tag(sync=True)
    _esm = traitlets.Unicode('''export default {
      initialize({ model }) { model.set("ready", true); model.save_changes() },
      render({ model, el }) {
        const button = document.createElement("button")
        const draw = () => { button.textContent = "count is " + model.get("count") + " " + new TextDecoder().decode(model.get("raw")) }
        button.onclick = () => { model.set("count", model.get("count") + 1); model.save_changes() }
        model.on("change:count", draw)
        model.on("msg:custom", (m, buffers) => model.send({ heard: m, bytes: buffers[0].byteLength }, undefined, [new Uint8Array([7, 8, 9]).buffer]))
        draw()
        el.append(button)
      },
    }''').tag(sync=True)
    _css = traitlets.Unicode("button { color: rgb(1, 2, 3) }").tag(sync=True)
    count = traitlets.Int(0).tag(sync=True)
    ready = traitlets.Bool(False).tag(sync=True)
    raw = traitlets.Bytes(b"bytes").tag(sync=True)
counter = Counter()
got = []
counter.on_msg(lambda _, m, buffers: got.append((m, bytes(buffers[0]))))
counter`)
    await done(page, 6)
    await seen(page, 6)
    const button = frame(page, 6).getByRole('button')
    await press(page, button)
    await button.getByText('count is 1 bytes').waitFor()
    expect(await button.evaluate((e) => getComputedStyle(e).color)).toBe('rgb(1, 2, 3)')
    await run(page, 'counter.count += 10\ncounter.send({"a": 1}, [b"12345"])\n(counter.count, counter.ready)')
    await output(page, 7).getByText('(11, True)').waitFor()
    await button.getByText('count is 11').waitFor()
    await run(page, 'got')
    await output(page, 8).getByText("[({'heard': {'a': 1}, 'bytes': 5}, b'\\x07\\x08\\t')]").waitFor()
    expect(complaints).toEqual([])
    await close()
  })

  it('show figures of plotly that the kernel changes, and all kinds of its figures', async () => {
    const { page, complaints, close } = await notebook()
    await run(page, 'import plotly.graph_objects as go\nfig = go.FigureWidget(data=[go.Bar(x=["a", "b"], y=[1, 2])])\nfig')
    await done(page, 0)
    await seen(page, 0)
    const bars = frame(page, 0).locator('.bars .point')
    await expect.poll(() => bars.count()).toBe(2)
    await run(page, 'fig.data[0].update(x=["a", "b", "c"], y=[5, 1, 4])')
    await done(page, 1)
    await expect.poll(() => bars.count()).toBe(3)
    await shot(page, 'widgets-plotly')
    await run(page, 'go.Figure(go.Heatmap(z=[[1, 2], [3, 4]]))')
    await done(page, 2)
    await output(page, 2).locator('iframe').contentFrame().locator('.heatmaplayer image').waitFor()
    expect(complaints).toEqual([])
    await close()
  })

  it('in frames say only what a widget may say', async () => {
    const { page, id, close } = await notebook()
    await run(page, 'import ipywidgets as w\nsecret = w.Text("secret", description="other")\nmine = w.IntText(1)\nmine')
    await done(page, 0)
    await seen(page, 0)
    await run(page, 'print(secret.model_id, mine.model_id)')
    await done(page, 1)
    const [other, own] = (await output(page, 1).innerText()).trim().split(/\s/) as [string, string]
    // The frame is taken over: it uses the channel to the page as it likes.
    const sandbox = (await (await output(page, 0).locator('.widget iframe').elementHandle())!.contentFrame())!
    await sandbox.evaluate(() => {
      const d = Object.getOwnPropertyDescriptor(MessageEvent.prototype, 'data')!
      const heard: unknown[] = []
      Object.assign(window, { heard })
      Object.defineProperty(MessageEvent.prototype, 'data', { get(this: MessageEvent) {
        const m = d.get!.call(this) as unknown
        Object.assign(window, { port: this.target })
        heard.push(m)
        return m
      } })
    })
    await run(page, 'mine.value = 2') // a message, which has the port
    await done(page, 2)
    const attempt = async (message: unknown) => sandbox.evaluate(async (m) => {
      const w = window as unknown as { port: MessagePort; heard: { done?: number; id?: string; refused?: string; model?: { id: string } }[] }
      w.heard.length = 0
      w.port.postMessage(m)
      for (;;) {
        const found = w.heard.find((h) => h.refused !== undefined || h.done !== undefined || h.model)
        if (found) return found.refused ?? (found.model ? 'model' : 'sent')
        await new Promise((again) => setTimeout(again, 10))
      }
    }, message)
    const send = (to: string, data: unknown, buffers: unknown[] = []) => attempt({ send: { id: to, n: 1, data, buffers } })
    await expect.poll(() => sandbox.evaluate(() => 'port' in window)).toBe(true)
    expect(await send(own, { method: 'update', state: { value: 3 }, buffer_paths: [] })).toBe('sent')
    expect(await attempt({ want: other })).toMatch(/does not show this model/)
    expect(await send(other, { method: 'update', state: { value: 'changed' }, buffer_paths: [] })).toMatch(/does not show this model/)
    expect(await send('jupyter.widget.control', { method: 'request_states' })).toMatch(/neither/)
    expect(await send(own, { method: 'request_state' })).toMatch(/neither/)
    expect(await send(own, { method: 'update', state: { _esm: 'x', value: 9 }, buffer_paths: [] })).toMatch(/code/)
    expect(await send(own, { method: 'update', state: { value: 'x'.repeat(2 << 20) }, buffer_paths: [] })).toMatch(/larger/)
    expect(await attempt({ op: 'execute', code: 'print(1)' })).toMatch(/not a message/)
    expect(await attempt({ send: { id: own, n: 'x', data: {} } })).toMatch(/names no model/)
    await run(page, '(mine.value, secret.value)')
    await output(page, 3).getByText("(3, 'secret')").waitFor()
    // A flood is refused, then the frame is stopped. The page and the kernel continue.
    await sandbox.evaluate((to) => {
      const { port } = window as unknown as { port: MessagePort }
      for (let i = 0; i < 5000; i++) port.postMessage({ send: { id: to, n: i, data: { method: 'update', state: { value: i }, buffer_paths: [] }, buffers: [] } })
    }, own)
    await output(page, 0).getByText('This widget was stopped').waitFor()
    await run(page, 'print("still here")')
    await output(page, 4).getByText('still here').waitFor()
    expect(page.url()).toBe(`${url}/s/${id}`)
    await close()
  })
})
