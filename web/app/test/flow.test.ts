import { afterAll, describe, expect, it, vi } from 'vitest'
import { Flow } from '../src/notebook/flow'
import { OutputView } from '../src/notebook/output'
import { drawn } from '../src/notebook/frames'

// A drawing that is still planned would run without a document.
afterAll(() => drawn())

const line = (i: number) => `line ${String(i).padStart(6, '0')} ${'x'.repeat(50)}\n`

/** Adds lines as a kernel does, some at a time. */
function print(flow: Flow, out: OutputView, from: number, to: number): void {
  for (let i = from; i < to; i += 100) flow.text(out, Array.from({ length: Math.min(100, to - i) }, (_, n) => line(i + n)).join(''), false)
}

const text = (out: OutputView) => out.toJSON().map((o) => (o.output_type === 'stream' ? o.text : o.output_type === 'error' ? o.ename : 'display')).join('')
const all = async (flow: Flow, out: OutputView) => {
  const done = new Promise<void>((resolve) => flow.then(out, resolve))
  await vi.waitFor(() => done, { timeout: 20_000 })
}

describe('the output of a kernel', () => {
  it('is drawn at once if it is short, and in order', () => {
    const [flow, out] = [new Flow(), new OutputView()]
    flow.text(out, 'a\n', false)
    flow.then(out, () => out.error({ ename: 'E', evalue: '', traceback: [] }))
    flow.text(out, 'b\n', true)
    expect(text(out)).toBe('a\nEb\n')
  })

  it('loses no line while the page keeps up, and skips only text when it does not', async () => {
    const [flow, out] = [new Flow(), new OutputView()]
    print(flow, out, 0, 10_000)
    await all(flow, out)
    expect(out.lines).toBe(10_000)
    out.clear()

    print(flow, out, 0, 200_000) // 13 MB at once
    flow.then(out, () => out.error({ ename: 'First', evalue: '', traceback: [] }))
    print(flow, out, 200_000, 400_000)
    flow.then(out, () => out.error({ ename: 'Last', evalue: '', traceback: [] }))
    await all(flow, out)
    const json = out.toJSON()
    expect(json.map((o) => o.output_type)).toEqual(['stream', 'error', 'stream', 'error'])
    const shown = text(out)
    expect(shown.startsWith(line(0) + line(1))).toBe(true)
    expect(shown).toContain(`${line(399_999)}Last`)
    // The lines that are shown and those that are left out are all lines.
    const notes = [...out.el.querySelectorAll('.left-out')].map((n) => Number(/[\d,]+/.exec(n.textContent)![0].replaceAll(',', '')))
    expect(out.lines + notes.reduce((a, b) => a + b, 0)).toBe(400_000 + 2) // with the two errors
    expect(out.lines).toBeLessThan(150_000)
  })

  it('forgets what waits when the cell runs again', async () => {
    const [flow, out] = [new Flow(), new OutputView()]
    let kept = 0
    print(flow, out, 0, 50_000)
    flow.then(out, () => out.error({ ename: 'Old', evalue: '', traceback: [] }))
    flow.then(out, () => kept++, true)
    flow.forget(out)
    out.clear()
    flow.text(out, 'new\n', false)
    await all(flow, out)
    expect(text(out)).toBe('new\n')
    expect(kept).toBe(1)
  })

  it('makes a program wait that shows more than the page can', async () => {
    const [flow, out] = [new Flow(), new OutputView()]
    for (let i = 0; i < 300; i++) flow.then(out, () => {})
    let room = false
    const told = flow.room().then(() => (room = true))
    await Promise.resolve()
    expect(room).toBe(false)
    await told
  })
})
