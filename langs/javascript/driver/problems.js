'use strict';
// Problems in the code of a cell. Code that is JavaScript is only checked for names that nothing
// declares. If a cell of the notebook has types, all cells are checked as TypeScript.
const { parse, asObject } = require('./rewrite.js');
const { lineOf, JSX } = require('./notebook.js');

const MOST = 100;
const TEXT = 500; // characters of a message
const NAMES = new Set([2304, 2552, 2503, 2580, 2581, 2582, 2583, 2584, 2591, 18004]); // "Cannot find name"
const MODULES = new Set([2307, 2792]); // "Cannot find module"
// A session allows these: changing another cell's variable, exporting a name again, packages without
// types, JSX without the types of React, and others.
const ALLOWED = new Set([2632, 2323, 2484, 7016, 7026, 2875, 2686, 2874, 1208, 2528, 2695, 7027, 7028]);
const points = (text, at) => [...text.slice(0, at)].length;

function script(text) {
  try {
    if (asObject(text)) return true;
    parse(text);
    return true;
  } catch {
    return false;
  }
}

const known = new Map(); // whether a text is JavaScript

function isScript(text) {
  if (!known.has(text)) {
    if (known.size > 1000) known.clear();
    known.set(text, script(text));
  }
  return known.get(text);
}

// problems returns the problems of the cell with the index at. typed forces the checks of types.
async function problems({ server, documents, at, signal, typed = false }) {
  const cell = documents.at(at);
  if (!cell || asObject(cell.text)) return [];
  const { items } = await server.ask('textDocument/diagnostic', { textDocument: { uri: server.uri(cell.name) } }, undefined, signal);
  const errors = items.filter((d) => d.severity === 1 && !ALLOWED.has(d.code) && documents.place(server.uri(cell.name), d.range));
  const types = typed || documents.cells.some((c) => c.index >= 0 && !JSX.test(c.text) && !isScript(c.text) && c !== cell);
  let list = errors;
  if (isScript(cell.text)) {
    if (!types) list = errors.filter((d) => NAMES.has(d.code) || MODULES.has(d.code));
  } else {
    const wrong = errors.filter((d) => syntax(d.code));
    if (wrong.length > 0) list = wrong;
  }
  return list.slice(0, MOST).map((d) => {
    const { line, column, end } = documents.place(server.uri(cell.name), d.range);
    const text = lineOf(cell.text, line);
    const from = points(text, column);
    return {
      line, column: from, end: Math.max(points(text, end), from + 1),
      message: d.message.length > TEXT ? `${d.message.slice(0, TEXT)}…` : d.message,
      severity: NAMES.has(d.code) || MODULES.has(d.code) ? 'warning' : 'error',
    };
  });
}

const syntax = (code) => (code >= 1000 && code < 2000) || (code >= 17000 && code < 18000);

module.exports = { problems };
