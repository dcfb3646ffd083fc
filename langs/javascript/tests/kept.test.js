'use strict';
// Tests variables that outlive their kernel. Run it with node --test.
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { start } = require('./harness.js');

function place(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'kept-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  return path.join(folder, 'kept', 'k1');
}

// over keeps the variables of a kernel and restores them in another one, which it returns.
async function over(t, kernel, file, lost) {
  const kept = await kernel.ask('keep', { keep: { file, bytes: 1 << 20, seconds: 20 } });
  assert.equal(kept.status, 'ok', JSON.stringify(kept));
  assert.deepEqual(kept.lost, lost);
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  await kernel.close();
  const next = await start(t);
  const restored = await next.ask('restore', { keep: { file, seconds: 20 } });
  assert.deepEqual([restored.status, restored.kept, restored.lost], ['ok', kept.kept, []]);
  assert.deepEqual(fs.readdirSync(path.dirname(file)), []);
  return next;
}

test('values stay, functions and objects of classes are named', async (t) => {
  const file = place(t);
  const kernel = await start(t);
  await kernel.run(`const x = 41, list = [1, , 3]; let map = new Map([[1, new Set(['a'])]]), big = 2n ** 70n, nothing;
var when = new Date(0), bytes = Buffer.from('é'), re = /a+/gi, failed = new TypeError('no'), self = { list }; self.self = self;
loose = { a: null, b: undefined, 'c d': -0 };
process.chdir('/tmp')`);
  await kernel.run(`class Point { constructor(x) { this.x = x } }; const p = new Point(1), points = [1, { p }];
function f() { return x } const add = (n) => n + 1, waits = Promise.resolve(1), weak = new WeakMap();
const odd = { get a() { return 1 } }, tagged = { [Symbol('s')]: 1 }, proxy = new Proxy([], {}), fs = require('fs');`);
  const next = await over(t, kernel, file, ['Point', 'p', 'points', 'f', 'add', 'waits', 'weak', 'odd', 'tagged', 'proxy', 'fs']);
  const { value } = await next.run(`[x, 1 in list, list.length, map.get(1).has('a'), big === 2n ** 70n, nothing, when.getTime(), String(bytes), Buffer.isBuffer(bytes),
  re.flags, failed instanceof TypeError, failed.message, self.self === self, self.list === list, Object.is(loose['c d'], -0), process.cwd()].join()`);
  assert.equal(value, "'41,false,3,true,true,,0,é,true,gi,true,no,true,true,true,/tmp'");
  // They can be declared again, and kept again.
  assert.equal((await next.run('const x = 42; let list = 2; function map() { return x + list } map()')).value, '44');
  await over(t, next, file, ['map']);
});

test('limits', async (t) => {
  const file = place(t);
  const kernel = await start(t);
  await kernel.run("const large = 'x'.repeat(2 << 20); let deep = null; for (let i = 0; i < 1e6; i++) deep = { deep }; const one = 1");
  await kernel.run('for (let i = 0; i < 50; i++) globalThis[`v${i}`] = () => i');
  const kept = await kernel.ask('keep', { keep: { file, bytes: 1 << 20, seconds: 20 } });
  assert.deepEqual([kept.kept, kept.lost.length, kept.lost_count], [['one'], 20, 52]);
  assert.ok(kept.lost.includes('deep'), kept.lost);
});

test('nothing to keep, and files that are none', async (t) => {
  const file = place(t);
  const kernel = await start(t);
  const kept = await kernel.ask('keep', { keep: { file } });
  assert.deepEqual([kept.status, kept.written, kept.kept, kept.lost], ['ok', false, [], []]);
  fs.mkdirSync(path.dirname(file));
  for (const text of [null, '', '{}\n', '{"folder":"/"}\nx', 'x']) {
    if (text !== null) fs.writeFileSync(file, text);
    assert.equal((await kernel.ask('restore', { keep: { file } })).status, 'error', text);
  }
  await kernel.run('x = 1');
  for (const keep of [undefined, {}, { file: 7 }, { file: '/proc/none/k1' }]) {
    assert.equal((await kernel.ask('keep', { keep })).status, 'error', keep);
  }
  assert.equal((await kernel.run('1')).value, '1');
});
