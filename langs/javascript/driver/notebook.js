'use strict';
// The cells of a notebook as modules of a project. A cell exports the names of its top level, and
// imports those that it uses from the cell that declares them: the nearest one before it, or the
// first one after it. So a name may be declared again, as in a session.
//
// The imports are the first line of a document and the exports the last one. The lines between them
// are those of the cell, in the same columns.
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { LanguageServer } = require('./lsp.js');

const MAX_CELLS = 400;
const MAX_CODE = 1 << 20; // characters of all cells
const MAX_FILES = 200;
const NAMES = 2000; // cells whose names are kept
const LINE = /^([ \t]*)!([ \t]*(?:[A-Za-z_][\w-]*|[./~]\S*)(?![\w$]*[ \t]*(?:[(.[=;,)?:]|&&|\|\||[<>!=]=))[^\n]*)$/gm;
const JSX = /<\/|\/>/;
const SCRATCH = 'names.tsx';
const FOLDER = '.typescript-';

const OPTIONS = {
  target: 'esnext', module: 'esnext', moduleResolution: 'bundler', lib: ['esnext'], types: ['node'],
  strict: true, noImplicitAny: false, strictPropertyInitialization: false, useUnknownInCatchVariables: false, allowJs: true, checkJs: false,
  noEmit: true, skipLibCheck: true, allowImportingTsExtensions: true, resolveJsonModule: true, jsx: 'preserve', esModuleInterop: true,
  allowUnreachableCode: true, allowUnusedLabels: true,
};

// plain hides the lines that are commands of the shell. All positions stay.
const plain = (code) => (code.includes('!') ? code.replace(LINE, (line, indent, command) => `${indent}/${command.length > 0 ? '/' : ''}${command.slice(1)}`) : code);

// folder makes the folder of the project. Packages and files are found as from the working directory.
// modules is the folder with the packages of the image.
function folder(modules) {
  const dir = path.join(os.tmpdir(), `${FOLDER}${process.pid}`);
  for (const name of fs.readdirSync(os.tmpdir())) {
    // Those of kernels that have ended, and an earlier one of this kernel.
    if (name.startsWith(FOLDER) && (!fs.existsSync(`/proc/${name.slice(FOLDER.length)}`) || name === path.basename(dir))) {
      fs.rmSync(path.join(os.tmpdir(), name), { recursive: true, force: true });
    }
  }
  fs.mkdirSync(dir, { mode: 0o700 });
  const here = process.cwd();
  fs.writeFileSync(path.join(dir, 'tsconfig.json'), JSON.stringify({
    compilerOptions: { ...OPTIONS, rootDirs: ['.', here], typeRoots: [path.join(modules, '@types')] }, include: ['*.ts', '*.tsx'],
  }));
  fs.copyFileSync(path.join(__dirname, 'globals.d.ts'), path.join(dir, 'globals.d.ts'));
  fs.symlinkSync(packages(here), path.join(dir, 'node_modules'));
  return dir;
}

// packages returns the nearest folder of packages. Without one, it is where one may appear.
function packages(here) {
  for (let dir = here; path.dirname(dir) !== dir; dir = path.dirname(dir)) {
    const found = path.join(dir, 'node_modules');
    if (fs.existsSync(found)) return found;
  }
  return path.join(here, 'node_modules');
}

// files returns the files that cells import by a path, as far as there are any.
function files(texts) {
  const found = new Set();
  for (const text of texts) {
    for (const [, name] of text.matchAll(/(?:\bfrom|\bimport|\brequire\()\s*\(?\s*['"](\.{1,2}\/[^'"\n]+)['"]/g)) {
      for (const end of ['', '.ts', '.tsx', '.js', '.json']) found.add(path.resolve(name + end));
    }
  }
  return [...found].slice(0, MAX_FILES);
}

// Documents are the cells in a language server.
class Documents {
  #server;
  #dir;
  #names = new Map(); // the names of each text
  cells = []; // {name, text, index}; index is the place in the notebook, or -1

  constructor(server, dir) {
    this.#server = server;
    this.#dir = dir;
  }

  // put makes the server know the cells. earlier are those that were executed and that the notebook
  // may not have any longer. at is the cell that is edited, which imports all names, so that they can
  // complete its text. check is called between steps, and may throw.
  async put(earlier, codes, at, check) {
    const known = new Set(codes);
    const list = earlier.filter((code) => !known.has(code)).map((code, i) => ({ code, index: -1, base: `e${i}` }));
    list.push(...codes.map((code, index) => ({ code, index, base: `c${index}` })));
    this.cells = list.map(({ code, index, base }) => ({ text: plain(code), index, name: `${base}.${JSX.test(code) ? 'tsx' : 'ts'}` }));
    for (const cell of this.cells) {
      cell.names = await this.#declared(cell.text);
      check();
    }
    this.#server.look(files(this.cells.map((c) => c.text)));
    this.#server.keep(new Set([...this.cells.map((c) => c.name), SCRATCH, 'format.ts', 'format.tsx']));
    this.cells.forEach((cell, i) => this.#server.put(cell.name, this.#module(cell, i, cell.index === at)));
  }

  #module(cell, i, edited) {
    const from = new Map();
    const own = new Set(cell.names);
    const add = (other) => {
      for (const name of other.names) if (!own.has(name)) from.set(name, other);
    };
    for (let j = this.cells.length - 1; j > i; j--) add(this.cells[j]);
    for (let j = 0; j < i; j++) add(this.cells[j]);
    const used = new Set(cell.text.match(/[\p{ID_Start}$_][\p{ID_Continue}$]*/gu));
    const imports = [...from].filter(([name]) => edited || used.has(name)).map(([name, other]) => `import { ${name} } from './${other.name}';`);
    return `${imports.join(' ')}\n${cell.text}\n${exported(cell.names)}\n`;
  }

  // #declared returns the names that a cell declares at its top level.
  async #declared(text) {
    const there = this.#names.get(text);
    if (there) return there;
    const lines = text.split('\n').length;
    this.#server.put(SCRATCH, text);
    const symbols = await this.#server.ask('textDocument/documentSymbol', { textDocument: { uri: this.#server.uri(SCRATCH) } });
    let names = [...new Set((symbols ?? []).map((s) => s.name).filter((name) => /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)))];
    // Names of inner blocks are in the list, too. The server knows which ones can be exported.
    if (names.length > 0 && /^[ \t]+\S|[{(].*\b(let|const|class|function|interface|type|enum)\b/m.test(text)) {
      this.#server.put(SCRATCH, `${text}\n${exported(names)}\n`);
      const { items } = await this.#server.ask('textDocument/diagnostic', { textDocument: { uri: this.#server.uri(SCRATCH) } });
      const last = exported(names);
      const wrong = new Set(items.filter((d) => d.severity === 1 && d.range.start.line === lines).map((d) => last.slice(d.range.start.character, d.range.end.character)));
      names = names.filter((name) => !wrong.has(name));
    }
    if (this.#names.size >= NAMES) this.#names.clear();
    this.#names.set(text, names);
    return names;
  }

  // at returns the cell of the notebook with this index.
  at(index) {
    return this.cells.find((c) => c.index === index);
  }

  // position returns the server's position of an index of a cell's text.
  position(cell, offset) {
    const before = cell.text.slice(0, offset);
    return { textDocument: { uri: this.#server.uri(cell.name) }, position: { line: before.split('\n').length, character: offset - before.lastIndexOf('\n') - 1 } };
  }

  // cell returns {cell, line, column, end} of a range in a document: a line from 1 and columns in
  // UTF-16. It is null outside of the cells' texts.
  place(uri, range) {
    const { name } = LanguageServer.place(this.#dir, uri);
    const cell = this.cells.find((c) => c.name === name);
    const line = range.start.line;
    if (!cell || line < 1 || line > cell.text.split('\n').length) return null;
    const end = range.end.line === line ? range.end.character : lineOf(cell.text, line).length;
    return { cell, line, column: range.start.character, end };
  }
}

const exported = (names) => `export { ${names.join(', ')} };`;
const lineOf = (text, line) => text.split('\n')[line - 1] ?? '';

module.exports = { Documents, folder, plain, lineOf, JSX, MAX_CELLS, MAX_CODE };
