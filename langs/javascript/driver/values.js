'use strict';
// Values that the kernels of a session share: sandgate.put and sandgate.get.
const fs = require('node:fs');
const process = require('node:process');

const FOLDER = '/tmp/.sandgate-values';
const MAX_BYTES = 64 << 20; // of a value as JSON

function file(name) {
  if (typeof name !== 'string' || !/^[A-Za-z_]\w{0,63}$/.test(name)) {
    throw new TypeError(`${String(name)} is not a name of letters, digits and _, at most 64 characters`);
  }
  return `${FOLDER}/${name}.json`;
}

const scalar = (value) => value === null || /^(string|number|boolean|bigint)$/.test(typeof value) || value instanceof Date;

// table returns rows of objects with the same keys as a table, and otherwise undefined.
function table(value) {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const isRow = (row) => row !== null && typeof row === 'object' && !Array.isArray(row) && Object.values(row).every(scalar);
  if (!value.every(isRow)) return undefined;
  const columns = Object.keys(value[0]);
  const fits = (row) => Object.keys(row).length === columns.length && columns.every((c) => Object.hasOwn(row, c));
  if (columns.length === 0 || !value.every(fits)) return undefined;
  return { columns, rows: value.map((row) => columns.map((c) => row[c])) };
}

const plain = (_key, value) => {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value instanceof Map) return Object.fromEntries(value);
  return value instanceof Set ? [...value] : value;
};

let last = 0;

const values = {
  // put stores a value for the other kernels of the session.
  put(name, value) {
    const path = file(name);
    const text = JSON.stringify(table(value) ?? { value: value ?? null }, plain);
    const size = Buffer.byteLength(text);
    if (size > MAX_BYTES) throw new RangeError(`${name} has ${size} bytes as JSON; the limit is ${MAX_BYTES}`);
    fs.mkdirSync(FOLDER, { recursive: true, mode: 0o700 });
    const part = `${FOLDER}/.${process.pid}-${++last}`;
    fs.writeFileSync(part, text);
    fs.renameSync(part, path);
  },

  // get returns what a kernel of the session has stored. A table becomes an array of objects.
  get(name) {
    let text;
    try {
      text = fs.readFileSync(file(name), 'utf8');
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
      throw new Error(`no kernel has stored ${name}; there are: ${values.names().join(', ') || 'none'}`);
    }
    const stored = JSON.parse(text);
    if (!stored.columns) return stored.value;
    return stored.rows.map((row) => Object.fromEntries(stored.columns.map((c, i) => [c, row[i]])));
  },

  // names returns the names of the stored values.
  names() {
    try {
      return fs.readdirSync(FOLDER).filter((f) => f.endsWith('.json')).map((f) => f.slice(0, -5)).sort();
    } catch {
      return [];
    }
  },
};

module.exports = values;
