'use strict';
// Rewritten cells keep their meaning: the result parses, and each position maps back to the same
// text.
const assert = require('node:assert/strict');
const path = require('node:path');
const { test } = require('node:test');
const { HOME } = require('./harness.js');

const { parse, rewrite, Names } = require(path.join(HOME, 'driver/rewrite.js'));
const { Origin } = require(path.join(HOME, 'driver/positions.js'));

const SOURCES = [
  "import a, { b as c, 'd-e' as f } from 'm'; import * as ns from 'n'; import 'o';\nfoo(a, c, f, ns);",
  'const x = await f(await g(), await h());\nfor await (const y of z()) { await y }',
  'let { p, q: [r = await s, ...t], ...u } = await v;\nconst w = 1, b1;'.replace(', b1', ''),
  'const k = 1;\nk = 2; k++; [k] = [3]; ({ k } = {}); ({ k: k = 4 } = {}); k ??= 5; for (k of []) ;\n(k => k = 6)(); { let k = 7; k = 8 }',
  'export const e1 = 1; export default function () { return import("x") }\nexport { e2 as e3 }; export * from "y";',
  'import { setTimeout } from "t"; const o = { setTimeout, [setTimeout]: 1, setTimeout: 2 };\no.setTimeout(setTimeout); class URL { static u = URL } function fetch() { return fetch }',
  'async function main() { await 1 }\nmain().then(() => 2).catch(console.error)',
  'var loose = 1; { var loose = 2 } for (var loose = 0, more; loose < 3; loose++) ; for (var loose in {}) ;',
  'label: for (const i of [1]) { continue label }\nclass A { #p = 1; static { this.q = 2 } get [k]() { return import.meta.url } }',
  '`${await a}${`${await b}`}`; a?.[await c]?.(await d); new (await E)(); (await f)`x`',
];

for (const [before, names] of [['in a fresh session', []], ['after lexical names', ['let']], ['after global names', ['var']]]) {
  test(`what is rewritten ${before} parses and keeps its positions`, () => {
    for (const source of SOURCES) {
      const session = new Names(['setTimeout', 'URL', 'fetch']);
      for (const kind of names) {
        const kept = kind === 'let' ? 'lexical' : 'global';
        const list = 'a c f ns x p r t u w k e1 o main loose more A b b1 y setTimeout'.split(' ');
        session.add(new Map(list.map((name) => [name, { kind: kept, constant: false }])));
      }
      const { code, kept } = rewrite(source, parse(source), session);
      assert.doesNotThrow(() => parse(code), `${source}\n${code}`);
      if (!kept) continue;
      const origin = new Origin({ name: 'cell_1.js', source, script: source, code, kept });
      const lines = [code.split('\n'), source.split('\n')];
      for (const [to, from, length] of kept) {
        const line = code.slice(0, to).split('\n').length;
        const column = to - code.lastIndexOf('\n', to - 1);
        const at = origin.find(line, column);
        const here = lines[0][line - 1].slice(column - 1, column + 3).slice(0, length);
        assert.equal(lines[1][at.line - 1].slice(at.column - 1, at.column + 3).slice(0, length), here, `${code} ${to} ${from}`);
      }
    }
  });
}
