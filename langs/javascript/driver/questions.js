'use strict';
// Questions of an editor about code: completion, descriptions, signatures, problems, definitions,
// names, format. TypeScript's language server answers them. It starts with the first question, ends
// after a while without any, and runs no code. Everything here happens in the controller's thread,
// so that questions are answered while a cell runs.
const fs = require('node:fs');
const path = require('node:path');
const { LanguageServer, program, available, changed, FREE } = require('./lsp.js');
const { Documents, folder, plain, lineOf, JSX, MAX_CELLS, MAX_CODE } = require('./notebook.js');
const { problems } = require('./problems.js');

const IDLE = 180_000; // ms without questions until the server ends
const WAITING = 32; // questions that wait
const MATCHES = 1000;
const PLACES = 10_000;
const NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
const KINDS = { 2: 'method', 3: 'function', 4: 'class', 5: 'property', 6: 'variable', 7: 'class', 8: 'interface', 9: 'module', 10: 'property', 13: 'enum', 14: 'keyword', 20: 'enum', 21: 'constant', 25: 'type' };
const ASKED = new Set(['problems', 'definition', 'names', 'format', 'describe', 'signature']);

class Refused extends Error {
  name = 'ValueError';
}
class Superseded extends Error {}

const offset = (code, cursor) => {
  let at = 0;
  for (let n = cursor; n > 0 && at < code.length; n--) at += code.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
};
const points = (text, at = text.length) => [...text.slice(0, at)].length;

// asks reports whether a request is such a question.
function asks({ op, about }) {
  if (about === null || typeof about !== 'object') return false;
  return op === 'complete' ? Array.isArray(about.cells) : op === 'inspect' && ASKED.has(about.kind);
}

class Questions {
  #server = null;
  #documents = null;
  #dir = '';
  #surroundings = '';
  #last = Promise.resolve();
  #waiting = 0;
  #newest = new Map(); // the controller of the newest question of each kind about a cell
  #timer = null;

  // answer resolves with the answer to a request, or with null if there is none. A newer question of
  // the same kind about the same cell ends an older one.
  answer(request, earlier) {
    const { about } = request;
    const key = `${request.op} ${about.kind} ${about.at}`;
    this.#newest.get(key)?.abort();
    if (this.#waiting >= WAITING) return Promise.resolve(null);
    const control = new AbortController();
    this.#newest.set(key, control);
    this.#waiting++;
    const mine = this.#last.then(() => this.#twice(request, earlier, control.signal)).finally(() => {
      this.#waiting--;
      if (this.#newest.get(key) === control) this.#newest.delete(key);
    });
    this.#last = mine.catch(() => {});
    return mine.catch((error) => {
      if (error instanceof Refused) throw error;
      return null;
    });
  }

  // #twice asks again if the server has ended, as when the user has ended all processes.
  async #twice(request, earlier, signal) {
    for (let again = false; ; again = true) {
      try {
        return await this.#one(request, earlier, signal);
      } catch (error) {
        if (again || signal.aborted || error instanceof Refused || this.#server?.alive !== false) throw error;
      }
    }
  }

  async #one({ op, code = '', cursor = 0, about }, earlier, signal) {
    const check = () => {
      if (signal.aborted) throw new Superseded();
    };
    check();
    const text = String(code);
    const cells = Array.isArray(about.cells) && about.cells.length > 0 ? about.cells.map(String) : [text];
    const at = Number.isInteger(about.at) && about.at >= 0 && about.at < cells.length ? about.at : 0;
    cells[at] = text;
    if (cells.length > MAX_CELLS || cells.reduce((n, c) => n + c.length, 0) > MAX_CODE) return null;
    const server = await this.#start();
    if (!server) return null;
    check();
    await this.#documents.put(earlier.slice(-(MAX_CELLS - cells.length)), cells, at, check);
    check();
    const q = { server, documents: this.#documents, dir: this.#dir, cells, at, text: plain(text), where: offset(text, cursor), about, signal, earlier, check };
    const found = op === 'complete' ? await complete(q) : await ANSWERS[about.kind](q);
    if (server.large()) server.end();
    return found;
  }

  // #start returns the server, or null if there is none, or no memory for it. It starts again when
  // packages have been installed, or the working directory is another.
  async #start() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#server?.end(), IDLE);
    this.#timer.unref();
    const surroundings = `${process.cwd()} ${changed(path.join(process.cwd(), 'node_modules'))}`;
    if (this.#server?.alive && surroundings === this.#surroundings) return this.#server;
    this.#server?.end();
    this.#surroundings = surroundings;
    const tsc = program();
    if (!tsc || available() < FREE) return null;
    const dir = folder(path.resolve(tsc, '../../../..'));
    const server = new LanguageServer(tsc, dir, () => fs.rmSync(dir, { recursive: true, force: true }));
    this.#server = server;
    this.#dir = dir;
    this.#documents = new Documents(server, dir);
    await server.ready;
    return server;
  }
}

// --- Completion, descriptions, signatures ---

async function complete({ server, documents, at, text, where, signal }) {
  const cell = documents.at(at);
  const partial = /[\p{ID_Continue}$]*$/u.exec(text.slice(0, where))[0];
  if (/['"`/]$/.test(text.slice(0, where - partial.length))) return null; // a text, such as a package's name
  const found = await server.ask('textDocument/completion', { ...documents.position(cell, where), context: { triggerKind: 1 } }, undefined, signal);
  const items = (Array.isArray(found) ? found : found?.items ?? []).filter((i) => !i.additionalTextEdits && !i.data?.autoImport && (i.insertText ?? i.label) === i.label && NAME.test(i.label));
  let fits = items.filter((i) => i.label.startsWith(partial));
  if (fits.length === 0) fits = items.filter((i) => i.label.toLowerCase().startsWith(partial.toLowerCase()));
  if (fits.length === 0) return null;
  fits.sort((a, b) => ((a.sortText ?? '') < (b.sortText ?? '') ? -1 : (a.sortText ?? '') > (b.sortText ?? '') ? 1 : a.label < b.label ? -1 : 1));
  const matches = new Map();
  for (const i of fits.slice(0, MATCHES)) matches.set(i.label, KINDS[i.kind] ? { text: i.label, type: KINDS[i.kind] } : { text: i.label });
  const end = points(text, where);
  return { matches: [...matches.values()], cursor_start: end - points(partial), cursor_end: end };
}

async function describe({ server, documents, at, text, where, signal }) {
  const found = await server.ask('textDocument/hover', documents.position(documents.at(at), where), undefined, signal);
  const said = typeof found?.contents === 'string' ? found.contents : found?.contents?.value;
  if (!said) return null;
  const [, code, rest] = /^\s*```\w*\n([^]*?)\n```\n*([^]*)$/.exec(said) ?? [null, said, ''];
  const head = code.replace(/^\(alias\) /, '').replace(/\nimport [^\n]*$/, '').replace(/\bimport\("[^"]*\/[ce]\d+(\.tsx?)?"\)\./g, '');
  const word = /[\p{ID_Continue}$]*$/u.exec(text.slice(0, where))[0];
  if (/(^|: )any$/.test(head) && !rest && word !== 'any') return null; // nothing is known
  const doc = rest.trim().replace(/\*(@\w+)\*/g, '$1').replaceAll('`', '');
  return { text: doc ? `${head}\n\n${doc}` : head };
}

async function signature({ server, documents, at, where, signal }) {
  const found = await server.ask('textDocument/signatureHelp', documents.position(documents.at(at), where), undefined, signal);
  const one = found?.signatures?.[found.activeSignature ?? 0];
  if (!one) return null;
  let from = one.label.indexOf('(');
  const parameters = (one.parameters ?? []).map(({ label }) => {
    if (Array.isArray(label)) return label;
    from = one.label.indexOf(label, from);
    const range = [from, from + label.length];
    from += label.length;
    return range;
  });
  const doc = typeof one.documentation === 'string' ? one.documentation : one.documentation?.value;
  const more = found.signatures.length - 1;
  return { label: one.label, parameters, active: one.activeParameter ?? found.activeParameter ?? 0, ...(doc ? { doc } : {}), ...(more > 0 ? { more } : {}) };
}

// --- Definitions and names ---

async function definition(q) {
  const { server, documents, dir, at, where, signal } = q;
  const here = documents.position(documents.at(at), where);
  const look = async (place) => [await server.ask('textDocument/definition', place, undefined, signal) ?? []].flat();
  let same = null;
  for (let { uri, range } of await look(here)) {
    // An import of a name is not its definition.
    if (range.start.line === 0 && LanguageServer.place(dir, uri).name) {
      [{ uri, range } = { uri, range }] = await look({ textDocument: { uri }, position: range.start });
    }
    const place = documents.place(uri, range);
    if (place && place.cell.index >= 0) {
      if (place.cell.index !== at || !within(range, here.position)) return point(place);
      same ??= point(place);
      continue;
    }
    const { file } = LanguageServer.place(dir, uri);
    if (file) return { file: path.resolve(file), line: range.start.line + 1 };
  }
  return same;
}

const within = ({ start, end }, p) => p.line === start.line && p.character >= start.character && p.character <= end.character;
const point = ({ cell, line, column }) => ({ cell: cell.index, line, column: points(lineOf(cell.text, line), column) });

async function names(q) {
  const { server, documents, at, text, where, about, signal } = q;
  const cell = documents.at(at);
  const here = documents.position(cell, where);
  const found = await server.ask('textDocument/prepareRename', here, undefined, signal).catch(() => null);
  if (!found) return null;
  const word = /[\p{ID_Continue}$]*$/u.exec(text.slice(0, where))[0] + /^[\p{ID_Continue}$]*/u.exec(text.slice(where))[0];
  if (!NAME.test(word)) return null;
  const fresh = about.new === undefined ? `${word}_` : String(about.new);
  if (about.new !== undefined) mayName(fresh);
  const edits = await renamed(q, here, fresh, word);
  if (edits.length === 0) return null;
  if (about.new !== undefined) await mayBecome(q, edits, word, fresh);
  return { name: word, places: edits.slice(0, PLACES).map(({ before, after, ...place }) => ({ ...point(place), ...(before ? { before } : {}), ...(after ? { after } : {}) })) };
}

// renamed returns the changes that give a variable another name in all cells. A name that one cell
// imports from another is renamed in each of them.
async function renamed({ server, documents, signal }, here, fresh, word) {
  const references = await server.ask('textDocument/references', { ...here, context: { includeDeclaration: true } }, undefined, signal);
  const files = new Map();
  for (const { uri, range } of references ?? []) {
    const place = documents.place(uri, range);
    if (!place || place.cell.index < 0 || lineOf(place.cell.text, place.line).slice(place.column, place.end) !== word) continue;
    if (!files.has(uri)) files.set(uri, range.start);
  }
  const edits = new Map();
  for (const [uri, position] of files) {
    const made = await server.ask('textDocument/rename', { textDocument: { uri }, position, newName: fresh }, undefined, signal);
    for (const [file, list] of Object.entries(made?.changes ?? {})) {
      for (const { range, newText } of list) {
        const place = documents.place(file, range);
        if (!place || place.cell.index < 0) continue;
        const [before, after] = newText.split(fresh);
        edits.set(`${place.cell.index}:${place.line}:${place.column}`, { ...place, before, after });
      }
    }
  }
  return [...edits.values()].sort((a, b) => a.cell.index - b.cell.index || a.line - b.line || a.column - b.column);
}

const RESERVED = new Set(('await break case catch class const continue debugger default delete do else enum export extends false finally for function if import in ' +
  'instanceof new null return super switch this throw true try typeof var void while with yield let static implements interface package private protected public').split(' '));

function mayName(fresh) {
  if (!NAME.test(fresh) || RESERVED.has(fresh)) throw new Refused(`'${fresh}' is not a name`);
}

// mayBecome throws if the changes would give the code an error that it does not have.
async function mayBecome({ server, documents, cells, at, earlier, check, signal }, edits, word, fresh) {
  if (documents.cells.some((c) => c.names.includes(word)) && documents.cells.some((c) => c.names.includes(fresh))) throw new Refused(`${fresh} is already a name here`);
  const changed = [...cells];
  for (const { cell, line, column, end, before, after } of [...edits].reverse()) {
    const lines = changed[cell.index].split('\n');
    lines[line - 1] = `${lines[line - 1].slice(0, column)}${before}${fresh}${after}${lines[line - 1].slice(end)}`;
    changed[cell.index] = lines.join('\n');
  }
  const touched = [...new Set(edits.map((e) => e.cell.index))];
  const errors = async () => {
    const all = [];
    for (const index of touched) all.push(...await problems({ server, documents, at: index, signal, typed: true }));
    return all;
  };
  const had = await errors();
  await documents.put(earlier.slice(-(MAX_CELLS - cells.length)), changed, at, check);
  const has = await errors();
  if (has.length > had.length) throw new Refused(`with the name ${fresh} the code has an error: ${has.find((e) => !had.some((h) => h.message === e.message))?.message ?? has[0].message}`);
}

// --- Format ---

async function format({ server, text, cells, at, signal }) {
  const name = JSX.test(text) ? 'format.tsx' : 'format.ts';
  const textDocument = { uri: server.uri(name) };
  server.put(name, text);
  const { items } = await server.ask('textDocument/diagnostic', { textDocument }, undefined, signal);
  const wrong = items.find((d) => d.severity === 1 && d.code >= 1000 && d.code < 2000 && d.code !== 1375 && d.code !== 1378);
  if (wrong) throw new Refused(`line ${wrong.range.start.line + 1}: ${wrong.message}`);
  const edits = await server.ask('textDocument/formatting', { textDocument, options: { tabSize: indent(text), insertSpaces: !/^\t/m.test(text) } }, undefined, signal);
  // The lines that are commands have the same place and length in both texts.
  const starts = [0];
  for (let i = 0; i < text.length; i++) if (text[i] === '\n') starts.push(i + 1);
  const index = (p) => Math.min((starts[p.line] ?? text.length) + p.character, text.length);
  let code = cells[at];
  const list = (edits ?? []).map(({ range, newText }) => ({ from: index(range.start), to: index(range.end), newText })).sort((a, b) => b.from - a.from || b.to - a.to);
  for (const { from, to, newText } of list) code = code.slice(0, from) + newText + code.slice(to);
  return { code: code.replace(/\n+$/, '') };
}

// indent returns the width that a text is indented by.
function indent(text) {
  const widths = [...text.matchAll(/^( +)\S/gm)].map((m) => m[1].length).filter((n) => n > 1);
  return widths.length > 0 ? Math.min(8, ...widths) : 2;
}

const ANSWERS = {
  describe, signature, definition, names, format,
  problems: async (q) => ({ problems: await problems(q) }),
};

module.exports = { Questions, asks };
