// The charts that are read from figures.
import { assert, suite } from './kit.mjs'

const check = suite('charts', { sdk: 'interpreter', timeout: 900_000 })

// chart draws with matplotlib and returns the chart of the only result.
async function chart(t, code) {
  const s = await t.shared()
  const e = await s.runCode(
    `import matplotlib.pyplot as plt\nplt.close("all")\n${code}\nplt.show()`)
  assert.equal(e.error, undefined, JSON.stringify(e.error))
  const result = e.results.find((r) => r.chart)
  assert.ok(result, JSON.stringify(e.results.map((r) => r.formats())))
  assert.ok(result.png)
  return result.chart
}

check('line', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, `plt.plot([1, 2, 3], [4, 5, 6], label="one")
plt.title("Title"); plt.xlabel("Time (s)"); plt.ylabel("Speed")`)
  assert.equal(c.type, 'line')
  assert.equal(c.title, 'Title')
  assert.equal(c.x_label, 'Time (s)')
  assert.equal(c.x_unit, 's')
  assert.equal(c.y_label, 'Speed')
  assert.equal(c.x_scale, 'linear')
  assert.deepEqual(c.elements, [{ label: 'one', points: [[1, 4], [2, 5], [3, 6]] }])
  assert.ok(c.x_ticks.length > 1 && c.x_tick_labels.length > 1)
})

check('lines', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, 'plt.plot([1, 2], [1, 2], label="a"); plt.plot([1, 2], [2, 1], label="b")')
  assert.deepEqual(c.elements.map((e) => e.label), ['a', 'b'])
})

check('scatter', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, 'plt.scatter([1, 2], [3, 4], label="dots")')
  assert.equal(c.type, 'scatter')
  assert.deepEqual(c.elements, [{ label: 'dots', points: [[1, 3], [2, 4]] }])
})

check('bar', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, 'plt.bar(["a", "b"], [3, 7], label="sales"); plt.ylabel("Amount")')
  assert.equal(c.type, 'bar')
  assert.deepEqual(c.elements.map((e) => [e.label, Number(e.value), e.group]),
    [['a', 3, 'sales'], ['b', 7, 'sales']])
})

check('pie', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, 'plt.pie([1, 3], labels=["a", "b"]); plt.title("Share")')
  assert.equal(c.type, 'pie')
  assert.equal(c.title, 'Share')
  assert.deepEqual(c.elements.map((e) => [e.label, Math.round(e.angle)]), [['a', 90], ['b', 270]])
})

check('box', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, 'plt.boxplot([[1, 2, 3, 4, 5], [2, 4, 6, 8, 100]])')
  assert.equal(c.type, 'box_and_whisker')
  assert.equal(c.elements.length, 2)
  const [first, second] = c.elements
  assert.deepEqual([first.min, first.first_quartile, first.median, first.third_quartile, first.max],
    [1, 2, 3, 4, 5])
  assert.deepEqual(second.outliers, [100])
})

check('superchart', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, `f, (a, b) = plt.subplots(1, 2)
a.plot([1, 2], [3, 4]); b.bar(["x"], [1]); f.suptitle("Both")`)
  assert.equal(c.type, 'superchart')
  assert.equal(c.title, 'Both')
  assert.deepEqual(c.elements.map((e) => e.type), ['line', 'bar'])
})

check('log-scale', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, 'plt.plot([1, 10, 100], [1, 2, 3]); plt.xscale("log")')
  assert.equal(c.x_scale, 'log')
  assert.equal(c.y_scale, 'linear')
})

check('dates', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, `import datetime as d
plt.plot([d.date(2026, 1, 1), d.date(2026, 1, 2)], [1, 2])`)
  assert.equal(c.x_scale, 'datetime')
  assert.match(String(c.elements[0].points[0][0]), /^2026-01-01/)
})

check('unknown', ['Sandbox#runCode'], async (t) => {
  const c = await chart(t, 'plt.imshow([[1, 2], [3, 4]])')
  assert.equal(c.type, 'unknown')
})
