'use strict';
// Completion and inspection of live objects. V8 evaluates the expression before the cursor, and
// refuses it if it has a side effect.
const process = require('node:process');
const { builtinModules } = require('node:module');
const fs = require('node:fs');
const path = require('node:path');
const { text } = require('./errors.js');
const { tables } = require('./tables.js');

const MAX_MATCHES = 1000;
const TIME = 1000; // ms that an evaluation may take; a busy machine needs more than 200
const KEYWORDS = ('async await break case catch class const continue debugger default delete do else enum export extends false finally ' +
  'for function if import in instanceof interface let new null of return static super switch this throw true try type typeof undefined ' +
  'var void while with yield').split(' ');
const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u;

// offset converts a cursor in code points to an index in UTF-16, and back.
const offset = (code, cursor) => {
  let at = 0;
  for (let n = cursor; n > 0 && at < code.length; n--) at += code.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
};
const points = (code, at) => [...code.slice(0, at)].length;

// before returns the member expression that ends at at: names, indices and calls without arguments,
// as in a.b[0]?.c.
function before(code, at) {
  let i = at;
  for (;;) {
    const tail = /(?:[\p{ID_Start}$_][\p{ID_Continue}$]*|\]|["'`)])$/u.exec(code.slice(Math.max(0, i - 300), i));
    if (!tail) return null;
    if (/^[\]"'`)]$/.test(tail[0])) {
      const open = opening(code, i - 1);
      if (open < 0) return null;
      i = open;
      if (code[i] === '[' && /[\p{ID_Continue}$\])]$/u.test(code.slice(0, i))) continue;
    } else {
      i -= tail[0].length;
    }
    const dot = /(\?\.|\.)$/.exec(code.slice(0, i));
    if (!dot || /\d\.$/.test(code.slice(0, i))) return code.slice(i, at);
    i -= dot[0].length;
  }
}

// opening returns the index of the bracket or quote that matches the one at end.
function opening(code, end) {
  const close = code[end];
  if (/["'`]/.test(close)) return code.lastIndexOf(close, end - 1);
  let depth = 0;
  for (let i = end; i >= 0; i--) {
    if (/[\])}]/.test(code[i])) depth++;
    else if (/[[({]/.test(code[i]) && --depth === 0) {
      // A call would have a side effect; a literal or a group has none.
      if (close === ')' && /[\p{ID_Continue}$\])]$/u.test(code.slice(0, i).trimEnd())) return -1;
      return i;
    }
  }
  return -1;
}

class Help {
  #inspection;
  #names;

  constructor(inspection, names) {
    this.#inspection = inspection;
    this.#names = names;
  }

  #evaluate(expression, more) {
    return this.#inspection.ask('Runtime.evaluate', {
      expression, throwOnSideEffect: true, timeout: TIME, silent: true, objectGroup: 'help', ...more,
    });
  }

  // inside returns an expression with V8's name for its first name.
  #inside(expression) {
    return expression.replace(/^[\p{ID_Start}$_][\p{ID_Continue}$]*/u, (name) => this.#names.inside(name));
  }

  // look returns {value} of an expression without side effects, or null.
  look(expression) {
    const found = this.#evaluate(`(${this.#inside(expression)}\n)`);
    if (found.error || found.exceptionDetails) return null;
    return { value: this.#inspection.value(found.result), type: found.result };
  }

  // members returns the names of a value's properties, the nearest first.
  #members(expression) {
    const found = this.#evaluate(`(() => {
      const names = [], seen = new Set();
      const value = (${this.#inside(expression)}\n);
      if (value === null || value === undefined) return names;
      for (let o = Object(value), level = 0; o !== null && level < 20; o = Object.getPrototypeOf(o), level++) {
        for (const name of Object.getOwnPropertyNames(o)) {
          if (seen.has(name) || (level === 0 && ArrayBuffer.isView(value) && name >= '0' && name < ':')) continue;
          seen.add(name);
          const d = Object.getOwnPropertyDescriptor(o, name);
          names.push([name, typeof d.value === 'function' ? 'function' : d.get ? 'property' : 'instance']);
          if (names.length > 5000) return names;
        }
      }
      return names;
    })()`, { returnByValue: true });
    return found.result?.value ?? [];
  }

  globals() {
    const lexical = this.#inspection.ask('Runtime.globalLexicalScopeNames', {}).names ?? [];
    const all = [...lexical, ...this.#names.list(), ...Object.getOwnPropertyNames(globalThis)];
    return [...new Set(all.map((name) => this.#names.outside(name)))]
      .filter((name) => name !== '$sandgate');
  }

  complete({ code = '', cursor = 0 }) {
    code = String(code);
    const at = offset(code, cursor);
    const head = code.slice(0, at);
    const module = /(?:\brequire\s*\(\s*|\bimport\s*\(\s*|\bfrom\s+|\bimport\s+)(["'`])([^"'`\n]*)$/.exec(head);
    if (module) return this.#result(code, at, module[2], modules(module[2]).map((name) => [name, 'module']));
    const key = /\[\s*(["'`])([^"'`\n\\]*)$/.exec(head);
    if (key) {
      const owner = before(head, key.index);
      if (owner) return this.#result(code, at, key[2], this.#members(owner));
    }
    const partial = /[\p{ID_Continue}$]*$/u.exec(head)[0];
    const dot = /(\?\.|\.)\s*$/.exec(head.slice(0, head.length - partial.length));
    if (dot) {
      const end = head.length - partial.length - dot[0].length;
      const owner = before(head, end);
      const found = owner ? this.#members(owner).filter(([name]) => IDENTIFIER.test(name)) : [];
      return this.#result(code, at, partial, found);
    }
    const open = /["'`]$/.test(head.slice(0, head.length - partial.length));
    const names = open ? [] : [
      ...this.globals().map((name) => [name, kind(name)]),
      ...(partial ? KEYWORDS.map((name) => [name, 'keyword']) : []),
    ];
    return this.#result(code, at, partial, names);
  }

  #result(code, at, partial, found) {
    const matches = [];
    const seen = new Set();
    const add = (fits) => {
      for (const [name, type] of found) {
        if (matches.length >= MAX_MATCHES || seen.has(name) || !fits(name)) continue;
        seen.add(name);
        matches.push(type ? { text: name, type } : { text: name });
      }
    };
    add((name) => name.startsWith(partial));
    if (matches.length === 0) add((name) => name.toLowerCase().startsWith(partial.toLowerCase()));
    return { matches, cursor_start: points(code, at - partial.length), cursor_end: points(code, at) };
  }

  // known describes the type of the name.
  inspect({ code = '', cursor = 0, detail = 0, about, known }) {
    if (about) {
      const answer = ['rows', 'statistics', 'export'].includes(about.kind) ? tables.answer(about) : undefined;
      return answer ? { found: true, data: { 'application/json': answer } } : { found: false };
    }
    code = String(code);
    let at = offset(code, cursor);
    at += /^[\p{ID_Continue}$]*/u.exec(code.slice(at))[0].length;
    let head = code.slice(0, at);
    // Within the parentheses of a call, the function is described.
    if (!/[\p{ID_Continue}$\])"'`]$/u.test(head)) head = head.replace(/\([^()]*$/, '');
    const expression = before(head, head.length);
    const found = expression && this.look(expression);
    if (!found) return known ? { found: true, data: { 'text/plain': known } } : { found: false };
    return { found: true, data: { 'text/plain': portrait(expression, found.value, detail, known) } };
  }
}

// kind returns the type of a global's completion.
function kind(name) {
  const d = Object.getOwnPropertyDescriptor(globalThis, name);
  if (!d || !('value' in d)) return 'instance';
  if (typeof d.value !== 'function') return 'instance';
  return /^class\b/.test(Function.prototype.toString.call(d.value)) ? 'class' : 'function';
}

// modules returns the names that can follow partial in an import.
function modules(partial) {
  if (/^\.{0,2}\//.test(partial)) {
    const folder = partial.slice(0, partial.lastIndexOf('/') + 1);
    return entries(path.resolve(folder)).map((e) => folder + e.name + (e.isDirectory() ? '/' : ''));
  }
  const found = builtinModules.filter((name) => !name.startsWith('_')).flatMap((name) => [name, `node:${name}`]);
  for (let dir = process.cwd(); ; dir = path.dirname(dir)) {
    for (const e of entries(path.join(dir, 'node_modules'))) {
      if (e.name.startsWith('@')) found.push(...entries(path.join(dir, 'node_modules', e.name)).map((s) => `${e.name}/${s.name}`));
      else if (!e.name.startsWith('.')) found.push(e.name);
    }
    if (path.dirname(dir) === dir) return found;
  }
}

function entries(dir) {
  try {
    return fs.readdirSync(dir, { withFileTypes: true });
  } catch {
    return [];
  }
}

const SAFE = { customInspect: false, getters: false, showProxy: true };

// portrait describes a value.
function portrait(name, value, detail, known) {
  if (known) return typeof value === 'function' ? known : `${known}\n\n${text(value, { ...SAFE, depth: detail ? 4 : 2 })}`;
  if (typeof value !== 'function') {
    const made = Object(value) === value ? text(Object.getPrototypeOf(value)?.constructor?.name ?? 'null prototype').slice(1, -1) : typeof value;
    return `${name}: ${made}\n${text(value, { ...SAFE, depth: detail ? 4 : 2 })}`;
  }
  const source = Function.prototype.toString.call(value);
  if (/\{ \[native code\] \}$/.test(source)) return `${text(value, SAFE)}\n${name} takes ${value.length} parameters, native code`;
  if (detail || source.split('\n').length <= 20) return source;
  return `${source.split('\n').slice(0, 20).join('\n')}\n…`;
}

module.exports = { Help, SAFE };
