// Tests what the notebook knows about the types in its code, in Chromium, with real kernels.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { barriers, launch, open, session, shot } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const cell = (page: Page, n: number) => page.locator('.cell').nth(n)
const code = (page: Page, n: number) => cell(page, n).locator('.cm-content')
const text = async (page: Page, n: number) => (await cell(page, n).locator('.cm-line').allInnerTexts()).map((line) => line.replaceAll(/[\u200b\n]/g, '')).join('\n')
const problems = (page: Page, n: number) => cell(page, n).getByRole('group', { name: 'Problems' })

/** Opens a notebook with two cells of a language, of which the first has run. */
async function notebook(language: string, first: string) {
  const s = await session(language)
  const opened = await open(browser, `/s/${s.id}`)
  const { page } = opened
  await code(page, 0).waitFor()
  await code(page, 0).click()
  await page.keyboard.insertText(first)
  await page.keyboard.press('Shift+Enter')
  await cell(page, 0).and(page.locator('[data-state="ok"]')).waitFor()
  await code(page, 1).waitFor()
  await code(page, 1).click()
  return { ...opened, async close() { await opened.context.close(); await s.end() } }
}

async function cursor(page: Page, n: number, before: string) {
  await code(page, n).click()
  const at = (await text(page, n)).indexOf(before)
  await page.keyboard.press('Control+Home')
  for (let i = 0; i < at; i++) await page.keyboard.press('ArrowRight')
}

async function replace(page: Page, source: string) {
  await page.keyboard.press('Control+a')
  await page.keyboard.press('Delete')
  if (source) await page.keyboard.insertText(source)
}

/** Uses everything that an editor offers for code of a language. */
async function tour(o: {
  language: string
  first: string
  member: { typed: string; offered: string[] }
  call: { typed: string; label: string; first: string; second: string; doc: string }
  hover: { source: string; word: string; said: RegExp }
  wrong: { source: string; mark: string; message: string | RegExp; right: string }
  definition: { source: string; line: string }
  rename: { from: string; to: string; taken: string; refusal: string; cells: [string, string] }
  format: { source: string; result: string }
}) {
  const { page, complaints, close } = await notebook(o.language, o.first)
  // Completion of members, while code is typed.
  const popup = page.locator('.cm-tooltip-autocomplete')
  await page.keyboard.type(o.member.typed)
  await popup.getByText(o.member.offered[0]!, { exact: true }).waitFor()
  expect((await popup.locator('.cm-completionLabel').allInnerTexts()).sort()).toEqual(o.member.offered)
  await shot(page, `types-${o.language}-completion`)
  expect(await page.locator('.cm-signature').count()).toBe(0)
  // The signature, and the parameter at the cursor.
  await replace(page, '')
  await page.keyboard.type(o.call.typed)
  const signature = page.locator('.cm-signature')
  await signature.getByText(o.call.first, { exact: true }).waitFor()
  expect(await signature.innerText()).toContain(o.call.label)
  await page.keyboard.type('1, ')
  await expect.poll(() => signature.locator('strong').innerText()).toBe(o.call.second)
  expect(await signature.innerText()).toContain(o.call.doc)
  await shot(page, `types-${o.language}-signature`)
  expect(await barriers(page)).toEqual([])
  // The description of a name below the pointer.
  await replace(page, o.hover.source)
  await cursor(page, 1, o.hover.word)
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('Shift+Tab')
  await expect.poll(() => page.locator('.cm-inspect').innerText()).toMatch(o.hover.said)
  await shot(page, `types-${o.language}-hover`)
  // Problems, before the code runs.
  await replace(page, o.wrong.source)
  await problems(page, 1).getByRole('button', { name: o.wrong.message }).waitFor()
  expect(await cell(page, 1).locator('.cm-problem.error').first().innerText()).toBe(o.wrong.mark)
  await shot(page, `types-${o.language}-problem`)
  await replace(page, o.wrong.right)
  await expect.poll(() => problems(page, 1).count()).toBe(0)
  // Format.
  await replace(page, o.format.source)
  await page.keyboard.press('Alt+Shift+F')
  await expect.poll(() => text(page, 1)).toBe(o.format.result)
  // The definition is in another cell.
  await code(page, 1).click()
  await replace(page, o.definition.source)
  await cursor(page, 1, o.rename.from)
  await page.keyboard.press('F12')
  await expect.poll(() => cell(page, 0).getAttribute('class')).toContain('active')
  await expect.poll(() => page.evaluate(() => getSelection()!.anchorNode!.parentElement!.closest('.cm-line')!.textContent)).toBe(o.definition.line)
  // A new name in all cells.
  await cursor(page, 1, o.rename.from)
  await page.keyboard.press('F2')
  const dialog = page.getByRole('dialog', { name: `Rename ${o.rename.from}` })
  await dialog.getByRole('textbox').fill(o.rename.taken)
  await shot(page, `types-${o.language}-rename`)
  await page.keyboard.press('Enter')
  await page.getByText(o.rename.refusal).waitFor()
  await page.getByRole('button', { name: 'Dismiss' }).click()
  await cursor(page, 1, o.rename.from)
  await page.keyboard.press('F2')
  await dialog.getByRole('textbox').fill(o.rename.to)
  await page.keyboard.press('Enter')
  await expect.poll(async () => [await text(page, 0), await text(page, 1)]).toEqual(o.rename.cells)
  expect(complaints).toEqual([])
  await close()
}

it('knows the types of TypeScript', async () => {
  await tour({
    language: 'typescript',
    first: 'interface Plot { width: number; height: number }\n/** Measures a plot. */\nfunction area(w: number, h: number): Plot { return { width: w, height: h } }\nconst other = 1',
    member: { typed: 'area(1, 2).', offered: ['height', 'width'] },
    call: { typed: 'area(', label: 'area(w: number, h: number): Plot', first: 'w: number', second: 'h: number', doc: 'Measures a plot.' },
    hover: { source: 'area(1, 2)', word: 'area', said: /function area\(w: number, h: number\): Plot\s+Measures a plot\./ },
    wrong: { source: 'const label: string = area(1, 2).width', mark: 'label', message: "Line 1: Type 'number' is not assignable to type 'string'.", right: 'const label: number = area(1, 2).width' },
    format: { source: 'if(other){\n  area( 1,2 )\n}', result: 'if (other) {\n  area(1, 2)\n}' },
    definition: { source: 'const tools = { area };\ntools.area(1, 2)', line: 'function area(w: number, h: number): Plot { return { width: w, height: h } }' },
    rename: {
      from: 'area', to: 'surface', taken: 'other', refusal: 'other is already a name here',
      cells: [
        'interface Plot { width: number; height: number }\n/** Measures a plot. */\nfunction surface(w: number, h: number): Plot { return { width: w, height: h } }\nconst other = 1',
        'const tools = { area: surface };\ntools.area(1, 2)',
      ],
    },
  })
})

it('knows the types of Go', async () => {
  await tour({
    language: 'go',
    first: 'type Plot struct{ Width, Height int }\n\n// area measures a plot.\nfunc area(w, h int) Plot { return Plot{w, h} }\n\nother := 1',
    member: { typed: 'area(1, 2).', offered: ['Height', 'Width'] },
    call: { typed: 'area(', label: 'func area(w int, h int) Plot', first: 'w int', second: 'h int', doc: 'area measures a plot.' },
    hover: { source: 'area(1, 2)', word: 'area', said: /func area\(w int, h int\) Plot\s+area measures a plot\./ },
    wrong: { source: 'var label string = area(1, 2)', mark: 'area', message: /^Line 1: cannot use area\(1, 2\)/, right: 'label := area(1, 2)' },
    format: { source: 'if other>0{\narea( 1,2 )\n}', result: 'if other > 0 {\n\tarea(1, 2)\n}' },
    definition: { source: 'x := area(1, 2)\nx.Width', line: 'func area(w, h int) Plot { return Plot{w, h} }' },
    rename: {
      from: 'area', to: 'surface', taken: 'other', refusal: 'other is already a name here',
      cells: [
        'type Plot struct{ Width, Height int }\n\n// area measures a plot.\nfunc surface(w, h int) Plot { return Plot{w, h} }\n\nother := 1',
        'x := surface(1, 2)\nx.Width',
      ],
    },
  })
})

it('answers while a cell runs', async () => {
  const { page, complaints, close } = await notebook('typescript', 'interface Plot { width: number }\nfunction plot(): Plot { return { width: 1 } }')
  await replace(page, 'for (;;) {}')
  await page.keyboard.press('Shift+Enter')
  await cell(page, 1).and(page.locator('[data-state="running"]')).waitFor()
  await code(page, 2).waitFor()
  await code(page, 2).click()
  await page.keyboard.type('plot().')
  await page.locator('.cm-tooltip-autocomplete').getByText('width', { exact: true }).waitFor()
  await replace(page, 'const x: string = plot().width')
  await problems(page, 2).getByRole('button', { name: "Line 1: Type 'number' is not assignable to type 'string'." }).waitFor()
  expect(await cell(page, 1).getAttribute('data-state')).toBe('running')
  await page.getByRole('button', { name: /^Stop/ }).first().click()
  await cell(page, 1).and(page.locator('[data-state="error"]')).waitFor()
  expect(complaints).toEqual([])
  await close()
})
