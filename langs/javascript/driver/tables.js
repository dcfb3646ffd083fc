'use strict';
// Arrays of objects that a client shows as tables: their rows in pages, sorted and filtered,
// statistics of a column, CSV. docs/protocol.md describes the questions and answers.
const { randomBytes } = require('node:crypto');
const { types } = require('node:util');

const MIME = 'application/vnd.sandgate.table+json';
const MAX_TABLES = 200; // arrays that have an id; the oldest lose it
const MAX_ROWS = 1_000_000; // of an array that is a table
const MAX_COLUMNS = 100;
const LOOK = 1000; // rows that decide whether an array is a table
const MAX_FIRST = 5_000; // fields that the output has
const MAX_PAGE = 500; // rows of one answer
const MAX_FIELD = 300; // characters of a field, unless its row is requested alone
const MAX_CSV = 100_000; // fields of one part of a CSV file
const BINS = 20;
const TOP = 10;

const simple = (v) => v === null || v === undefined || ['string', 'number', 'boolean', 'bigint'].includes(typeof v) || types.isDate(v);

// field returns the value of a property without a call of code, as JSON has it.
function field(row, name) {
  const v = row !== null && typeof row === 'object' && !types.isProxy(row) ? Object.getOwnPropertyDescriptor(row, name)?.value : undefined;
  if (typeof v === 'number') return Number.isFinite(v) ? v : null;
  if (typeof v === 'bigint') return String(v);
  if (types.isDate(v)) return Number.isNaN(Date.prototype.getTime.call(v)) ? null : Date.prototype.toISOString.call(v);
  if (typeof v === 'string' || typeof v === 'boolean') return v;
  return v === null || v === undefined ? null : '…';
}

function kind(values) {
  const kinds = new Set(values.filter((v) => v !== null).map((v) => typeof v));
  if (kinds.size !== 1 || kinds.has('string')) return 'text';
  if (kinds.has('boolean')) return 'boolean';
  return values.every((v) => v === null || Number.isInteger(v)) ? 'integer' : 'number';
}

// compare orders two values. Missing ones are last in either direction.
function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null);
  const by = typeof a === 'number' && typeof b === 'number' ? a - b : String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
  return down ? -by : by;
}

function passes(v, { is, value = '' }) {
  if (is === 'missing' || is === 'present') return (v === null) === (is === 'missing');
  if (v === null) return false;
  if (is === 'contains') return String(v).toLowerCase().includes(String(value).toLowerCase());
  const by = typeof v === 'number' ? v - Number(value) : compare(String(v), String(value));
  return { '=': by === 0, '≠': by !== 0, '<': by < 0, '≤': by <= 0, '>': by > 0, '≥': by >= 0 }[is];
}

const cut = (v) => (typeof v === 'string' && v.length > MAX_FIELD ? `${v.slice(0, MAX_FIELD)}…` : v);

class Tables {
  #tables = new Map();

  // form returns the form of an array of objects with simple values; undefined for another value.
  form(value) {
    if (!Array.isArray(value) || types.isProxy(value) || value.length < 2 || value.length > MAX_ROWS) return undefined;
    const looked = value.slice(0, LOOK);
    const record = (row) => {
      if (row === null || typeof row !== 'object' || types.isProxy(row)) return false;
      const parent = Object.getPrototypeOf(row);
      if (parent !== null && Object.getPrototypeOf(parent) !== null) return false; // of a class
      return Object.values(Object.getOwnPropertyDescriptors(row)).every((d) => 'value' in d && simple(d.value));
    };
    if (!looked.every(record)) return undefined;
    const names = [...new Set(looked.flatMap((row) => Object.keys(row)))];
    if (names.length === 0 || names.length > MAX_COLUMNS) return undefined;
    const id = randomBytes(8).toString('hex');
    const table = { array: new WeakRef(value), names, orders: new Map() };
    this.#tables.set(id, table);
    if (this.#tables.size > MAX_TABLES) this.#tables.delete(this.#tables.keys().next().value);
    const columns = [{ name: '', type: 'index' }, ...names.map((name) => ({ name, type: kind(looked.map((row) => field(row, name))) }))];
    const count = Math.min(value.length, MAX_PAGE, Math.max(1, Math.floor(MAX_FIRST / columns.length)));
    const first = this.#rows(value, names, Array.from({ length: count }, (_, i) => i));
    const whole = count === value.length && first.every((row) => row.every((v) => typeof v !== 'string' || v.length <= MAX_FIELD));
    return { id, rows: value.length, columns, first: first.map((row) => row.map(cut)), whole };
  }

  #rows(array, names, places) {
    return places.map((i) => [i, ...names.map((name) => field(array[i], name))]);
  }

  // answer answers a question about a table; undefined if there is none.
  answer(about) {
    const table = this.#tables.get(about.id);
    const array = table?.array.deref();
    if (!array) return undefined;
    const { names } = table;
    const at = (i, column) => (column === 0 ? i : field(array[i], names[column - 1]));
    const places = this.#order(table, array, at, about.sort, about.filters ?? []);
    const from = Math.max(0, about.from ?? 0);
    if (about.kind === 'statistics') return describe(places.map((i) => at(i, about.column)));
    if (about.kind === 'export') return csv(names, places, from, at, about.format);
    const count = Math.min(about.count ?? 100, MAX_PAGE);
    const [low, high] = about.columns ?? [0, MAX_COLUMNS + 1];
    const rows = this.#rows(array, names, places.slice(from, from + count)).map((row) => row.slice(low, high));
    return { total: places.length, rows: count === 1 ? rows : rows.map((row) => row.map(cut)) };
  }

  #order(table, array, at, sort, filters) {
    const key = JSON.stringify([array.length, sort, filters]);
    const known = table.orders.get(key);
    if (known) return known;
    let places = Array.from(array, (_, i) => i);
    for (const f of filters) places = places.filter((i) => passes(at(i, f.column), f));
    if (sort) {
      const values = new Map(places.map((i) => [i, at(i, sort.column)]));
      places.sort((a, b) => compare(values.get(a), values.get(b), sort.descending));
    }
    table.orders.set(key, places);
    if (table.orders.size > 2) table.orders.delete(table.orders.keys().next().value);
    return places;
  }
}

function csv(names, places, from, at, format) {
  if (format !== 'csv') throw new Error('JavaScript writes CSV only');
  const end = Math.min(places.length, from + Math.max(1, Math.floor(MAX_CSV / (1 + names.length))));
  const quoted = (v) => (v === null ? '' : /[",\r\n]/.test(v) ? `"${String(v).replaceAll('"', '""')}"` : String(v));
  const lines = places.slice(from, end).map((i) => names.map((_, n) => quoted(at(i, n + 1))).join(','));
  if (from === 0) lines.unshift(names.map(quoted).join(','));
  return { text: `${lines.join('\n')}\n`, next: end < places.length ? end : null, total: places.length };
}

function describe(values) {
  const there = values.filter((v) => v !== null);
  const found = { count: values.length, missing: values.length - there.length, distinct: new Set(there).size };
  if (there.length === 0) return found;
  if (there.some((v) => typeof v !== 'number')) {
    const counts = new Map();
    for (const v of there) counts.set(cut(String(v)), (counts.get(cut(String(v))) ?? 0) + 1);
    return { ...found, top: [...counts].sort((a, b) => b[1] - a[1]).slice(0, TOP) };
  }
  const sorted = Float64Array.from(there).sort();
  const at = (q) => {
    const place = q * (sorted.length - 1), low = Math.floor(place);
    return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
  };
  const min = sorted[0], max = sorted[sorted.length - 1];
  const mean = there.reduce((a, b) => a + b, 0) / there.length;
  const std = there.length > 1 ? Math.sqrt(there.reduce((a, b) => a + (b - mean) ** 2, 0) / (there.length - 1)) : 0;
  const [start, width] = min === max ? [min - 0.5, 1 / BINS] : [min, (max - min) / BINS];
  const counts = new Array(BINS).fill(0);
  for (const v of there) counts[Math.min(BINS - 1, Math.floor((v - start) / width))]++;
  return { ...found, min, q1: at(0.25), median: at(0.5), q3: at(0.75), max, mean, std, histogram: { counts, edges: Array.from({ length: BINS + 1 }, (_, i) => start + i * width) } };
}

const tables = new Tables();

module.exports = { MIME, tables };
