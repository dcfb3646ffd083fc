// Tests every feature of the notebook, in Chromium, with real kernels.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Cutter } from '../../../../client/typescript/test/rig.js'
import { api, launch, open, pair, session, shot, still, token, url, watch } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const mod = 'Control'

/** Puts code into the active cell and runs it. The next cell is active then. */
async function run(page: Page, code: string, language?: string): Promise<void> {
  const cell = page.locator('.cell.active')
  await cell.locator('.cm-content').click()
  await page.keyboard.press(`${mod}+a`)
  await page.keyboard.insertText(code)
  if (language) {
    await cell.getByRole('button', { name: /^Language/ }).click()
    await page.getByRole('menuitemradio', { name: language }).click()
    await cell.locator('.cm-content').click()
  }
  await page.keyboard.press('Shift+Enter')
}

const cell = (page: Page, n: number) => page.locator('.cell').nth(n)
const state = (page: Page, n: number, s: string) => page.locator(`.cells > .cell:nth-of-type(${n + 1})[data-state="${s}"]`).waitFor()
const shows = (page: Page, n: number, text: string) => cell(page, n).locator('.output').getByText(text).first().waitFor()
const saved = (page: Page) => page.locator('.save-state.saved').waitFor()

async function file<T = { cells: { source: string[]; outputs: { text?: string[] }[] }[] }>(id: string, path = 'notebook.ipynb'): Promise<T> {
  return api<T>('GET', `/v1/sessions/${id}/files/${path}`)
}

async function notebook(o: Parameters<typeof open>[2] = {}) {
  const s = await session()
  const opened = await open(browser, `/s/${s.id}`, o)
  await opened.page.locator('.cell.active .cm-content').waitFor()
  return { ...opened, ...s, async close() { await opened.context.close(); await s.end() } }
}

describe('the notebook', () => {
  it('runs several languages, shows what they make, and keeps it in the session', async () => {
    const { page, complaints, id, close } = await notebook()
    await run(page, 'print("\\x1b[31mred\\x1b[0m <b>no tag</b> \\x1b[38;5;21mblue\\x1b[0m")\nfor i in range(101): print(f"{i}%", end="\\r")\nprint()')
    await state(page, 0, 'ok')
    await expect.poll(() => cell(page, 0).locator('.out-text').innerText()).toBe('red <b>no tag</b> blue\n100%\n') // drawn a frame after the end
    expect(await cell(page, 0).locator('.out-text span').first().evaluate((e) => (e as HTMLElement).style.color)).toBe('var(--ansi-1)')
    await run(page, '[1, 2].map((n) => n * 21)', 'JavaScript and TypeScript')
    await shows(page, 1, '[ 21, 42 ]')
    await run(page, 'echo "$((6*7)) in bash" > /tmp/x; cat /tmp/x', 'Bash')
    await shows(page, 2, '42 in bash')
    await run(page, [
      'from IPython.display import *', 'display(Markdown("# Head\\n$x^2$"), Latex("$$\\\\frac12$$"), JSON({"k": [1, 2]}), SVG("<svg xmlns=\'http://www.w3.org/2000/svg\' width=\'9\' height=\'9\'><rect width=\'9\' height=\'9\'/></svg>"))',
      'import matplotlib.pyplot as plt', 'plt.plot([1, 2]); plt.show()', 'display(HTML("<table><tr><td>1</td></tr><tr><td>2</td></tr></table>"))',
    ].join('\n'), 'Python')
    await state(page, 3, 'ok')
    const out = cell(page, 3).locator('.output')
    await out.locator('.markdown h1', { hasText: 'Head' }).waitFor()
    await out.locator('.markdown .katex').waitFor()
    await out.locator('[data-mime="text/latex"] .katex-display').waitFor()
    await out.locator('[data-mime="application/json"] .json-key', { hasText: 'k' }).waitFor()
    await expect.poll(() => out.locator('[data-mime="image/png"] img').evaluate((i: HTMLImageElement) => i.naturalWidth)).toBeGreaterThan(100)
    await expect.poll(() => out.locator('[data-mime="image/svg+xml"] img').evaluate((i: HTMLImageElement) => i.naturalWidth)).toBe(9)
    await out.locator('[data-mime="text/html"]').scrollIntoViewIfNeeded()
    await out.frameLocator('[data-mime="text/html"] iframe').locator('td', { hasText: '2' }).first().waitFor()
    const ink = () => page.frames()[1]!.evaluate(() => getComputedStyle(document.querySelector('td')!).color)
    const light = await ink()
    await page.emulateMedia({ colorScheme: 'dark' })
    await expect.poll(ink).not.toBe(light)
    await out.locator('[data-mime="image/svg+xml"] img.on-paper').waitFor()
    // A program's own colour that would not be readable in the dark.
    expect(await cell(page, 0).locator('.out-text span').last().evaluate((e) => getComputedStyle(e).color)).toBe('rgb(128, 128, 255)')
    await cell(page, 2).scrollIntoViewIfNeeded()
    await shot(page, 'notebook-rich')
    // After it was moved, deleted and restored, it still has all of that.
    await page.keyboard.press('Escape')
    await page.locator('.cell.active[data-mode="command"]').waitFor()
    await page.keyboard.press('k')
    for (const key of ['Control+Shift+ArrowUp', 'Control+Shift+ArrowDown']) await page.keyboard.press(key)
    for (let i = 0; i < 2; i++) {
      await pair(page, 'd')
      await expect.poll(() => page.locator('.cell').count()).toBe(4)
      await page.keyboard.press('z')
      await out.frameLocator('[data-mime="text/html"] iframe').locator('td', { hasText: '2' }).first().waitFor()
    }
    await out.locator('.markdown h1', { hasText: 'Head' }).waitFor()
    await saved(page)
    await expect.poll(async () => (await file(id)).cells[0]?.outputs[0]?.text?.join('')).toContain('100%')
    expect(complaints).toEqual([])
    await close()
  })

  it("uses a language's default kernel, and not one that a client opened for itself", async () => {
    const s = await session()
    const channels = `/v1/sessions/${s.id}/channels`
    const separate = await api<{ id: string; separate?: boolean }>('POST', channels, { kind: 'kernel', language: 'js', key: 'mine' })
    expect(separate.separate).toBe(true)
    const { page, context } = await open(browser, `/s/${s.id}`)
    await page.locator('.cell.active .cm-content').waitFor()
    await run(page, '6 * 7', 'JavaScript and TypeScript')
    await shows(page, 0, '42')
    const kernel = await api<{ id: string; state: string; separate?: boolean }>('POST', channels, { kind: 'kernel', language: 'js' })
    expect(kernel.id).not.toBe(separate.id)
    expect(kernel.separate ?? false).toBe(false)
    const second = await api<{ execution_count: number }>('POST', `/v1/sessions/${s.id}/run`, { language: 'js', code: '1' })
    expect(second.execution_count).toBe(2) // the notebook's cell was the first
    await context.close()
    await s.end()
  })

  it('says the error first, folds the traceback, and goes to the line', async () => {
    const { page, complaints, close } = await notebook()
    await run(page, 'def f():\n    x = 1\n    return x / 0\n\nf()')
    await state(page, 0, 'error')
    const error = cell(page, 0).locator('.out-error')
    expect(await error.innerText()).toMatch(/^ZeroDivisionError: division by zero/)
    expect(await error.locator('pre').isVisible()).toBe(false)
    await error.locator('summary').click()
    expect(await error.locator('pre').innerText()).toContain('return x / 0')
    await shot(page, 'notebook-error')
    await error.getByRole('button', { name: 'Go to line 3' }).first().click()
    expect(await cell(page, 0).locator('.cm-error-line').innerText()).toBe('    return x / 0')
    await run(page, 'throw new Error("no")', 'JavaScript and TypeScript')
    await shows(page, 0, 'Error: no')
    expect(complaints).toEqual([])
    await close()
  })

  it('comes back in mid-cell, still streaming, without a line twice or missing; a second tab watches live', async () => {
    const { page, context, id, close } = await notebook()
    await run(page, 'import os, time\ni = 0\nwhile not os.path.exists("stop"):\n    print("line", i, flush=True)\n    i += 1\n    time.sleep(0.05)\nprint("over")')
    await shows(page, 0, 'line 3')
    await page.reload()
    await state(page, 0, 'running')
    const other = await context.newPage()
    watch(other)
    await other.goto(`${url}/s/${id}`)
    await state(other, 0, 'running')
    await api('PUT', `/v1/sessions/${id}/files/stop`)
    for (const p of [page, other]) {
      await state(p, 0, 'ok')
      await shows(p, 0, 'over') // drawn a frame after the end
      const lines = (await cell(p, 0).locator('.out-text').innerText()).trimEnd().split('\n')
      expect(lines).toEqual([...Array.from({ length: lines.length - 1 }, (_, i) => `line ${i}`), 'over'])
      expect(lines.length).toBeGreaterThan(5)
    }
    // One tab shows what the other one writes.
    await cell(page, 1).locator('.cm-content').click()
    await run(page, 'print("from the first tab")')
    await other.locator('.output').getByText('from the first tab').waitFor()
    await saved(page)
    await page.reload()
    await shows(page, 0, 'over')
    await close()
  })

  it('stops a loop, and takes what is queued behind it off', async () => {
    const { page, complaints, close } = await notebook()
    await run(page, 'while True: pass')
    await run(page, 'print("never")')
    await state(page, 0, 'running')
    await state(page, 1, 'queued')
    await shot(page, 'notebook-busy')
    // On a phone there is space for the name and for Stop.
    await page.setViewportSize({ width: 360, height: 700 })
    await expect.poll(() => page.getByRole('button', { name: 'Notebook notebook.ipynb' }).locator('.ellipsis').evaluate((e) => e.scrollWidth - e.clientWidth)).toBeLessThanOrEqual(0)
    await shot(page, 'notebook-busy-phone')
    await page.setViewportSize({ width: 1280, height: 800 })
    await page.getByRole('button', { name: 'Stop', exact: true }).first().click()
    await state(page, 0, 'error')
    await state(page, 1, 'aborted')
    await shows(page, 0, 'KeyboardInterrupt')
    await run(page, 'print("on it goes")')
    await shows(page, 2, 'on it goes')
    expect(complaints).toEqual([])
    await close()
  })

  it('kills what does not stop, when asked a second time', async () => {
    const { page, close } = await notebook()
    await run(page, 'import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nimport ctypes\nctypes.CDLL(None).sleep(1000) and None\nwhile True:\n    try:\n        while True: ctypes.CDLL(None).usleep(900000)\n    except BaseException: pass')
    await state(page, 0, 'running')
    await page.getByRole('button', { name: 'Stop', exact: true }).first().click()
    const force = page.getByRole('button', { name: 'Force stop' })
    const ended = page.locator('.cell[data-state="error"]')
    await force.or(ended).first().waitFor()
    if (await force.isVisible()) await force.click()
    await ended.waitFor()
    await run(page, 'print("a new kernel")')
    await shows(page, 1, 'a new kernel')
    await close()
  })

  it('answers input(), with a password unseen', async () => {
    const { page, close } = await notebook()
    await run(page, 'a = input("Name? ")\nimport getpass\nb = getpass.getpass("Word? ")\nprint(a.upper(), len(b))')
    await page.getByLabel('Name?').fill('ada')
    await page.keyboard.press('Enter')
    await page.getByLabel('Word?').fill('secret')
    await page.keyboard.press('Enter')
    await shows(page, 0, 'ADA 6')
    expect(await cell(page, 0).innerText()).not.toContain('secret')
    await close()
  })

  it("obeys Jupyter's keys", async () => {
    const { page, complaints, close } = await notebook()
    // An editor has an element for each line. A cell without an editor has its text with line ends.
    const sources = () => page.locator('.cell').evaluateAll((all) => all.map((c) => (c.querySelector('.cm-content, .source-static')?.textContent ?? '').replaceAll('\n', '')))
    const cells = (n: number) => expect.poll(async () => (await sources()).length).toBe(n)
    const command = () => page.waitForFunction(() => document.activeElement?.matches('.cell.active'))
    const edit = () => page.waitForFunction(() => document.activeElement?.closest('.cell.active .cm-editor'))
    await page.keyboard.insertText('1')
    await page.locator('.cell.active .cm-content').click()
    await edit()
    await page.keyboard.insertText('one')
    await page.keyboard.press('Escape')
    await command()
    await page.keyboard.press('b')
    await cells(2)
    await command()
    await page.keyboard.press('Enter')
    await edit()
    await page.keyboard.insertText('two')
    await page.keyboard.press('Escape')
    await command()
    await page.keyboard.press('a')
    await cells(3)
    await command()
    await pair(page, 'd')
    await cells(2)
    await command()
    await page.keyboard.press('z')
    await cells(3)
    await command()
    await pair(page, 'd')
    await cells(2)
    await command()
    await page.keyboard.press('c')
    await page.keyboard.press('v')
    await expect.poll(sources).toSatisfy((s: string[]) => s[1] === 'two' && s[2] === 'two')
    await command()
    await page.keyboard.press('m')
    await page.locator('.cell.active.markdown').waitFor()
    await page.keyboard.press('y')
    await page.locator('.cell.active.code').waitFor()
    await page.keyboard.press('k')
    await page.keyboard.press('Shift+j')
    await page.keyboard.press('Shift+M')
    await expect.poll(async () => (await sources()).length).toBe(2)
    await command()
    const merged = await sources()
    await page.keyboard.press('Enter')
    await edit()
    await page.keyboard.press('Control+Home')
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('Control+Shift+_')
    await cells(3)
    await page.keyboard.press('Escape')
    await command()
    await page.keyboard.press('z')
    await expect.poll(sources).toEqual(merged)
    await command()
    await page.keyboard.press('Control+Shift+P')
    await page.getByRole('combobox', { name: 'Command' }).fill('insert above')
    await page.keyboard.press('Enter')
    await expect.poll(async () => (await sources()).length).toBe(3)
    await page.keyboard.press('h')
    await page.getByRole('dialog', { name: 'Keys' }).waitFor()
    await shot(page, 'notebook-keys')
    await page.keyboard.press('Escape')
    expect(complaints).toEqual([])
    await close()
  })

  it('completes and explains from the live kernel', async () => {
    const { page, close } = await notebook()
    await run(page, 'forty_two_things = 42\ndef explained():\n    "Says what it does."')
    await state(page, 0, 'ok')
    await page.locator('.cell.active .cm-content').click()
    await page.keyboard.insertText('forty_t')
    await page.keyboard.press('Tab')
    await page.locator('.cm-tooltip-autocomplete').getByText('forty_two_things').waitFor()
    await page.keyboard.press('Enter')
    await expect.poll(() => page.locator('.cell.active .cm-content').innerText()).toBe('forty_two_things')
    await page.keyboard.press('Control+a')
    await page.keyboard.insertText('explained')
    await page.keyboard.press('Shift+Tab')
    await page.locator('.cm-inspect').getByText('Says what it does.').waitFor()
    await close()
  })

  it('lists variables, finds and replaces, shows the outline, takes files', async () => {
    const { page, complaints, id, close } = await notebook()
    await run(page, 'answer = 42\nwords = "<i>x</i>"')
    await state(page, 0, 'ok')
    await page.getByRole('button', { name: 'Variables' }).click()
    const row = page.locator('.variables tr', { hasText: 'answer' })
    await row.getByText('42').waitFor()
    await page.getByRole('button', { name: 'Kernels: Ready' }).click()
    await page.getByRole('menu').getByText(/^Memory [\d,]+ MB of /).waitFor()
    await page.keyboard.press('Escape')
    await shot(page, 'notebook-variables')
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByRole('searchbox', { name: 'Search' }).fill('ANSWER')
    await page.getByText('1 place').waitFor()
    await page.getByLabel('Replace with').fill('result')
    await page.getByRole('button', { name: 'Replace all' }).click()
    await expect.poll(() => cell(page, 0).locator('.cm-content').innerText()).toContain('result = 42')
    await page.getByRole('button', { name: 'Files' }).click()
    await page.locator('.files input[type=file][multiple]').setInputFiles({ name: 'data.csv', mimeType: 'text/csv', buffer: Buffer.from('a,b\n1,2\n') })
    await expect.poll(() => fetch(`${url}/v1/sessions/${id}/files/data.csv`, { headers: { Authorization: `Bearer ${token}` } }).then((r) => r.status)).toBe(200)
    await page.getByRole('button', { name: 'Outline' }).click()
    await page.locator('.side').getByText('Headings of text cells').waitFor()
    await page.locator('.cell').last().click({ position: { x: 3, y: 3 } })
    await page.keyboard.press('Escape')
    for (const heading of ['# First part', '## Its detail']) {
      await page.keyboard.press('b')
      await page.keyboard.press('m')
      await page.locator('.cell.active.markdown').waitFor()
      await page.keyboard.press('Enter')
      await page.locator('.cell.active .cm-content').click()
      await page.keyboard.insertText(heading)
      await page.keyboard.press('Control+Enter')
    }
    const outline = page.getByRole('navigation', { name: 'Outline' })
    await outline.getByRole('button', { name: 'Its detail' }).waitFor()
    await outline.getByRole('button', { name: 'First part' }).click()
    await page.locator('.cell.active').getByRole('heading', { name: 'First part' }).waitFor()
    expect(complaints).toEqual([])
    await close()
  })

  it('takes files and folders that are dropped, shows how far they are, and makes, moves and deletes', async () => {
    const { page, context, complaints, id, close } = await notebook()
    const dir = mkdtempSync(join(tmpdir(), 'drop-'))
    mkdirSync(join(dir, 'deep/er'), { recursive: true })
    writeFileSync(join(dir, 'deep/er/leaf.txt'), 'leaf')
    writeFileSync(join(dir, 'big.bin'), Buffer.alloc(4 << 20, 7))
    await page.getByRole('button', { name: 'Files' }).click()
    await page.getByText('Drop files here').waitFor()
    await page.evaluate(() => {
      const seen: number[] = []
      Object.assign(window, { seen })
      new MutationObserver(() => {
        const bar = document.querySelector<HTMLProgressElement>('.upload progress[aria-label$="big.bin"]')
        if (bar) seen.push(bar.position)
      }).observe(document.querySelector('.files')!, { subtree: true, childList: true, attributes: true })
    })
    const cdp = await context.newCDPSession(page)
    await cdp.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 4 << 20 })
    const box = (await page.locator('.files').boundingBox())!
    const data = { items: [], files: [join(dir, 'deep'), join(dir, 'big.bin')], dragOperationsMask: 1 }
    for (const type of ['dragEnter', 'dragOver', 'drop'] as const) await cdp.send('Input.dispatchDragEvent', { type, x: box.x + 40, y: box.y + 80, data })
    const name = (n: string) => page.locator('.file-name', { hasText: n })
    await name('big.bin').waitFor()
    await page.locator('.upload').first().waitFor({ state: 'detached' })
    await cdp.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 })
    const seen = await page.evaluate(() => (window as unknown as { seen: number[] }).seen)
    expect(seen.filter((p) => p > 0 && p < 1).length).toBeGreaterThan(1)
    expect(seen).toEqual([...seen].sort((a, b) => a - b))
    expect((await api<{ size: number }>('GET', `/v1/sessions/${id}/files/big.bin?stat`)).size).toBe(4 << 20)
    // Into the dropped folder, and its subfolder.
    await name('deep').click()
    await name('er').click()
    await name('leaf.txt').waitFor()
    await shot(page, 'notebook-files')
    const act = async (of: string, what: string) => {
      await page.getByRole('button', { name: `More for ${of}` }).click()
      await page.getByRole('menuitem', { name: what }).click()
    }
    await act('leaf.txt', 'Rename…')
    const moved = page.getByRole('textbox', { name: 'Rename or move' })
    expect(await moved.inputValue()).toBe('deep/er/leaf.txt')
    await moved.fill('deep/twig.txt')
    await page.getByRole('button', { name: 'Move', exact: true }).click()
    await name('leaf.txt').waitFor({ state: 'detached' })
    await page.getByRole('navigation', { name: 'Folder' }).getByRole('button', { name: 'deep' }).click()
    const [download] = await Promise.all([page.waitForEvent('download'), act('twig.txt', 'Download')])
    expect(download.suggestedFilename()).toBe('twig.txt')
    await page.getByRole('button', { name: 'New folder' }).click()
    await page.getByRole('textbox', { name: 'New folder' }).fill('made here')
    await page.getByRole('button', { name: 'Create' }).click()
    await name('made here').waitFor()
    await page.getByRole('navigation', { name: 'Folder' }).getByRole('button', { name: 'Home' }).click()
    await act('deep', 'Delete…')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click()
    await name('deep').waitFor({ state: 'detached' })
    await name('big.bin').waitFor()
    // A file with the same name is not replaced without asking.
    await page.locator('.files input[type=file][multiple]').setInputFiles({ name: 'big.bin', mimeType: 'text/plain', buffer: Buffer.from('small') })
    await page.getByRole('dialog').getByRole('button', { name: 'Replace' }).click()
    await expect.poll(async () => (await api<{ size: number }>('GET', `/v1/sessions/${id}/files/big.bin?stat`)).size).toBe(5)
    rmSync(dir, { recursive: true })
    expect(complaints).toEqual([])
    await close()
  })

  it('keeps what two people write at once, and replays what a cell has printed', async () => {
    const { page, context, id, complaints, close } = await notebook()
    await run(page, 'print("by the first")')
    await state(page, 0, 'ok')
    await saved(page)
    // Another user writes the file between this page's read and save, so its first save is
    // rejected.
    const conflict = page.waitForResponse((r) => r.request().method() === 'PUT' && r.status() === 409)
    const path = `/v1/sessions/${id}/files/notebook.ipynb`
    let first = true
    await page.route(`**${path}`, async (route) => {
      if (route.request().method() !== 'PUT' || !first) return route.continue()
      first = false
      const n = await file<{ cells: object[] }>(id)
      n.cells.push({ cell_type: 'markdown', id: 'theirs', metadata: {}, source: ['by the second'] })
      await fetch(url + path, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body: JSON.stringify(n) })
      await route.continue()
    })
    await page.locator('.cell.active .cm-content').click()
    await page.keyboard.insertText('mine = 1')
    await conflict
    await page.getByText('by the second').waitFor()
    await saved(page)
    const all = (await file(id)).cells.map((c) => c.source.join(''))
    expect(all).toEqual(expect.arrayContaining(['print("by the first")', 'mine = 1', 'by the second']))
    expect(complaints.filter((c) => !c.includes('409'))).toEqual([])
    await page.locator('.cell').first().click({ position: { x: 3, y: 3 } })
    await cell(page, 0).getByRole('button', { name: 'More for this cell' }).click()
    await page.getByRole('menuitem', { name: /^Replay/ }).click()
    await page.locator('.stage .xterm-rows').filter({ hasText: 'by the first' }).waitFor()
    expect(new URL(page.url()).searchParams.get('cell')).toMatch(/^\d+$/)
    await page.getByRole('link', { name: 'Notebook' }).click()
    await cell(page, 0).locator('.output').getByText('by the first').waitFor()
    await context.close()
    await close()
  })

  it('shows which cells are selected, merges none of two languages, and finds the output of a run after a reload', async () => {
    const { page, close } = await notebook()
    await run(page, 'print("by python")')
    await state(page, 0, 'ok')
    await run(page, 'echo "by bash"', 'Bash')
    await state(page, 1, 'ok')
    await saved(page)
    await page.keyboard.press('Escape')
    for (const key of ['ArrowUp', 'Shift+ArrowUp']) await page.keyboard.press(key)
    await expect.poll(() => page.locator('.cell.selected').count()).toBe(2)
    const colour = (n: number) => cell(page, n).evaluate((el) => getComputedStyle(el).backgroundColor)
    expect(await colour(0)).toBe(await colour(1))
    expect(await colour(0)).not.toBe(await colour(2))
    await shot(page, 'notebook-selected')
    await page.keyboard.press('Shift+m')
    await page.getByText('Only cells of one language can be merged').waitFor()
    expect(await page.locator('.cell').count()).toBe(3)
    await page.reload()
    await cell(page, 1).click({ position: { x: 3, y: 3 } })
    await cell(page, 1).getByRole('button', { name: 'More for this cell' }).click()
    const download = page.waitForEvent('download')
    await page.getByRole('menuitem', { name: /^Download the output/ }).click()
    expect(readFileSync(await (await download).path(), 'utf8')).toBe('by bash\n')
    await cell(page, 1).getByRole('button', { name: 'More for this cell' }).click()
    await page.getByRole('menuitem', { name: /^Replay/ }).click()
    await page.locator('.stage .xterm-rows').filter({ hasText: 'by bash' }).waitFor()
    await close()
  })

  it('says that the connection is away, and goes on where it was', async () => {
    const cutter = await Cutter.start(url, 0, 1, 7)
    const s = await session()
    const context = await browser.newContext({ reducedMotion: 'reduce' })
    try {
      const page = await context.newPage()
      page.setDefaultTimeout(180_000)
      await page.goto(`${cutter.url}/s/${s.id}#token=${token}`)
      await page.locator('.cell.active .cm-content').waitFor()
      await run(page, 'import time, os\nfor i in range(2000):\n    print("tick", i, flush=True)\n    time.sleep(0.05)\n    if os.path.exists("stop"): break\nprint("over")')
      await shows(page, 0, 'tick 3')
      const top = () => page.locator('.cell').first().evaluate((el) => el.getBoundingClientRect().top + scrollY)
      const before = await top()
      cutter.cuts = 1000 // no connection succeeds until then
      cutter.cutNow()
      await page.getByRole('status').getByText('Reconnecting. Your code keeps running').waitFor()
      expect(await top()).toBe(before) // it lies over the page and moves nothing
      await shot(page, 'notebook-away')
      await api('PUT', `/v1/sessions/${s.id}/files/stop`)
      await page.getByRole('button', { name: 'Try now' }).click() // it must fail, or the button might disappear first
      cutter.cuts = 0
      await page.getByText('Reconnecting. Your code keeps running').waitFor({ state: 'detached' })
      await state(page, 0, 'ok')
      await shows(page, 0, 'over')
      const lines = (await cell(page, 0).locator('.out-text').innerText()).trimEnd().split('\n')
      expect(lines).toEqual([...Array.from({ length: lines.length - 1 }, (_, i) => `tick ${i}`), 'over'])
    } finally {
      await context.close()
      cutter.stop()
      await s.end()
    }
  })

  it('gives a second notebook none of the cells of the first, and opens a file as its own', async () => {
    const { page, complaints, id, close } = await notebook()
    // A new notebook takes what is typed as code.
    await page.locator('.cell.active[data-mode="edit"] .cm-content:focus').waitFor()
    await page.keyboard.type('print("of the first")')
    await page.keyboard.press('Shift+Enter')
    await shows(page, 0, 'of the first')
    await saved(page)
    const text = JSON.stringify({
      cells: ['a', 'b'].map((c) => ({ cell_type: 'code', id: c, execution_count: null, metadata: {}, outputs: [], source: [`"${c}"`] })),
      metadata: {}, nbformat: 4, nbformat_minor: 5,
    })
    const choose = () => page.locator('input[accept*=ipynb]').setInputFiles({ name: 'notebook.ipynb', mimeType: 'application/json', buffer: Buffer.from(text) })
    await choose()
    await page.waitForURL(/file=notebook-2\.ipynb/)
    await page.getByText('"b"').waitFor()
    await cell(page, 0).locator('.cm-content').click()
    await page.keyboard.press('Shift+Enter')
    await shows(page, 0, "'a'") // the kernel's log was read up to here
    await saved(page)
    expect(await page.locator('.cell').count()).toBe(2)
    expect((await file(id, 'notebook-2.ipynb')).cells).toHaveLength(2)
    expect((await file(id)).cells[0]!.source.join('')).toBe('print("of the first")')
    expect(complaints).toEqual([])
    await close()
  })

  it('scrolls over output, leaves the editor with Tab, and stops nothing with a double click', async () => {
    const { page, complaints, close } = await notebook()
    await run(page, 'kept = "value"\nfor i in range(60): print("line", i)')
    await state(page, 0, 'ok')
    // The wheel over short output moves the page.
    await run(page, 'print("short")')
    await shows(page, 1, 'short')
    for (let i = 0; i < 12; i++) await run(page, `${i}`)
    await state(page, 13, 'ok')
    await cell(page, 1).locator('.out-text').scrollIntoViewIfNeeded()
    await cell(page, 1).locator('.out-text').hover()
    const top = () => page.evaluate(() => scrollY)
    const before = await top()
    await page.mouse.wheel(0, 200)
    await expect.poll(top).toBeGreaterThan(before)
    // In command mode the Tab key passes the editor.
    await page.keyboard.press('Escape')
    await page.locator('.cell.active[data-mode="command"]:focus').waitFor()
    const source = await page.locator('.cell.active .cm-content').innerText()
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press('Tab')
      expect(await page.evaluate(() => document.activeElement?.closest('.cm-editor') === null)).toBe(true)
    }
    expect(await page.locator('.cell.active .cm-content').innerText()).toBe(source)
    // Restarting a kernel in the menu is confirmed.
    await page.getByRole('button', { name: /^Kernels/ }).click()
    await page.getByRole('group', { name: 'Python' }).getByRole('menuitem', { name: 'Restart…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    await page.locator('.cell').last().locator('.cm-content').click()
    await page.keyboard.insertText('import time; time.sleep(1); print(kept)')
    // The second click does not hit a button that takes the place of the first one.
    await page.locator('.cell').last().getByRole('button', { name: 'Run this cell' }).dblclick()
    await page.locator('.cell').last().locator('.output').getByText('value').waitFor()
    await page.getByRole('button', { name: 'Run all', exact: true }).dblclick()
    await page.locator('.cell').last().locator('.output').getByText('value').waitFor()
    await expect.poll(() => page.locator('.cell[data-state="ok"]').count()).toBe(15)
    // A file that is dropped on a cell is uploaded.
    const data = await page.evaluateHandle(() => {
      const d = new DataTransfer()
      d.items.add(new File(['dropped'], 'dropped.txt', { type: 'text/plain' }))
      return d
    })
    await page.locator('.cell').last().locator('.cm-content').dispatchEvent('drop', { dataTransfer: data })
    await page.locator('.file-list').getByText('dropped.txt').waitFor()
    expect(await page.locator('.cell').last().locator('.cm-content').innerText()).not.toContain('dropped')
    expect(complaints).toEqual([])
    await close()
  })

  it('imports and exports a notebook that comes out as it went in, but for the ids of cells', async () => {
    const { page, close } = await notebook()
    const text = `${JSON.stringify({
      cells: [
        { cell_type: 'markdown', id: 'm1', metadata: { tags: ['x'] }, source: ['# Title\n', 'text'] },
        { cell_type: 'code', execution_count: 3, id: 'c1', metadata: {}, outputs: [{ name: 'stdout', output_type: 'stream', text: ['a\r', 'b\n'] }, { data: { 'text/html': ['<table>\n', '<td title="q">cell</td></table>'] }, metadata: {}, output_type: 'display_data' }], source: ['print(1)'] },
      ],
      metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' }, other: 1 }, nbformat: 4, nbformat_minor: 5,
    }, null, 1)}\n`
    await page.locator('input[accept*=ipynb]').setInputFiles({ name: 'x.ipynb', mimeType: 'application/json', buffer: Buffer.from(text) })
    await page.waitForURL(/file=x\.ipynb/)
    await page.locator('.markdown h1', { hasText: 'Title' }).waitFor()
    const withoutIds = (s: string) => s.replace(/"id": "[^"]+"/g, '"id": ""')
    let html = ''
    for (const [name, check] of [
      ['Download as notebook', (s: string) => expect(withoutIds(s)).toBe(withoutIds(text))],
      ['Download as script', (s: string) => expect(s).toContain('# %%\nprint(1)')],
      ['Download as page', (s: string) => (html = s) && expect(s).toMatch(/^<!doctype html>[\s\S]*<h1 dir="auto">Title<\/h1>[\s\S]*<span class="code-name">print<\/span>/)],
    ] as const) {
      await page.getByRole('button', { name: 'Notebook', exact: true }).click()
      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name }).click()])
      const parts: Buffer[] = []
      for await (const p of await download.createReadStream()) parts.push(p as Buffer)
      check(Buffer.concat(parts).toString())
    }
    // The file shows HTML of programs in a frame without rights.
    await page.goto('about:blank')
    await page.setContent(html)
    expect(await page.locator('iframe').getAttribute('sandbox')).toBe('')
    await page.frameLocator('iframe').locator('td[title="q"]', { hasText: 'cell' }).waitFor()
    await close()
  })

  it('exports a page with formulas, colours, tables without holes and sound', async () => {
    const { page, close } = await notebook()
    const show = (data: object) => ({ data, metadata: {}, output_type: 'display_data' })
    const table = `<table border="1">${'<tr><td>1</td><td>2</td></tr>'.repeat(4)}</table>`
    const text = JSON.stringify({
      cells: [
        { cell_type: 'markdown', id: 'm1', metadata: {}, source: ['The mean is $\\bar{x} = \\frac{1}{n}$.'] },
        { cell_type: 'code', execution_count: 1, id: 'c1', metadata: {}, source: ['x'], outputs: [
          { name: 'stdout', output_type: 'stream', text: ['\x1b[31mred\x1b[0m\n'] },
          show({ 'text/markdown': '**bold**', 'text/plain': 'x' }), show({ 'text/latex': '$$e^x$$', 'text/plain': 'x' }),
          show({ 'application/vnd.plotly.v1+json': { data: [{ y: [4711] }] }, 'text/plain': 'Figure()' }),
          show({ 'text/html': table }), show({ 'text/html': '<audio controls src="data:audio/wav;base64,AAAA"></audio>' }),
        ] },
      ],
      metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' } }, nbformat: 4, nbformat_minor: 5,
    })
    await page.locator('input[accept*=ipynb]').setInputFiles({ name: 'y.ipynb', mimeType: 'application/json', buffer: Buffer.from(text) })
    await page.waitForURL(/file=y\.ipynb/)
    await page.getByText('The mean is').waitFor()
    await page.getByRole('button', { name: 'Notebook', exact: true }).click()
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: 'Download as page' }).click()])
    const html = readFileSync(await download.path(), 'utf8')
    await page.goto('about:blank')
    await page.setContent(html)
    await shot(page, 'export-page')
    expect(await page.locator('math mfrac').count()).toBe(1)
    expect(await page.locator('math msup').count()).toBe(1)
    expect(await page.locator('strong', { hasText: 'bold' }).count()).toBe(1)
    expect(await page.getByText('red', { exact: true }).evaluate((el) => getComputedStyle(el).color)).toBe('rgb(171, 36, 24)')
    expect(html).not.toMatch(/4711|katex-html/)
    await page.getByText('Open the notebook to see this figure.').waitFor()
    const holes = await page.frameLocator('iframe >> nth=0').locator('table').evaluate((el) => document.documentElement.clientHeight - el.getBoundingClientRect().bottom)
    expect(holes).toBeGreaterThanOrEqual(0)
    expect(holes).toBeLessThan(60)
    expect(html).toContain('media-src data:')
    await close()
  })

  // bench/notebook.mjs measures how long the page is busy meanwhile.
  it('shows 230,000 lines but the first ones, and all of them in a download', async () => {
    const { page, complaints, close } = await notebook()
    await run(page, 'for i in range(230000): print("line", i, "of a flood that a page must bear")')
    await state(page, 0, 'ok')
    await expect.poll(() => cell(page, 0).locator('.block').last().innerText()).toContain('line 229999')
    const note = await cell(page, 0).getByText(/^… \d+,\d{3} lines left out …$/).innerText()
    const left = Number(/[\d,]+/.exec(note)![0].replaceAll(',', ''))
    expect(await cell(page, 0).locator('.block').count()).toBeGreaterThan((230_000 - left) / 500 - 5)
    await run(page, 'print("and more")')
    await shows(page, 1, 'and more')
    const download = page.waitForEvent('download')
    await cell(page, 0).getByRole('button', { name: 'Download all output' }).click()
    const lines = readFileSync(await (await download).path(), 'utf8').trimEnd().split('\n')
    const line = (i: number) => `line ${i} of a flood that a page must bear`
    expect([lines.length, lines[0], lines.at(-1)]).toEqual([230_000, line(0), line(229_999)])
    expect(complaints).toEqual([])
    await close()
  })

  it('stops a flood that it cannot draw, and shows the end of it', async () => {
    const { page, complaints, close } = await notebook()
    await run(page, 'i = 0\nwhile True:\n    print("line", i, "of a flood that has no end at all")\n    i += 1')
    await cell(page, 0).getByText(/^… [\d,]+ lines left out …$/).waitFor()
    await page.getByRole('button', { name: 'Stop', exact: true }).first().click()
    const stopped = Date.now()
    await state(page, 0, 'error')
    await cell(page, 0).locator('.out-error').getByText('KeyboardInterrupt').first().waitFor()
    expect(Date.now() - stopped).toBeLessThan(120_000) // and not for ever
    await run(page, 'i')
    await state(page, 1, 'ok')
    const result = cell(page, 1).locator('.out-text, .out-rich').filter({ hasText: /\d/ }) // it is drawn after the state
    const last = Number(await result.innerText())
    const blocks = cell(page, 0).locator('.block')
    expect(await blocks.first().textContent()).toMatch(/^line 0 of a flood/)
    // The interrupt may have come between two parts of a line.
    expect(await blocks.last().textContent()).toMatch(
      new RegExp(`line (${last - 1}|${last}) of a flood that has no end at all\n(line[ 0-9a-z]*)?$`))
    expect(complaints.filter((x) => !x.includes('409'))).toEqual([]) // the file changed meanwhile
    await close()
  })

  it('gives hostile output nothing: no token, no page, no network', async () => {
    const { page, id, close } = await notebook()
    const hostile = `<p id=p>shown</p><a href="https://example.com/x">link</a><script>
      const out = []
      const attempt = async (name, f) => { try { out.push(name + ':' + await f()) } catch (e) { out.push(name + ':refused') } }
      ;(async () => {
        await attempt('origin', () => self.origin)
        await attempt('storage', () => localStorage.length)
        await attempt('parent', () => parent.document.title)
        await attempt('cookie', () => document.cookie)
        await attempt('top', () => { top.location = 'https://example.com/'; return 'moved' })
        await attempt('fetch', () => fetch('/v1/openapi.json').then((r) => r.status))
        await attempt('image', () => new Promise((ok, no) => { const i = new Image(); i.onload = () => ok('loaded'); i.onerror = no; i.src = '/assets/none.png' }))
        await attempt('popup', () => String(open('https://example.com/')))
        await attempt('worker', () => { new Worker('/assets/x.js'); return 'made' })
        await attempt('rtc', () => new Promise((ok, no) => { const p = new RTCPeerConnection({ iceServers: [{ urls: 'stun:127.0.0.1:9' }] }); p.createDataChannel('x'); p.onicecandidate = () => ok('gathered'); p.createOffer().then((o) => p.setLocalDescription(o)).catch(no); setTimeout(() => ok('made'), 2000) }))
        await attempt('frame', () => { const f = document.createElement('iframe'); document.body.append(f); return typeof f.contentWindow.RTCPeerConnection })
        await attempt('port', () => new Promise((ok, no) => { addEventListener('message', (e) => ok('heard')); parent.postMessage({ height: 1e9, link: 'javascript:alert(1)' }, '*'); setTimeout(no, 300) }))
        document.getElementById('p').textContent = out.join(' ')
      })()
    </script>`
    await run(page, `from IPython.display import *\ndisplay(HTML(${JSON.stringify(hostile)}), Markdown("<img src=x onerror='window.owned=1'> <script>window.owned=1</script> [x](javascript:window.owned=1)"), SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='window.owned=1'><script>window.owned=1</script></svg>"), Javascript("document.title='owned'; try { parent.owned = 1 } catch (e) {}"))`)
    await state(page, 0, 'ok')
    const p = page.frameLocator('[data-mime="text/html"] iframe').locator('#p')
    await expect.poll(() => p.innerText()).toContain('port:')
    expect((await p.innerText()).split(' ')).toEqual([
      'origin:null', 'storage:refused', 'parent:refused', 'cookie:refused', 'top:refused', 'fetch:refused', 'image:refused', 'popup:null', 'worker:refused', 'rtc:refused', 'frame:refused', 'port:refused',
    ])
    // A frame that navigates elsewhere does not succeed, and receives nothing more.
    await run(page, 'from IPython.display import *\nHTML("<script>location = \'https://example.com/\'</script>")')
    await state(page, 1, 'ok')
    await page.waitForLoadState()
    expect(page.url()).toBe(`${url}/s/${id}`)
    expect(page.frames().map((f) => f.url()).filter((u) => u.startsWith('https://example.com'))).toEqual([])
    expect(await page.evaluate(() => (window as { owned?: number }).owned)).toBeUndefined()
    // A link asks for confirmation first.
    await still(page.locator('[data-mime="text/html"] iframe').first())
    await page.frameLocator('[data-mime="text/html"] iframe').first().getByText('link').click()
    await page.getByRole('dialog', { name: 'Open this link?' }).waitFor()
    await close()
  })

  it('shows Vega and Plotly in the frame, from this server', async () => {
    const { page, complaints, close } = await notebook()
    await run(page, 'from IPython.display import display\ndisplay({"application/vnd.vegalite.v5+json": {"mark": "bar", "data": {"values": [{"a": "x", "b": 3}]}, "encoding": {"x": {"field": "a"}, "y": {"field": "b", "type": "quantitative"}}}}, raw=True)\ndisplay({"application/vnd.plotly.v1+json": {"data": [{"y": [1, 3, 2]}], "layout": {}}}, raw=True)')
    await state(page, 0, 'ok')
    await page.locator('[data-mime^="application/vnd.vegalite"]').scrollIntoViewIfNeeded()
    await page.frameLocator('[data-mime^="application/vnd.vegalite"] iframe').locator('canvas, svg').first().waitFor()
    await page.frameLocator('[data-mime^="application/vnd.plotly"] iframe').locator('.main-svg').first().waitFor()
    expect(complaints).toEqual([])
    await close()
  })

  it('opens a saved notebook whose sandbox is lost in a new session, in a browser that never saw it', async () => {
    const lost = await notebook()
    await run(lost.page, 'important = "my whole afternoon"\nprint(important.upper())')
    await state(lost.page, 0, 'ok')
    await saved(lost.page)
    await run(lost.page, 'python3 -c "[bytearray(64 << 20) for _ in iter(int, 1)]"', 'Bash')
    await lost.page.getByText('The session has ended.').waitFor({ timeout: 600_000 })
    const { page, context } = await open(browser, `/s/${lost.id}`)
    await page.getByText('The server still has the notebook.').waitFor()
    await shot(page, 'notebook-of-a-lost-session')
    await page.getByRole('button', { name: 'Open this notebook in a new session' }).click()
    await shows(page, 0, 'MY WHOLE AFTERNOON')
    await cell(page, 0).locator('.source').getByText('important.upper').waitFor()
    const id = new URL(page.url()).pathname.split('/')[2]!
    expect(id).not.toBe(lost.id)
    await context.close()
    await lost.close()
    await api('DELETE', `/v1/sessions/${id}`)
  })

  it('runs nothing by being opened, and says when a session is gone', async () => {
    const s = await session()
    const { page, context } = await open(browser, `/s/${s.id}`)
    await page.locator('.cell').first().waitFor()
    await shot(page, 'notebook-new')
    const { channels } = await api<{ channels: { end: number }[] }>('GET', `/v1/sessions/${s.id}`)
    expect(channels.every((c) => c.end === channels[0]!.end)).toBe(true)
    expect(await page.locator('.cell[data-state="none"]').count()).toBe(1)
    await s.end()
    await page.goto(`${url}/s/s-none`)
    await page.getByRole('heading', { name: 'This session has ended' }).waitFor()
    await context.close()
  })
})
