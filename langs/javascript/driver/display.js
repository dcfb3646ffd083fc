'use strict';
// Rich forms of values, and the function display.
const process = require('node:process');
const fs = require('node:fs');
const module_ = require('node:module');
const path = require('node:path');
const { types } = require('node:util');
const { text } = require('./errors.js');
const { current } = require('./cells.js');
const { MIME, tables } = require('./tables.js');

// A package is looked for where a cell would find it.
const require_ = (name) => module_.createRequire(path.join(process.cwd(), 'cell.js'))(name);

// A value may have a method that returns a MIME bundle, or a promise of one.
const CONVENTIONS = [Symbol.for('sandgate.display'), Symbol.for('Jupyter.display'), '$display'];

const INSPECT = { depth: 4, maxArrayLength: 100, maxStringLength: 100_000, breakLength: 100, numericSeparator: false };

const VEGA = { 'vega-lite': 'application/vnd.vegalite.v5+json', vega: 'application/vnd.vega.v5+json' };

const method = (value, key) => {
  try {
    return typeof value[key] === 'function' ? value[key] : null;
  } catch {
    return null;
  }
};

// bundle returns the MIME bundle of a value, or a promise of it.
function bundle(value) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return plain(value);
  if (!types.isProxy(value) && value instanceof Bundle) return complete(value.data, value);
  for (const key of CONVENTIONS) {
    const call = method(value, key);
    if (!call) continue;
    const made = Reflect.apply(call, value, []);
    return typeof made?.then === 'function' ? made.then((data) => complete(data, value)) : complete(made, value);
  }
  if (!types.isProxy(value) && /^(Timeout|Immediate)$/.test(value.constructor?.name) && typeof value.hasRef === 'function') {
    return { 'text/plain': text(value, { depth: -1, customInspect: false }) };
  }
  const drawn = typeof value === 'object' && (markup(value) ?? canvas(value));
  return drawn ? { ...drawn, 'text/plain': long(value) } : plain(value);
}

// plain returns the text of a value, and the table of an array of objects.
function plain(value) {
  const table = tables.form(value);
  return { 'text/plain': long(value), ...(table && { [MIME]: table }) };
}

const MOST = 20_000; // characters of a text, above which it has fewer levels
const LEVELS = [2, 1, 0];

// long returns the text of a value. A large object, such as process or a server, has fewer levels.
function long(value) {
  let made = text(value, INSPECT);
  if (typeof value === 'string') return made;
  for (const depth of LEVELS) {
    if (made.length <= MOST) break;
    const less = text(value, { ...INSPECT, depth });
    if (less.length < made.length) made = less;
  }
  return made;
}

const REACT = new Set([Symbol.for('react.transitional.element'), Symbol.for('react.element')]);

// markup returns the HTML of a DOM element, as jsdom and other libraries provide it, or of an
// element of React.
function markup(value) {
  const html = element(value);
  if (html) return { 'text/html': html };
  if (types.isProxy(value) || !REACT.has(value.$$typeof)) return null;
  let render;
  try {
    render = require_('react-dom/server').renderToStaticMarkup;
  } catch {
    return null; // the package is not installed
  }
  return { 'text/html': render(value) };
}

// canvas returns the picture of a canvas.
function canvas(value) {
  if (types.isProxy(value) || !method(value, 'getContext') || !method(value, 'toDataURL')) return null;
  try {
    const [, type, data] = /^data:(image\/[\w+.-]+);base64,(.+)$/s.exec(value.toDataURL('image/png')) ?? [];
    return type ? { [type]: data } : null;
  } catch {
    return null;
  }
}

// element returns the HTML of a DOM element, as jsdom and other libraries provide it.
function element(value) {
  try {
    return value.nodeType === 1 && typeof value.outerHTML === 'string' ? value.outerHTML : '';
  } catch {
    return '';
  }
}

// complete builds a bundle from the result of a method.
function complete(data, value) {
  if (data === null || typeof data !== 'object') return plain(value);
  const made = {};
  for (const key of Object.keys(data)) {
    const part = data[key];
    const binary = ArrayBuffer.isView(part) || part instanceof ArrayBuffer;
    made[key] = binary ? buffer(part).toString('base64') : part;
  }
  if (made['text/plain'] === undefined) {
    made['text/plain'] = value instanceof Bundle ? `[${Object.keys(made).join(', ')}]` : text(value, INSPECT);
  }
  return made;
}

const buffer = (bytes) => (ArrayBuffer.isView(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) : Buffer.from(bytes));

// Bundle is a value that consists only of its forms. display.html and similar functions return it.
class Bundle {
  constructor(data) {
    this.data = data;
  }
}

const escape = (string) => string.replace(/[&<>"']/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c]);

const MAGIC = [
  ['image/png', (b) => b.readUInt32BE(0) === 0x89504e47],
  ['image/jpeg', (b) => b.readUInt16BE(0) === 0xffd8],
  ['image/gif', (b) => b.toString('latin1', 0, 4) === 'GIF8'],
  ['image/webp', (b) => b.toString('latin1', 8, 12) === 'WEBP'],
];

// image accepts bytes, a path, a data URL or the text of an SVG.
function image(source) {
  if (typeof source === 'string') {
    if (/^\s*<(svg|\?xml)/.test(source)) return { 'image/svg+xml': source };
    const url = /^data:([\w/+.-]+);base64,(.*)$/s.exec(source);
    if (url) return { [url[1]]: url[2] };
    source = fs.readFileSync(source);
    if (/^\s*<(svg|\?xml)/.test(source.toString('latin1', 0, 200))) return { 'image/svg+xml': source.toString() };
  }
  if (!ArrayBuffer.isView(source) && !(source instanceof ArrayBuffer)) {
    throw new TypeError('display.image takes bytes, a path, a data URL or the text of an SVG');
  }
  const bytes = buffer(source);
  const type = bytes.length >= 12 && MAGIC.find(([, is]) => is(bytes))?.[0];
  if (!type) throw new TypeError('display.image knows PNG, JPEG, GIF, WebP and SVG, and these bytes are none of them');
  return { [type]: bytes.toString('base64') };
}

const ROWS = 1000; // number of rows that a table shows

// table accepts rows: objects, arrays or plain values, in any iterable.
function table(rows, columns) {
  const all = rows instanceof Map ? [...rows].map(([key, value]) => ({ key, value })) : Array.from(rows);
  const shown = all.slice(0, ROWS);
  const isRow = (row) => row !== null && typeof row === 'object';
  const names = columns ?? [...new Set(shown.flatMap((row) => (isRow(row) ? Object.keys(row) : ['value'])))];
  const cell = (row, name) => {
    const value = isRow(row) ? row[name] : name === 'value' ? row : undefined;
    return value === undefined ? '' : typeof value === 'string' ? value : text(value, { depth: 1, breakLength: Infinity });
  };
  const grid = shown.map((row) => names.map((name) => cell(row, name)));
  const numeric = names.map((name) => shown.every((row) => typeof (isRow(row) ? row[name] : row) === 'number'));
  const td = (value, i) => `<td${numeric[i] ? ' style="text-align:right"' : ''}>${escape(value)}</td>`;
  const more = all.length > shown.length ? `… ${all.length - shown.length} more rows` : '';
  const html = `<table><thead><tr><th></th>${names.map((n) => `<th>${escape(String(n))}</th>`).join('')}</tr></thead><tbody>${
    grid.map((row, i) => `<tr><th>${i}</th>${row.map(td).join('')}</tr>`).join('')}</tbody></table>${more && `<p>${more}</p>`}`;
  const width = names.map((name, i) => Math.min(40, Math.max(String(name).length, ...grid.map((row) => row[i].length))));
  const line = (row) => row.map((value, i) => (numeric[i] ? value.padStart(width[i]) : value.padEnd(width[i]))).join('  ').trimEnd();
  const lines = [line(names.map(String)), ...grid.map(line)];
  if (more) lines.push(more);
  return { 'text/html': html, 'text/plain': lines.join('\n') };
}

// chart accepts a specification of Vega-Lite or Vega.
function chart(spec) {
  if (typeof spec?.toSpec === 'function') spec = spec.toSpec();
  if (spec === null || typeof spec !== 'object') throw new TypeError('display.chart takes a specification of Vega-Lite');
  const kind = /\/vega\/v/.test(spec.$schema ?? '') ? 'vega' : 'vega-lite';
  const full = spec.$schema ? spec : { $schema: 'https://vega.github.io/schema/vega-lite/v5.json', ...spec };
  return { [VEGA[kind]]: full, 'text/plain': `[${kind} chart]` };
}

// makeDisplay returns the function that cells call.
function makeDisplay(messages) {
  let last = 0;

  const show = (value, id, type = 'display_data', cell = current()) => {
    const data = bundle(value);
    const send = (made) => messages.bundle(type, made, { id, cell });
    return typeof data?.then === 'function' ? data.then(send) : send(data);
  };

  // handle returns the result of display, which can show something else in the same place. The
  // handle of display.html takes HTML.
  const handle = (id, shown, form = (value) => value) => {
    const made = { id, update: (value) => settle(id, show(form(value), id, 'update_display_data')) };
    Object.defineProperty(made, Symbol.for('nodejs.util.inspect.custom'), { value: () => `[display ${id}]` });
    return typeof shown?.then === 'function' ? shown.then(() => made) : made;
  };
  const settle = (id, shown) => (typeof shown?.then === 'function' ? shown.then(() => undefined) : undefined);

  const display = (value, { id } = {}, form) => {
    if (id === undefined) {
      const shown = show(value);
      return typeof shown?.then === 'function' ? shown.then(() => undefined) : undefined;
    }
    return handle(id, show(value, id), form);
  };
  const kinds = {
    html: (html) => ({ 'text/html': String(html), 'text/plain': String(html) }),
    markdown: (source) => ({ 'text/markdown': String(source), 'text/plain': String(source) }),
    latex: (source) => ({ 'text/latex': String(source), 'text/plain': String(source) }),
    svg: (source) => ({ 'image/svg+xml': String(source) }),
    json: (value) => ({ 'application/json': value === undefined ? null : value, 'text/plain': text(value, INSPECT) }),
    raw: (data) => data,
    image,
    table,
    chart,
  };
  for (const [name, make] of Object.entries(kinds)) {
    display[name] = (value, options) => {
      const columns = Array.isArray(options) ? options : options?.columns;
      const form = (another) => (another instanceof Bundle ? another : new Bundle(make(another, columns)));
      return display(form(value), Array.isArray(options) ? {} : options, form);
    };
  }
  display.update = (id, value) => settle(id, show(value, id, 'update_display_data'));
  display.handle = (value) => handle(`display-${process.pid}-${++last}`, show(value, `display-${process.pid}-${last}`));
  display.clear = (wait = false) => { messages.send('clear_output', { wait: wait === true || wait?.wait === true }); };
  return display;
}

module.exports = { bundle, makeDisplay };
