'use strict';
// The names that the user has declared, with a short text of their values.
const { types } = require('node:util');
const { text } = require('./errors.js');
const { SAFE } = require('./help.js');

const MAX = 500;
const MAX_VALUE = 200; // characters
const SHORT = { ...SAFE, depth: 1, maxArrayLength: 20, maxStringLength: MAX_VALUE, breakLength: Infinity, compact: true };
const UNITS = ['B', 'KiB', 'MiB', 'GiB'];

const given = new Set(); // the globals that existed at the start

// begin records which globals are not the user's.
function begin() {
  for (const name of Object.getOwnPropertyNames(globalThis)) given.add(name);
}

// list returns the variables. It calls no code of the user.
function list(help, inspection, names) {
  const own = names.list();
  const known = new Set(own);
  for (const name of help.globals()) if (!given.has(name) && !known.has(name) && !names.hidden(name)) own.push(name);
  const found = [];
  for (const name of own) {
    if (found.length >= MAX) break;
    const d = Object.getOwnPropertyDescriptor(globalThis, name);
    if (d?.get && !names.kept(name)) {
      found.push({ name, type: 'accessor', size: '', value: '[getter]' });
      continue;
    }
    const looked = help.look(names.inside(name));
    if (looked) found.push({ name, ...describe(looked.value) });
  }
  inspection.ask('Runtime.releaseObjectGroup', { objectGroup: 'help' });
  return { variables: found };
}

function describe(value) {
  let short = text(value, SHORT).replace(/\s*\n\s*/g, ' ');
  if (short.length > MAX_VALUE) short = `${short.slice(0, MAX_VALUE - 1)}…`;
  return { type: type(value), size: size(value), value: short };
}

function type(value) {
  if (value === null) return 'null';
  if (typeof value === 'function') return /^class\b/.test(Function.prototype.toString.call(value)) ? 'class' : 'function';
  if (typeof value !== 'object') return typeof value;
  if (types.isProxy(value)) return 'Proxy';
  for (let o = Object.getPrototypeOf(value); o !== null && !types.isProxy(o); o = Object.getPrototypeOf(o)) {
    const made = Object.getOwnPropertyDescriptor(o, 'constructor')?.value;
    if (typeof made !== 'function') continue;
    const name = Object.getOwnPropertyDescriptor(made, 'name')?.value;
    if (typeof name === 'string' && name) return name.slice(0, 100);
  }
  return 'Object';
}

const mapSize = Object.getOwnPropertyDescriptor(Map.prototype, 'size').get;
const setSize = Object.getOwnPropertyDescriptor(Set.prototype, 'size').get;

function size(value) {
  if (typeof value === 'string') return String(value.length);
  if (value === null || typeof value !== 'object' || types.isProxy(value)) return '';
  if (Array.isArray(value)) return shape(value);
  if (Buffer.isBuffer(value) || types.isAnyArrayBuffer(value) || types.isDataView(value)) return bytes(value.byteLength);
  if (types.isTypedArray(value)) return String(value.length);
  if (types.isMap(value)) return String(Reflect.apply(mapSize, value, []));
  if (types.isSet(value)) return String(Reflect.apply(setSize, value, []));
  if (types.isDate(value) || types.isRegExp(value) || types.isPromise(value)) return '';
  return String(Object.keys(value).length);
}

// shape returns rows × columns for an array of arrays of equal length.
function shape(array) {
  const first = Object.getOwnPropertyDescriptor(array, 0)?.value;
  if (!Array.isArray(first) || array.length > 10_000) return String(array.length);
  const even = array.every((row) => Array.isArray(row) && row.length === first.length);
  return even ? `${array.length} × ${first.length}` : String(array.length);
}

function bytes(n) {
  let unit = 0;
  for (; n >= 1024 && unit < 3; unit++) n /= 1024;
  return `${unit ? n.toFixed(1) : n} ${UNITS[unit]}`;
}

module.exports = { given, begin, list };
