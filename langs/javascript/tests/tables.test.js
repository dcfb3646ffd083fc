'use strict';
// Tests questions about arrays of objects that a cell shows. Run it with node --test.
const assert = require('node:assert/strict');
const { test } = require('node:test');
const { start } = require('./harness.js');

const TABLE = 'application/vnd.sandgate.table+json';

async function table(kernel, code) {
  await kernel.run(code);
  return kernel.events.findLast((e) => e.type === 'execute_result').content.data[TABLE];
}

async function ask(kernel, form, kind, more = {}) {
  const reply = await kernel.ask('inspect', { code: '', cursor: 0, about: { kind, id: form.id, ...more } });
  assert.equal(reply.status, 'ok', JSON.stringify(reply));
  return reply.found ? reply.data['application/json'] : undefined;
}

test('an array of objects is a table, and other values are none', async (t) => {
  const kernel = await start(t);
  const form = await table(kernel, "[{ n: 1, s: 'a', d: new Date(0) }, { n: 2.5, ok: true, s: null }]");
  assert.deepEqual(form.columns.map((c) => [c.name, c.type]), [['', 'index'], ['n', 'number'], ['s', 'text'], ['d', 'text'], ['ok', 'boolean']]);
  assert.deepEqual(form.first, [[0, 1, 'a', '1970-01-01T00:00:00.000Z', null], [1, 2.5, null, null, true]]);
  assert.equal(form.whole, true);
  for (const none of ['[1, 2]', '[{ a: 1 }]', '[{ a: [1] }, { a: [2] }]', '[{ get a() { throw 1 } }, { a: 1 }]', '[{}, {}]', '[new Map(), new Map()]', 'new Proxy([{a: 1}, {a: 2}], {})', "'text'"]) {
    assert.equal(await table(kernel, none), undefined, none);
  }
  await kernel.close();
});

test('its rows are sorted, filtered, described and written', async (t) => {
  const kernel = await start(t);
  const form = await table(kernel, "const rows = Array.from({ length: 50_000 }, (_, i) => ({ n: i, word: i % 2 ? 'odd' : 'ev\"en' })); rows");
  assert.equal(form.rows, 50_000);
  assert.equal(form.whole, false);
  const page = await ask(kernel, form, 'rows', { count: 2, sort: { column: 1, descending: true }, filters: [{ column: 2, is: 'contains', value: 'ODD' }] });
  assert.deepEqual(page, { total: 25_000, rows: [[49_999, 49_999, 'odd'], [49_997, 49_997, 'odd']] });
  const n = await ask(kernel, form, 'statistics', { column: 1 });
  assert.deepEqual([n.count, n.distinct, n.min, n.median, n.max, n.histogram.counts.length], [50_000, 50_000, 0, 24_999.5, 49_999, 20]);
  assert.deepEqual((await ask(kernel, form, 'statistics', { column: 2 })).top, [['ev"en', 25_000], ['odd', 25_000]]);
  let text = '', at = 0;
  while (at !== null) {
    const part = await ask(kernel, form, 'export', { format: 'csv', from: at });
    text += part.text;
    at = part.next;
  }
  const lines = text.trimEnd().split('\n');
  assert.deepEqual([lines.length, lines[0], lines[1], lines.at(-1)], [50_001, 'n,word', '0,"ev""en"', '49999,odd']);
  assert.equal(await ask(kernel, { id: 'unknown' }, 'rows'), undefined);
  await kernel.close();
});
