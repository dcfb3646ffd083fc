// Running code, and contexts.
import { assert, e2b, fails, interpreter, pause, suite, until } from './kit.mjs'

const { Sandbox } = interpreter
const check = suite('code', { sdk: 'interpreter' })

// run runs code in a context of its own, so that checks do not see each other's.
async function run(t, code, options = {}) {
  const s = await t.shared()
  const context = options.language ? undefined : await own(t)
  return s.runCode(code, { ...(context && { context }), ...options })
}

// own is the context of a check.
async function own(t) {
  t.context ??= (async () => {
    const s = await t.shared()
    const context = await s.createCodeContext()
    t.defer(() => s.removeCodeContext(context))
    return context
  })()
  return t.context
}

check('result', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'x = 20; x + 22')
  assert.equal(e.text, '42')
  assert.equal(e.results.length, 1)
  assert.equal(e.results[0].isMainResult, true)
  assert.equal(e.error, undefined)
  assert.deepEqual(e.logs, { stdout: [], stderr: [] })
})

check('output', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'import sys\nprint("out")\nprint("err", file=sys.stderr)')
  assert.equal(e.logs.stdout.join(''), 'out\n')
  assert.equal(e.logs.stderr.join(''), 'err\n')
  assert.equal(e.text, undefined)
})

check('default-context', ['Sandbox#runCode', 'Sandbox.create'], async (t) => {
  const s = await Sandbox.create()
  t.defer(() => s.kill())
  await s.runCode('x = 1')
  const e = await s.runCode('x += 1; x')
  assert.equal(e.text, '2')
  assert.equal((await s.runCode('import os; os.getcwd()')).text, '/home/user')
})

check('callbacks', ['Sandbox#runCode(onStdout, onStderr, onResult, onError)'], async (t) => {
  const seen = { out: '', err: '', results: [], error: undefined }
  const e = await run(t, 'import sys\nprint(1)\nprint(2, file=sys.stderr)\ndisplay(3)\n1/0', {
    onStdout: (m) => { seen.out += m.line; assert.equal(m.error, false) },
    onStderr: async (m) => { seen.err += m.line; assert.equal(m.error, true) },
    onResult: (r) => { seen.results.push(r.text) },
    onError: (err) => { seen.error = err }
  })
  assert.equal(seen.out, '1\n')
  assert.equal(seen.err, '2\n')
  assert.deepEqual(seen.results, ['3'])
  assert.equal(seen.error.name, 'ZeroDivisionError')
  assert.equal(e.error, seen.error)
})

check('error', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'def f():\n    raise ValueError("so it is")\nf()')
  assert.equal(e.error.name, 'ValueError')
  assert.equal(e.error.value, 'so it is')
  assert.match(e.error.traceback, /Traceback.*line 2.*so it is/s)
  assert.ok(!e.error.traceback.includes('\x1b'), 'no colours')
})

check('syntax-error', ['Sandbox#runCode'], async (t) => {
  assert.equal((await run(t, 'a b c')).error.name, 'SyntaxError')
})

check('state', ['Sandbox#runCode'], async (t) => {
  await run(t, 'import math\ndef f(x): return math.sqrt(x)')
  assert.equal((await run(t, 'f(16)')).text, '4.0')
})

check('count', ['Sandbox#runCode'], async (t) => {
  const first = await run(t, '1')
  const second = await run(t, '2')
  assert.equal(second.executionCount, first.executionCount + 1)
})

check('displays', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'display("a"); display("b"); "c"')
  assert.deepEqual(e.results.map((r) => [r.text, r.isMainResult]),
    [['a', false], ['b', false], ['c', true]])
  assert.equal(e.text, 'c')
})

// Each type of a display has a field of the result.
for (const [type, field, data] of [
  ['text/html', 'html', '<b>x</b>'],
  ['text/markdown', 'markdown', '# x'],
  ['image/svg+xml', 'svg', '<svg></svg>'],
  ['image/png', 'png', 'iVBORw0KGgo='],
  ['image/jpeg', 'jpeg', '/9j/4AAQ'],
  ['application/pdf', 'pdf', 'JVBERi0x'],
  ['text/latex', 'latex', '$x^2$'],
  ['application/javascript', 'javascript', 'alert(1)']
]) {
  check(`format-${field}`, ['Sandbox#runCode'], async (t) => {
    const e = await run(t, `from IPython.display import display
display({${JSON.stringify(type)}: ${JSON.stringify(data)}, "text/plain": "plain"}, raw=True)`)
    assert.equal(e.results[0][field]?.trim(), data)
    assert.equal(e.results[0].text, 'plain')
    assert.ok(e.results[0].formats().includes(field))
  })
}

check('format-json', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'from IPython.display import JSON\nJSON({"a": [1, 2]})')
  assert.deepEqual(e.results[0].json, { a: [1, 2] })
})

check('format-other', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, `from IPython.display import display
display({"application/x-mine": "data", "text/plain": "p"}, raw=True)`)
  assert.equal(e.results[0].raw.extra['application/x-mine'], 'data')
})

check('format-data', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["x", "y"]})')
  assert.deepEqual(e.results[0].data, { a: [1, 2], b: ['x', 'y'] })
  assert.match(e.results[0].html, /<table/)
})

check('to-json', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'print(1)\n2')
  const json = JSON.parse(JSON.stringify(e))
  assert.equal(json.results[0].text, '2')
  assert.deepEqual(json.logs.stdout, ['1\n'])
})

check('envs', ['Sandbox#runCode(envs)'], async (t) => {
  const e = await run(t, 'import os; os.environ.get("MINE")', { envs: { MINE: 'yes' } })
  assert.equal(e.text, 'yes')
  assert.equal((await run(t, 'str(os.environ.get("MINE"))')).text, 'None')
})

check('sandbox-envs', ['Sandbox.create(envs)'], async (t) => {
  const s = await Sandbox.create({ envs: { OF_SANDBOX: 'x' } })
  t.defer(() => s.kill())
  assert.equal((await s.runCode('import os; os.environ["OF_SANDBOX"]')).text, 'x')
  const over = await s.runCode('os.environ["OF_SANDBOX"]', { envs: { OF_SANDBOX: 'y' } })
  assert.equal(over.text, 'y')
  assert.equal((await s.runCode('os.environ["OF_SANDBOX"]')).text, 'x')
})

// Each language runs a program and prints the text.
for (const [language, code, want] of [
  ['javascript', 'console.log([1, 2].map((x) => x * 2).join())', '2,4\n'],
  ['js', 'console.log(1 + 1)', '2\n'],
  ['typescript', 'const x: number = 3; console.log(x)', '3\n'],
  ['ts', 'const y: string = "t"; console.log(y)', 't\n'],
  ['bash', 'for i in 1 2; do echo $i; done', '1\n2\n'],
  ['java', 'System.out.println("java " + (1 + 1));', 'java 2\n'],
  ['go', 'import "fmt"\nfmt.Println("go", 1+1)', 'go 2\n'],
  ['php', 'echo "php ", 1 + 1, "\\n";', 'php 2\n']
]) {
  check(`language-${language}`, ['Sandbox#runCode(language)'], async (t) => {
    const s = await t.shared()
    const e = await s.runCode(code, { language })
    assert.equal(e.error, undefined, JSON.stringify(e.error))
    assert.equal(e.logs.stdout.join(''), want)
  })
}

check('language-sql', ['Sandbox#runCode(language)'], async (t) => {
  const s = await t.shared()
  const e = await s.runCode('select 40 + 2 as answer', { language: 'sql' })
  assert.match(JSON.stringify(e), /42/)
})

check('language-state', ['Sandbox#runCode(language)'], async (t) => {
  const s = await t.shared()
  await s.runCode('var kept = 5', { language: 'javascript' })
  assert.equal((await s.runCode('kept + 1', { language: 'JavaScript ' })).text, '6')
})

check('language-r', ['Sandbox#runCode(language r)'], async (t) => {
  const s = await t.shared()
  await fails(s.runCode('1', { language: 'r' }))
}, { refuses: 'R is not in the image' })

check('language-unknown', ['Sandbox#runCode(language)'], async (t) => {
  const s = await t.shared()
  await fails(s.runCode('1', { language: 'klingon' }), interpreter.SandboxError)
})

check('context', ['Sandbox#createCodeContext', 'Sandbox#runCode(context)'], async (t) => {
  const s = await t.shared()
  const context = await s.createCodeContext()
  t.defer(() => s.removeCodeContext(context))
  assert.ok(context.id)
  assert.equal(context.language, 'python')
  assert.equal(context.cwd, '/home/user')
  await s.runCode('only_here = 1', { context })
  assert.equal((await s.runCode('only_here', { context })).text, '1')
  assert.equal((await s.runCode('only_here')).error.name, 'NameError')
})

check('context-options', ['Sandbox#createCodeContext(cwd, language)'], async (t) => {
  const s = await t.shared()
  const context = await s.createCodeContext({ cwd: '/tmp', language: 'javascript' })
  t.defer(() => s.removeCodeContext(context))
  assert.equal(context.language, 'javascript')
  assert.equal(context.cwd, '/tmp')
  assert.equal((await s.runCode('process.cwd()', { context })).text, '/tmp')
})

check('context-python-cwd', ['Sandbox#createCodeContext(cwd)'], async (t) => {
  const s = await t.shared()
  await s.files.makeDir('/home/user/of-context')
  const context = await s.createCodeContext({ cwd: '/home/user/of-context' })
  t.defer(() => s.removeCodeContext(context))
  assert.equal((await s.runCode('import os; os.getcwd()', { context })).text,
    '/home/user/of-context')
})

check('context-list', ['Sandbox#listCodeContexts'], async (t) => {
  const s = await t.shared()
  const context = await s.createCodeContext()
  t.defer(() => s.removeCodeContext(context))
  const all = await s.listCodeContexts()
  assert.ok(all.some((c) => c.id === context.id))
  assert.ok(all.some((c) => c.language === 'python' && c.id !== context.id))
})

check('context-restart', ['Sandbox#restartCodeContext'], async (t) => {
  const s = await t.shared()
  const context = await s.createCodeContext()
  t.defer(() => s.removeCodeContext(context))
  await s.runCode('gone = 1', { context })
  await s.restartCodeContext(context)
  assert.equal((await s.runCode('gone', { context })).error.name, 'NameError')
  await s.restartCodeContext(context.id)
  assert.equal((await s.runCode('1', { context })).text, '1')
})

check('context-remove', ['Sandbox#removeCodeContext'], async (t) => {
  const s = await t.shared()
  const one = await s.createCodeContext()
  const two = await s.createCodeContext()
  await s.removeCodeContext(one)
  await s.removeCodeContext(two.id)
  const left = (await s.listCodeContexts()).map((c) => c.id)
  assert.ok(!left.includes(one.id) && !left.includes(two.id))
  await fails(s.runCode('1', { context: one }), interpreter.NotFoundError)
  await fails(s.removeCodeContext(one), interpreter.NotFoundError)
  await fails(s.restartCodeContext('no-such-context'), interpreter.NotFoundError)
})

check('context-and-language', ['Sandbox#runCode(context, language)'], async (t) => {
  const s = await t.shared()
  const context = await own(t)
  await fails(s.runCode('1', { context, language: 'python' }), interpreter.InvalidArgumentError)
})

check('contexts-run-side-by-side', ['Sandbox#runCode(context)'], async (t) => {
  const s = await t.shared()
  const contexts = await Promise.all([s.createCodeContext(), s.createCodeContext()])
  t.defer(() => Promise.all(contexts.map((c) => s.removeCodeContext(c))))
  // Each of them waits for the other one.
  const code = (own, other) => `import os, time
os.makedirs('${t.path()}', exist_ok=True)
open('${t.path(own)}', 'w').close()
end = time.time() + 50
while not os.path.exists('${t.path(other)}') and time.time() < end: time.sleep(0.05)
os.path.exists('${t.path(other)}')`
  const met = await Promise.all([['one', 'two'], ['two', 'one']].map(([own, other], i) =>
    s.runCode(code(own, other), { context: contexts[i] })))
  assert.deepEqual(met.map((e) => e.text), ['True', 'True'])
})

check('one-after-the-other', ['Sandbox#runCode'], async (t) => {
  const s = await t.shared()
  const context = await own(t)
  await s.runCode('order = []', { context })
  await Promise.all([1, 2, 3].map((i) =>
    s.runCode(`import time; order.append("in"); time.sleep(0.1); order.append("out")`, { context })))
  assert.equal((await s.runCode('order', { context })).text,
    "['in', 'out', 'in', 'out', 'in', 'out']")
})

check('timeout', ['Sandbox#runCode(timeoutMs)'], async (t) => {
  const s = await t.shared()
  const context = await own(t)
  await fails(s.runCode('import time; time.sleep(3600)', { context, timeoutMs: 1000 }),
    interpreter.TimeoutError)
  assert.equal((await s.runCode('"free"', { context, timeoutMs: 600_000 })).text, 'free')
})

check('request-timeout', ['Sandbox#runCode(requestTimeoutMs)'], async (t) => {
  const e = await run(t, 'import time; time.sleep(2); "late"', { requestTimeoutMs: 1500 })
  assert.equal(e.text, 'late')
})

check('crash', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'import os; os._exit(1)')
  assert.equal(e.error.name, 'ContextRestarting')
  await until('the kernel is back', async () => (await run(t, '"back"')).text === 'back')
})

check('unicode', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'print("äöü 日本語 🚀" * 2000)\n"é"')
  assert.equal(e.logs.stdout.join(''), 'äöü 日本語 🚀'.repeat(2000) + '\n')
  assert.equal(e.text, 'é')
})

check('large-output', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'for i in range(20000): print("x" * 99)')
  assert.equal(e.logs.stdout.join('').length, 2_000_000)
})

// The cell ends when the client has written a file, which it does when it gets the first output.
check('output-comes-at-once', ['Sandbox#runCode(onStdout)'], async (t) => {
  const s = await t.shared()
  const code = `import os, time
print("a", flush=True)
for _ in range(400):
  if os.path.exists("/home/user/at-once-code"): break
  time.sleep(0.1)
else: print("late")`
  const lines = []
  let written
  await s.runCode(code, {
    context: await own(t),
    onStdout: (m) => {
      if (m.line.trim()) lines.push(m.line.trim()) // print can send the end of the line apart
      written ??= s.files.write('/home/user/at-once-code', '')
    }
  })
  await written
  assert.deepEqual(lines, ['a'])
})

check('order', ['Sandbox#runCode'], async (t) => {
  const seen = []
  await run(t, 'import sys\nfor i in range(5):\n  print(i, flush=True); display(i)', {
    onStdout: (m) => m.line.trim() && seen.push(m.line.trim()),
    onResult: (r) => seen.push(`r${r.text}`)
  })
  assert.deepEqual(seen, [0, 1, 2, 3, 4].flatMap((i) => [`${i}`, `r${i}`]))
})

check('no-input', ['Sandbox#runCode'], async (t) => {
  assert.equal((await run(t, 'input("name? ")')).error.name, 'StdinNotImplementedError')
})

check('await', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, 'import asyncio\nawait asyncio.sleep(0.01)\n"awaited"')
  assert.equal(e.text, 'awaited')
})

check('shell-escape', ['Sandbox#runCode'], async (t) => {
  assert.match((await run(t, '!echo from the shell')).logs.stdout.join(''), /from the shell/)
})

check('files', ['Sandbox#runCode', 'Filesystem#write'], async (t) => {
  const s = await t.shared()
  await s.files.write('of-code.csv', 'a,b\n1,2\n')
  assert.equal((await run(t, 'open("of-code.csv").read().count(",")')).text, '2')
  await run(t, 'open("made.txt", "w").write("by code")')
  assert.equal(await s.files.read('made.txt'), 'by code')
})

check('killed', ['Sandbox#runCode', 'Sandbox#kill'], async (t) => {
  const s = await Sandbox.create()
  const running = fails(s.runCode('import time; time.sleep(60)'), interpreter.TimeoutError, /killed/)
  await pause(1000)
  await s.kill()
  await running
  await fails(s.runCode('1'), interpreter.TimeoutError, /killed/)
})

check('empty', ['Sandbox#runCode'], async (t) => {
  const e = await run(t, '')
  assert.deepEqual([e.results, e.error], [[], undefined])
})

check('client', ['new E2B', 'Sandbox#runCode'], async (t) => {
  const client = new interpreter.E2B({ apiKey: process.env.E2B_API_KEY })
  const s = await client.Sandbox.create()
  t.defer(() => s.kill())
  assert.equal((await s.runCode('1 + 1')).text, '2')
  assert.ok(s instanceof e2b.Sandbox)
})
