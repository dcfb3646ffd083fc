// Tests that several pages edit one notebook together, in Chromium.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Cutter } from '../../../../client/typescript/test/rig.js'
import { api, barriers, launch, open, session, shot, token, url, watch } from './rig.js'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser?.close())

const code = (page: Page, n: number) => page.locator('.cell').nth(n).locator('.cm-content')
/** The text of a cell, without the others' cursors. */
const text = (page: Page, n: number) => code(page, n).evaluate((el) => [...el.querySelectorAll('.cm-line')].map((line) => {
  const copy = line.cloneNode(true) as Element
  copy.querySelectorAll('.cm-ySelectionCaret').forEach((c) => c.remove())
  return copy.textContent
}).join('\n'))
const sources = async (id: string) => (await api<{ cells: { source: string[] }[] }>('GET', `/v1/sessions/${id}/files/notebook.ipynb`)).cells.map((c) => c.source.join(''))

/** Two people, each in a browser of their own, at one notebook. */
async function two(at = url) {
  const s = await session()
  const first = await open(browser, `/s/${s.id}`)
  await code(first.page, 0).waitFor()
  const context = await browser.newContext({ reducedMotion: 'reduce', viewport: { width: 1280, height: 800 } })
  const page = await context.newPage()
  const complaints = watch(page)
  await page.goto(`${at}/s/${s.id}#token=${token}`)
  await code(page, 0).waitFor()
  const close = async () => {
    await first.context.close()
    await context.close()
    await s.end()
  }
  return { id: s.id, one: first.page, two: page, complaints: [first.complaints, complaints], close }
}

describe('two people in one notebook', () => {
  it('write in one cell without losing a letter, see each other, and save what both wrote', async () => {
    const { id, one, two: other, complaints, close } = await two()
    await code(one, 0).click()
    await one.keyboard.insertText('base')
    await expect.poll(() => text(other, 0)).toBe('base')
    await code(other, 0).click()
    await other.keyboard.press('Control+Home')
    await code(one, 0).press('Control+End')
    const back = Array.from({ length: 12 }, (_, i) => ` ${String.fromCharCode(65 + i).repeat(4)}`).join('')
    const front = Array.from({ length: 12 }, (_, i) => `${i}${i}${i} `).join('')
    await Promise.all([one.keyboard.type(back, { delay: 15 }), other.keyboard.type(front, { delay: 15 })])
    for (const p of [one, other]) await expect.poll(() => text(p, 0)).toBe(`${front}base${back}`)
    await expect.poll(() => sources(id)).toEqual([`${front}base${back}`])

    // Each sees the other's name, in the list and at the cursor.
    await one.getByRole('button', { name: /^People here/ }).click()
    await one.getByLabel('Your name').fill('Ada')
    await one.keyboard.press('Enter')
    await other.getByRole('button', { name: 'People here: Ada' }).waitFor()
    await code(one, 0).click()
    await other.locator('.cm-ySelectionInfo', { hasText: 'Ada' }).waitFor()
    await shot(other, 'together')

    // Undo takes back only what this user wrote.
    await code(other, 0).press('Control+z')
    await expect.poll(() => text(one, 0)).not.toContain(front)
    expect(await text(one, 0)).toContain(`base${back}`)
    await one.close()
    await other.locator('.cm-ySelectionInfo', { hasText: 'Ada' }).waitFor({ state: 'detached' })
    for (const c of complaints) expect(c.filter((x) => !x.includes('409'))).toEqual([])
    await close()
  })

  it('comment on a cell, answer, resolve, and find the comments again', async () => {
    const { id, one, two: other, complaints, close } = await two()
    await one.getByRole('button', { name: /^People here/ }).click()
    await one.getByLabel('Your name').fill('Ada')
    await one.keyboard.press('Enter')
    await code(one, 0).click()
    await one.keyboard.insertText('x = 1')
    await one.getByRole('button', { name: 'More for this cell' }).click()
    await one.getByRole('menuitem', { name: 'Comment on the cell' }).click()
    await one.getByLabel('Comment', { exact: true }).fill('Why 1?\nAnd not dd 2?') // keys of the notebook do nothing here
    await one.keyboard.press('Control+Enter')
    const comment = other.getByRole('article', { name: 'Comment by Ada' })
    await comment.getByText('Why 1?').waitFor()
    await other.getByLabel('Comment', { exact: true }).click()
    await other.keyboard.type('dd Because.')
    await other.getByRole('button', { name: 'Send' }).click()
    await one.getByText('dd Because.').waitFor()
    await shot(one, 'notebook-comments')
    await expect.poll(() => barriers(one)).toEqual([])
    const saved = async () => (await api<{ cells: { metadata: { sandgate?: { comments?: { by: string; text: string; resolved?: boolean }[] } } }[] }>('GET', `/v1/sessions/${id}/files/notebook.ipynb`)).cells.map((c) => c.metadata.sandgate?.comments?.map((x) => [x.text, x.resolved === true]))
    await expect.poll(saved).toEqual([[['Why 1?\nAnd not dd 2?', false], ['dd Because.', false]]])
    // The other one edits the code, and copies the cell without its comments.
    await code(other, 0).click()
    await other.keyboard.press('Control+End')
    await other.keyboard.type('0')
    await other.keyboard.press('Escape')
    await other.keyboard.press('c')
    await other.keyboard.press('v')
    await expect.poll(() => one.locator('.cell').count()).toBe(2)
    expect(await one.locator('.cell').nth(1).locator('.comment').count()).toBe(0)
    await one.getByRole('button', { name: 'Resolve', exact: true }).click()
    const folded = other.getByRole('button', { name: '2 comments, resolved' })
    await folded.waitFor()
    await expect.poll(saved).toEqual([[['Why 1?\nAnd not dd 2?', true], ['dd Because.', true]], undefined])
    await other.reload()
    await folded.click()
    await comment.getByText('Why 1?').waitFor()
    await comment.getByRole('button', { name: 'Delete the comment by Ada' }).click()
    await other.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click()
    await comment.waitFor({ state: 'detached' })
    await one.getByRole('button', { name: '1 comment, resolved' }).waitFor()
    expect(await sources(id)).toEqual(['x = 10', 'x = 10'])
    for (const c of complaints) expect(c.filter((x) => !x.includes('409'))).toEqual([])
    await close()
  })

  it('add, move and remove cells at the same time, and see the output of both', async () => {
    const { id, one, two: other, complaints, close } = await two()
    await code(one, 0).click()
    await one.keyboard.insertText('print("first")')
    await one.keyboard.press('Shift+Enter') // which adds a cell
    await other.locator('.cell').first().getByText('first', { exact: true }).waitFor()
    await expect.poll(() => other.locator('.cell').count()).toBe(2)
    await code(one, 1).click()
    await code(other, 1).click()
    await Promise.all([one.keyboard.type('left = 1\n'), other.keyboard.type('right = 2\n')])
    for (const p of [one, other]) {
      await expect.poll(async () => (await text(p, 1)).split('\n').sort()).toEqual(['', 'left = 1', 'right = 2'])
    }
    // One moves the cell that the other one edits, and adds another.
    await one.keyboard.press('Escape')
    await one.keyboard.press('Control+Shift+ArrowUp')
    await other.keyboard.type('# more')
    await one.keyboard.press('a')
    for (const p of [one, other]) {
      await expect.poll(() => p.locator('.cell').count()).toBe(3)
      await expect.poll(() => text(p, 1)).toContain('# more')
    }
    // The other one sees a cell removed and restored, with its text.
    await one.locator('.cell').nth(1).click({ position: { x: 3, y: 3 } })
    await one.keyboard.press('x')
    await expect.poll(() => other.locator('.cell').count()).toBe(2)
    await one.keyboard.press('z')
    await expect.poll(() => text(other, 1)).toContain('# more')
    // A program changes the file.
    await expect.poll(async () => (await sources(id)).length).toBe(3)
    for (const p of [one, other]) await p.locator('.save-state.saved').waitFor()
    const path = `/v1/sessions/${id}/files/notebook.ipynb`
    const n = await api<{ cells: { source: string[] }[] }>('GET', path)
    n.cells.push({ cell_type: 'code', execution_count: null, id: 'program', metadata: {}, outputs: [], source: ['by = "a program"'] } as never)
    await fetch(url + path, { method: 'PUT', headers: { Authorization: `Bearer ${token}` }, body: JSON.stringify(n) })
    for (const p of [one, other]) {
      await p.mouse.move(5, 5)
      await expect.poll(() => p.locator('.cell').count()).toBe(4)
      await expect.poll(() => text(p, 3)).toBe('by = "a program"')
    }
    for (const c of complaints) expect(c.filter((x) => !x.includes('409'))).toEqual([])
    await close()
  })

  it('keep what each wrote while one was away', async () => {
    const cutter = await Cutter.start(url, 0, 1, 7)
    const { id, one, two: other, close } = await two(cutter.url)
    try {
      await code(one, 0).click()
      await one.keyboard.insertText('x = 1\n')
      await expect.poll(() => text(other, 0)).toBe('x = 1\n')
      cutter.cuts = 100_000
      cutter.cutNow()
      await other.getByRole('status').getByText('Reconnecting. Your code keeps running').waitFor()
      await code(other, 0).click()
      await other.keyboard.press('Control+Home')
      await other.keyboard.type('# written offline\n')
      await one.keyboard.type('y = 2\n')
      await expect.poll(() => sources(id)).toEqual(['x = 1\ny = 2\n'])
      cutter.cuts = 0
      for (const p of [one, other]) await expect.poll(() => text(p, 0)).toBe('# written offline\nx = 1\ny = 2\n')
      await expect.poll(() => sources(id)).toEqual(['# written offline\nx = 1\ny = 2\n'])
    } finally {
      await close()
      cutter.stop()
    }
  })
})

describe('a notebook whose session has ended', () => {
  it('opens in a new session with its outputs, from the page and after a reload', async () => {
    const s = await session()
    const { page, context } = await open(browser, `/s/${s.id}`)
    await code(page, 0).click()
    await page.keyboard.insertText('important = "my whole afternoon"\nprint(important)')
    await page.keyboard.press('Shift+Enter')
    await page.locator('.cell').first().getByText('my whole afternoon', { exact: true }).waitFor()
    await expect.poll(async () => (await sources(s.id)).length).toBe(2)
    await page.locator('.save-state.saved').waitFor()
    await s.end()
    await code(page, 1).click()
    await page.keyboard.insertText('typed = "after the end"')
    await page.getByRole('alert').getByText('The session has ended.').waitFor()
    await page.getByRole('button', { name: 'Kernels: Ended' }).waitFor()
    await shot(page, 'session-ended')
    await page.reload()
    await page.getByText('This browser still has the notebook.').waitFor()
    await shot(page, 'session-ended-reload')
    await page.getByRole('button', { name: 'Open this notebook in a new session' }).click()
    await page.waitForURL((u) => !u.pathname.includes(s.id))
    await expect.poll(() => text(page, 0)).toBe('important = "my whole afternoon"\nprint(important)')
    await page.locator('.cell').first().locator('.output').getByText('my whole afternoon').waitFor()
    expect(await text(page, 1)).toBe('typed = "after the end"')
    const id = new URL(page.url()).pathname.split('/')[2]!
    await api('DELETE', `/v1/sessions/${id}`)
    await page.mouse.move(9, 9)
    await page.getByRole('alert').getByText('The session has ended.').waitFor()
    await page.getByRole('button', { name: 'Open this notebook in a new session' }).click()
    await page.waitForURL((u) => !u.pathname.includes(id))
    await expect.poll(() => text(page, 1)).toBe('typed = "after the end"')
    await api('DELETE', `/v1/sessions/${new URL(page.url()).pathname.split('/')[2]!}`)
    await context.close()
  })
})
