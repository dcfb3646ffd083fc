'use strict';
// Errors as messages: name, message, and a stack with the user's lines and columns and without the
// driver's frames.
const { inspect } = require('node:util');

const OURS = __dirname + '/';
const MAX_VALUE = 64 << 10; // characters
const CAPTURED = 30; // frames, so that enough are left without those of Node's loader
const SHOWN = 10;
const MAX_TRACE = 1 << 20;
const own = (text) => text.includes(OURS) || text.includes('node:inspector');

// loads matches the frames of Node that look for a module.
const loads = (text) => /node:internal\/modules\/|node:diagnostics_channel/.test(text);

function shorten(text, limit) {
  return text.length <= limit ? text : `${text.slice(0, limit)}… (${text.length} characters in all)`;
}

// visible removes the driver's frames, and Node's frames that called the user's outermost code.
function visible(frames) {
  const first = frames.findIndex((f) => f.includes('node:inspector'));
  if (first >= 0 && !frames.slice(first).some((f) => f.includes('cell_'))) frames = frames.slice(0, first);
  const shown = frames.filter((f) => !own(f) && !loads(f));
  const last = shown.findLastIndex((f) => !f.includes('node:internal/'));
  return last < 0 ? shown : shown.slice(0, last + 1);
}

// install makes V8 format stacks this way.
function install(origins) {
  Error.stackTraceLimit = CAPTURED;
  Error.prepareStackTrace = function prepareStackTrace(error, sites) {
    let head;
    try {
      head = Reflect.apply(Error.prototype.toString, error, []);
    } catch {
      head = 'Error';
    }
    let frames = visible(sites.map((site) => origins.translate(String(site))));
    if (Error.stackTraceLimit === CAPTURED) frames = frames.slice(0, SHOWN);
    return frames.length > 0 ? `${head}\n    at ${frames.join('\n    at ')}` : head;
  };
}

// attempt returns the result of a user's accessor, or undefined if it throws.
function attempt(get) {
  try {
    return get();
  } catch {
    return undefined;
  }
}

// plain replaces internal names by the user's names.
const plain = (string) => string.replaceAll('sandgate$', '');

// text returns a short text for any value. It never fails.
function text(value, options) {
  try {
    return inspect(value, options);
  } catch {
    return attempt(() => Object.prototype.toString.call(value)) ?? '[object]';
  }
}

// describe returns {ename, evalue, traceback} for any thrown value.
function describe(error, origins) {
  if (!(attempt(() => error instanceof Error || Object.prototype.toString.call(error) === '[object Error]'))) {
    const value = typeof error === 'string' ? error : text(error);
    return { ename: 'Uncaught', evalue: shorten(value, MAX_VALUE), traceback: [shorten(`Uncaught ${text(error)}`, MAX_TRACE)] };
  }
  let name = attempt(() => error.name);
  const made = attempt(() => error.constructor?.name);
  if (typeof name !== 'string' || !name || (name === 'Error' && typeof made === 'string' && made)) name = made || 'Error';
  const message = attempt(() => String(error.message)) ?? '';
  const stack = text(error);
  return {
    ename: name,
    evalue: shorten(plain(message), MAX_VALUE),
    traceback: shorten([...excerpt(stack, origins), ...plain(stack).split('\n')].join('\n'), MAX_TRACE).split('\n'),
  };
}

// excerpt returns the line of the cell where a stack begins, with a mark.
function excerpt(stack, origins) {
  const [, name, line, column] = /\n\s+at .*?(cell_\w+\.[jt]s):(\d+):(\d+)/.exec(stack) ?? [];
  return name ? mark(origins.get(name), Number(line), Number(column)) : [];
}

function mark(origin, line, column) {
  if (!origin) return [];
  const code = origin.line(line);
  column = Math.min(column, code.length + 1);
  if (code.length > 500) return [`${origin.name}:${line}`, ''];
  const before = code.slice(0, column - 1).replace(/[^\t]/g, ' ');
  return [`${origin.name}:${line}`, code, `${before}^`, ''];
}

// syntax is like describe, for code that does not compile.
function syntax(message, origin, line, column, name = 'SyntaxError') {
  return { ename: name, evalue: shorten(message, MAX_VALUE), traceback: [...mark(origin, line, column), `${name}: ${message}`] };
}

module.exports = { install, describe, syntax, text, shorten };
