// Checks of older releases of the code interpreter.
import { assert, interpreter, suite, until } from './kit.mjs'

const check = suite('oldercode', { sdk: 'interpreter' })

check('run', [], async (t) => {
  const s = await t.shared()
  let line = ''
  const e = await s.runCode('print("out")\n6 * 7', { onStdout: (m) => { line += m.line } })
  assert.equal(e.text, '42')
  assert.equal(e.logs.stdout.join(''), 'out\n')
  assert.equal(line, 'out\n')
})

check('error', [], async (t) => {
  const s = await t.shared()
  const e = await s.runCode('1/0')
  assert.equal(e.error.name, 'ZeroDivisionError')
  assert.match(e.error.traceback, /Traceback/)
})

check('context', [], async (t) => {
  const s = await t.shared()
  const context = await s.createCodeContext({ cwd: '/tmp' })
  assert.equal((await s.runCode('import os; os.getcwd()', { context })).text, '/tmp')
})

check('language', [], async (t) => {
  const s = await t.shared()
  const e = await s.runCode('console.log(1 + 1)', { language: 'js' })
  assert.equal(e.logs.stdout.join(''), '2\n')
})

check('chart', [], async (t) => {
  const s = await t.shared()
  const e = await s.runCode('import matplotlib.pyplot as plt\nplt.bar(["a"], [1])\nplt.show()')
  assert.equal(e.results[0].chart.type, 'bar')
  assert.ok(e.results[0].png)
})

check('timeout', [], async (t) => {
  const s = await interpreter.Sandbox.create()
  t.defer(() => s.kill())
  const err = await s.runCode('import time; time.sleep(60)', { timeoutMs: 1000 }).catch((e) => e)
  assert.ok(err instanceof Error)
  await until('the kernel is free', async () => (await s.runCode('1')).text === '1')
})
