'use strict';
// Questions of an editor about code. Run it with node --test.
const assert = require('node:assert/strict');
const fs = require('node:fs');
const { test } = require('node:test');
const { start } = require('./harness.js');

// mark splits cells at the mark ‸ and returns {cells, at, code, cursor}.
function mark(marked) {
  const at = Math.max(0, marked.findIndex((c) => c.includes('‸')));
  const cursor = [...marked[at].slice(0, Math.max(0, marked[at].indexOf('‸')))].length;
  const cells = marked.map((c) => c.replace('‸', ''));
  return { cells, at, code: cells[at], cursor };
}

function asker(kernel) {
  const ask = async (op, kind, marked, more) => {
    const { cells, at, code, cursor } = mark(marked);
    return kernel.ask(op, { code, cursor, about: { ...(kind ? { kind } : {}), cells, at, ...more } });
  };
  return {
    raw: ask,
    complete: async (...marked) => ((await ask('complete', '', marked)).matches ?? []).map((m) => m.text),
    describe: async (...marked) => (await ask('inspect', 'describe', marked)).data?.['text/plain'],
    answer: async (kind, marked, more) => {
      const reply = await ask('inspect', kind, marked, more);
      return reply.status === 'error' ? reply.evalue : reply.data?.['application/json'];
    },
    async problems(...marked) {
      const { problems } = await this.answer('problems', marked);
      return problems.map((p) => `${p.severity} ${p.line}:${p.column}-${p.end} ${p.message}`);
    },
  };
}

// servers returns the ids of the language servers below the kernel.
function servers(kernel) {
  const found = [];
  for (const pid of fs.readdirSync('/proc').filter((n) => /^\d+$/.test(n))) {
    try {
      const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1');
      const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
      if (command.includes('--lsp') && Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === kernel.process.pid) found.push(Number(pid));
    } catch {
      // It has ended meanwhile.
    }
  }
  return found;
}

test('completion knows the cells of the notebook, also those that have not run', async (t) => {
  const kernel = await start(t);
  assert.deepEqual(servers(kernel), []);
  const q = asker(kernel);
  const types = 'interface Point { width: number; height: number }\nfunction make(): Point { return { width: 1, height: 2 } }';
  assert.deepEqual(await q.complete(types, 'const p = make();\np.‸'), ['height', 'width']);
  assert.deepEqual(await q.complete(types, 'const 𝒳 = "é"; make().w‸'), ['width']);
  assert.deepEqual(await q.complete('import fs from "node:fs"', 'fs.readFileS‸'), ['readFileSync']);
  assert.ok((await q.complete('const unusual = 1', 'unu‸')).includes('unusual'));
  // Values know what types do not.
  await kernel.run('globalThis.bag = {}; bag.apple = 1; var late = require("node:path")');
  assert.deepEqual(await q.complete('bag.ap‸'), ['apple']);
  assert.ok((await q.complete('late.ba‸')).includes('basename'));
  // A name that is declared again has the type of the cell before.
  assert.ok((await q.complete('const a = 1', 'const a = "text"', 'a.toUpper‸', 'const a = []')).includes('toUpperCase'));
  // A cell that was executed and is not in the notebook any longer.
  await kernel.run('type Kind = "red" | "blue"; function kind(): { shade: Kind } { return { shade: "red" } }');
  assert.deepEqual(await q.complete('kind().‸'), ['shade']);
  assert.equal(servers(kernel).length, 1);
  await kernel.close();
});

test('types are checked in a notebook with types, and names in all', async (t) => {
  const kernel = await start(t);
  const q = asker(kernel);
  const area = 'function area(r: number) { return r * r }';
  assert.deepEqual(await q.problems(area, 'const x: string = area("a‸")'), [
    "error 1:6-7 Type 'number' is not assignable to type 'string'.",
    "error 1:23-26 Argument of type 'string' is not assignable to parameter of type 'number'.",
  ]);
  assert.deepEqual(await q.problems(area, 'area("a‸")'), ["error 1:5-8 Argument of type 'string' is not assignable to parameter of type 'number'."]);
  assert.deepEqual(await q.problems('const box = {}; box.x = 1; "a" * 2;\nlet total = 1;\ntotl‸ + 1'), ["warning 3:0-4 Cannot find name 'totl'. Did you mean 'total'?"]);
  assert.deepEqual(await q.problems('let 𝒳 = 1, x = = 2‸'), ['error 1:15-16 Expression expected.']);
  for (const fine of [
    ['const a = await later()‸', 'async function later() {}'],
    ['let n = 1', 'n = n + 1; n++‸'],
    ['const n = 1', 'const n = "a"; n.length‸'],
    ['!ls -l | wc\nimport x from "lodash"; x.chunk([]); require("fs"); module; __dirname; display(_); prompt.password("x")‸'],
    ['{ a: 1, b: [2] }‸'],
    ['for (const item of [1]) { let inner = item; console.log(inner) }\nfunction f(a, { b }, ...c) { return [a, b, c] }‸'],
    ['const { a, b: [c], ...d } = { a: 1, b: [2], e: 3 }', 'console.log(a, c, d)‸'],
    ['const view = <b title="x">text</b>‸'],
    ['class A { x = 1; #y = 2; get z() { return this.#y } }', 'enum E { A }\nnew A().z + E.A‸'],
    ['new Set([1]).union(new Set([2])); Array.fromAsync([]); structuredClone({}); fetch; new URL("x:y"); Buffer.from("")‸'],
  ]) assert.deepEqual(await q.problems(...fine), [], fine.join('\n'));
  assert.equal((await q.problems(Array.from({ length: 300 }, (_, i) => `missing_${i}`).join('\n') + '‸')).length, 100);
  await kernel.close();
});

test('descriptions have types, documentation and values', async (t) => {
  const kernel = await start(t);
  const q = asker(kernel);
  const slow = '/** Waits.\n * @param ms how long */\nasync function slow(ms: number) { return ms }';
  assert.equal(await q.describe(slow, 'await slow‸(1)'), 'function slow(ms: number): Promise<number>\n\nWaits.\n\n@param ms — how long');
  await kernel.run('var count = 41');
  assert.equal(await q.describe('var count = 41', 'count‸'), 'var count: number\n\n41');
  await kernel.run('globalThis.loose = { a: 1 }');
  assert.match(await q.describe('loose‸'), /^loose: Object\n\{ a: 1 \}/);
  assert.match(await q.describe('display.html‸'), /Shows HTML\./);
  assert.deepEqual(await q.answer('signature', [slow, 'slow(‸)']), { label: 'slow(ms: number): Promise<number>', parameters: [[5, 15]], active: 0, doc: 'Waits.' });
  const replace = await q.answer('signature', ['"a".replace(/b/, ‸)']);
  assert.equal(replace.active, 1);
  assert.ok(replace.more > 0);
  assert.equal(await q.answer('signature', ['1 + 2‸']), undefined);
  await kernel.close();
});

test('definitions and names go over all cells', async (t) => {
  const kernel = await start(t);
  const q = asker(kernel);
  const cells = ['const total = 1;\nfunction add(total, n) { return total + n }', 'const view = { total };\nadd(tot‸al, 2)', '"total"; total'];
  assert.deepEqual(await q.answer('definition', cells), { cell: 0, line: 1, column: 6 });
  assert.deepEqual(await q.answer('definition', ['const total = 1', 'const view = { to‸tal }']), { cell: 0, line: 1, column: 6 });
  assert.deepEqual(await q.answer('definition', ['const to‸tal = 1']), { cell: 0, line: 1, column: 6 });
  assert.deepEqual(await q.answer('names', cells), { name: 'total', places: [
    { cell: 0, line: 1, column: 6 }, { cell: 1, line: 1, column: 15, before: 'total: ' }, { cell: 1, line: 2, column: 4 }, { cell: 2, line: 1, column: 9 },
  ] });
  assert.deepEqual((await q.answer('names', ['const total = 1;\nfunction add(tot‸al, n) { return total + n }'])).places.map((p) => [p.line, p.column]), [[2, 13], [2, 32]]);
  assert.equal((await q.answer('names', cells, { new: 'sum' })).places.length, 4);
  assert.match(await q.answer('names', cells, { new: 'sum of' }), /'sum of' is not a name/);
  assert.match(await q.answer('names', cells, { new: 'class' }), /'class' is not a name/);
  assert.match(await q.answer('names', cells, { new: 'add' }), /add is already a name here/);
  assert.match(await q.answer('names', ['function f(a‸, b) { return a + b }'], { new: 'b' }), /the code has an error/);
  assert.equal(await q.answer('names', ['"te‸xt"']), undefined);
  const point = ['interface Point { width: number }', 'const p: Point = { wid‸th: 1 };\np.width'];
  assert.deepEqual((await q.answer('names', point)).places, [{ cell: 0, line: 1, column: 18 }, { cell: 1, line: 1, column: 19 }, { cell: 1, line: 2, column: 2 }]);
  const file = await q.answer('definition', ['import fs from "node:fs"', 'fs.readFileSync‸("x")']);
  assert.match(file.file, /@types\/node\/fs\.d\.ts$/);
  assert.match(fs.readFileSync(file.file, 'utf8').split('\n')[file.line - 1], /readFileSync/);
  await kernel.close();
});

test('files of the working directory are known, and read again when they have changed', async (t) => {
  const kernel = await start(t);
  const q = asker(kernel);
  await kernel.run('const fs = require("node:fs"); process.chdir(fs.mkdtempSync("/tmp/ts-")); fs.writeFileSync("shapes.ts", "export const round = 1")');
  assert.deepEqual(await q.complete('import * as s from "./shapes.ts"', 's.‸'), ['round']);
  await kernel.run('await new Promise((done) => setTimeout(done, 20)); fs.writeFileSync("shapes.ts", "export const round = 1, square = 2")');
  assert.deepEqual(await q.complete('import * as s from "./shapes.ts"', 's.‸'), ['round', 'square']);
  await kernel.run('fs.mkdirSync("node_modules/tiny", { recursive: true }); fs.writeFileSync("node_modules/tiny/package.json", `{"name":"tiny","types":"t.d.ts"}`); fs.writeFileSync("node_modules/tiny/t.d.ts", "export const atom: number")');
  assert.deepEqual(await q.complete('import * as s from "tiny"', 's.‸'), ['atom']);
  await kernel.close();
});

test('format', async (t) => {
  const kernel = await start(t);
  const q = asker(kernel);
  assert.deepEqual(await q.answer('format', ['!ls  -l\nif(a){\nb( );\n}\nconst 𝒳={a:1}‸']), { code: '!ls  -l\nif (a) {\n  b();\n}\nconst 𝒳 = { a: 1 }' });
  assert.deepEqual(await q.answer('format', ['function f(){\n    return  1\n}‸']), { code: 'function f() {\n    return 1\n}' });
  assert.deepEqual(await q.answer('format', ['const v=<b>{ x }</b>‸']), { code: 'const v = <b>{x}</b>' });
  assert.equal(await q.answer('format', ['let a = 1\nlet b = = 2‸']), 'line 2: Expression expected.');
  await kernel.close();
});

test('questions are answered while a cell runs, and a cell runs while they are', async (t) => {
  const kernel = await start(t);
  const q = asker(kernel);
  const { reply } = kernel.start('for (;;) {}');
  assert.deepEqual(await q.complete('const p = { width: 1 }', 'p.‸'), ['width']);
  assert.match(await q.describe('const p = { width: 1 }', 'p‸'), /^const p: /);
  assert.deepEqual(await q.complete('nothing.‸'), []);
  assert.equal((await q.raw('inspect', 'describe', ['nothing‸'])).found, false);
  kernel.interrupt();
  assert.equal((await reply).ename, 'Interrupted');
  // An interrupt may end the server with the cell's children. The next question starts another one.
  for (const pid of servers(kernel)) process.kill(pid, 'SIGKILL');
  assert.deepEqual(await q.complete('const p = { width: 1 }', 'p.‸'), ['width']);
  assert.equal((await kernel.run('6 * 7')).value, '42');
  await kernel.close();
});

test('a newer question ends an older one', async (t) => {
  const kernel = await start(t);
  const q = asker(kernel);
  await q.problems('1‸');
  const cells = Array.from({ length: 40 }, (_, i) => `const name_${i} = ${i} as number;`);
  const asked = Array.from({ length: 20 }, (_, i) => q.raw('inspect', 'problems', [`missing_${i}‸`, ...cells]));
  const replies = await Promise.all(asked);
  assert.equal(replies.at(-1).data['application/json'].problems.length, 1);
  assert.ok(replies.slice(1, -1).every((r) => r.found === false), JSON.stringify(replies.map((r) => r.found)));
  await kernel.close();
});

test('wrong questions have an answer', async (t) => {
  const kernel = await start(t);
  for (const about of [
    {}, { kind: 'problems' }, { kind: 'problems', cells: 'x', at: 'y' }, { kind: 'problems', cells: [], at: 3 }, { kind: 'names', cells: [1, null, {}], at: -1 },
    { kind: 'constructor' }, { kind: 'problems', cells: ['x'.repeat(2 << 20)], at: 0 }, { kind: 'problems', cells: Array(1000).fill('1'), at: 0 }, { kind: 'names', new: {} }, 'text', 7, [1],
  ]) {
    for (const op of ['inspect', 'complete']) {
      const reply = await kernel.ask(op, { code: 'a.b\n\u0000', cursor: 2, about });
      assert.match(reply.status, /^(ok|error)$/, JSON.stringify(about).slice(0, 80));
    }
  }
  const reply = await kernel.ask('inspect', { about: { kind: 'format' } });
  assert.equal(reply.status, 'ok');
  assert.equal((await kernel.run('6 * 7')).value, '42');
  await kernel.close();
});
