'use strict';
// Variables that outlive their kernel, in a file: requests keep and restore. The file has a line of
// JSON, then a Map from names to values in V8's form, so that objects which variables share stay
// shared. V8's form has no functions, classes and instances of the user's classes: they are lost.
const fs = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const v8 = require('node:v8');
const { types } = require('node:util');

const MAX_NAMES = 20;
const MAX_NAME = 60; // characters
const MAX_PARTS = 5_000_000; // objects and values of all variables
const BYTES = 1 << 28;
const SECONDS = 30;
const LOOKS = 4096; // parts between two looks at the clock

const { getPrototypeOf } = Object;
const { ownKeys, getOwnPropertyDescriptor, apply } = Reflect;
const eachOfMap = Map.prototype.forEach;
const eachOfSet = Set.prototype.forEach;
const TYPED = getPrototypeOf(Uint8Array);
const KNOWN = new Set([null, Object, Array, Map, Set, Date, RegExp, Boolean, Number, String, BigInt, ArrayBuffer, DataView, Buffer,
  Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
  Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array,
  BigInt64Array, BigUint64Array].map((made) => made && made.prototype));
const OF_ERRORS = new Set(['stack', 'message', 'cause', 'name']);

class Lost extends Error {}

// Check finds out whether V8's form has all of a value. It calls no code of the user.
class Check {
  #parts = 0;
  #end;

  constructor(end) {
    this.#end = end;
  }

  // whole throws Lost if something of the value would be missing.
  whole(value) {
    const seen = new Set();
    const left = [value];
    while (left.length > 0) {
      const next = left.pop();
      if (++this.#parts > MAX_PARTS || (this.#parts % LOOKS === 0 && performance.now() > this.#end)) throw new Lost('too much');
      if (typeof next === 'function' || typeof next === 'symbol') throw new Lost('a function');
      if (next === null || typeof next !== 'object' || seen.has(next)) continue;
      seen.add(next);
      this.#object(next, left);
    }
  }

  #object(value, left) {
    if (types.isProxy(value) || !KNOWN.has(getPrototypeOf(value))) throw new Lost('an object of a class');
    if (value instanceof TYPED || types.isAnyArrayBuffer(value) || types.isDataView(value)) return;
    if (types.isNativeError(value)) {
      if (ownKeys(value).some((key) => !OF_ERRORS.has(key))) throw new Lost('an error with more');
      return;
    }
    if (types.isMap(value)) apply(eachOfMap, value, [(v, k) => { left.push(k, v); }]);
    else if (types.isSet(value)) apply(eachOfSet, value, [(v) => { left.push(v); }]);
    const boxed = types.isBoxedPrimitive(value);
    for (const key of ownKeys(value)) {
      const d = getOwnPropertyDescriptor(value, key);
      if (key === 'length' && Array.isArray(value) || key === 'lastIndex' && types.isRegExp(value) || boxed) continue;
      if (typeof key === 'symbol' || !d.enumerable || d.get || d.set || types.isMap(value) || types.isSet(value)) throw new Lost('a property');
      left.push(d.value);
    }
  }
}

// own returns the user's variables, and the names of those that cannot be looked at.
function own(help, inspection, names, given) {
  const values = new Map();
  const lost = [];
  const declared = names.list();
  const more = help.globals().filter((name) => !given.has(name) && !declared.includes(name) && !names.hidden(name));
  for (const name of [...declared, ...more]) {
    const d = getOwnPropertyDescriptor(globalThis, name);
    const looked = names.inside(name) !== name || (d?.get && !names.kept(name)) ? null : help.look(name);
    if (looked) values.set(name, looked.value);
    else lost.push(name);
  }
  inspection.ask('Runtime.releaseObjectGroup', { objectGroup: 'help' });
  return { values, lost };
}

// keep writes the variables to a file.
function keep({ keep: { file, bytes = BYTES, seconds = SECONDS } }, help, inspection, names, given) {
  const { values, lost } = own(help, inspection, names, given);
  const check = new Check(performance.now() + seconds * 500); // the other half is for writing
  const sizes = new Map();
  for (const [name, value] of values) {
    try {
      check.whole(value);
      sizes.set(name, v8.serialize(value).length);
    } catch {
      lost.push(name);
    }
  }
  const kept = new Map();
  let room = bytes;
  for (const [name, size] of [...sizes].sort((a, b) => a[1] - b[1])) {
    room -= size + Buffer.byteLength(name) + 16;
    if (room >= 0) kept.set(name, values.get(name));
    else lost.push(name);
  }
  const part = `${file}.part`;
  const ordered = new Map([...values].filter(([name]) => kept.has(name)));
  if (ordered.size > 0) {
    make(path.dirname(file));
    fs.rmSync(part, { force: true });
    const head = Buffer.from(`${JSON.stringify({ folder: folder(), names: [...ordered.keys()] })}\n`);
    fs.writeFileSync(part, Buffer.concat([head, v8.serialize(ordered)]), { mode: 0o600, flag: 'wx' });
    fs.renameSync(part, file);
  }
  return { ...answer([...ordered.keys()], lost), written: ordered.size > 0 };
}

// make makes a folder and the one above it. Node's recursive call does not end in /proc.
function make(dir) {
  for (const each of [path.dirname(dir), dir]) {
    try {
      fs.mkdirSync(each, { mode: 0o700 });
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
  }
}

function folder() {
  try {
    return process.cwd();
  } catch {
    return '';
  }
}

function answer(kept, lost) {
  const first = (list) => list.slice(0, MAX_NAMES).map((name) => String(name).slice(0, MAX_NAME));
  return { kept: first(kept), kept_count: kept.length, lost: first(lost), lost_count: lost.length };
}

// restore sets the variables as properties of the global object: a cell can declare them again in any
// way. It removes the file before it uses it.
function restore({ keep: { file } }) {
  const data = fs.readFileSync(file);
  fs.unlinkSync(file);
  const end = data.indexOf('\n');
  const head = JSON.parse(data.subarray(0, end).toString());
  const values = v8.deserialize(data.subarray(end + 1));
  if (head.folder && fs.existsSync(head.folder)) process.chdir(head.folder);
  const kept = [];
  const lost = [];
  for (const [name, value] of values) {
    if (getOwnPropertyDescriptor(globalThis, name)) {
      lost.push(name);
      continue;
    }
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: true });
    kept.push(name);
  }
  return answer(kept, lost);
}

module.exports = { keep, restore };
