'use strict';
// A language server as a child process: TypeScript's own, which the image has as tsc. It speaks the
// Language Server Protocol on its standard streams. It reads code and never runs it.
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { pathToFileURL, fileURLToPath } = require('node:url');

const PACKAGE = '@typescript/typescript-linux-x64/package.json';
const TIME = 5000; // ms that an answer may take
const START = 15_000; // ms that the start may take, on a busy machine
const HEAP = '256MiB'; // from here on the server collects garbage more often
const MOST = 384 << 20; // bytes of memory above which the server is ended
const FREE = 192 << 20; // bytes of memory without which it is not started
const PAGE = 4096; // bytes

// The settings that the server asks for. It must not look for names in other packages.
const SETTINGS = { suggest: { autoImports: false }, preferences: { useAliasesForRenames: true }, tsserver: { automaticTypeAcquisition: { enabled: false } } };
const ABILITIES = {
  general: { positionEncodings: ['utf-16'] },
  workspace: { configuration: true },
  textDocument: {
    completion: { completionItem: { documentationFormat: ['plaintext'] } },
    hover: { contentFormat: ['markdown'] },
    signatureHelp: { signatureInformation: { documentationFormat: ['plaintext'], activeParameterSupport: true } },
    documentSymbol: { hierarchicalDocumentSymbolSupport: true },
    rename: { prepareSupport: true },
    diagnostic: {},
  },
};

// program returns the path of the server, or null.
function program() {
  try {
    return path.join(path.dirname(require.resolve(PACKAGE)), 'lib/tsc');
  } catch {
    return null;
  }
}

// available returns the bytes of memory that are free.
function available() {
  try {
    const [, kib] = /^MemAvailable:\s+(\d+) kB/m.exec(fs.readFileSync('/proc/meminfo', 'latin1'));
    return Number(kib) * 1024;
  } catch {
    return Infinity;
  }
}

// changed returns when a file has changed, or 0 if there is none.
function changed(file) {
  return fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

class LanguageServer {
  #child;
  #dir;
  #data = Buffer.alloc(0);
  #id = 0;
  #waiting = new Map(); // by id: {resolve, reject, timer}
  #versions = new Map(); // of open documents, by name
  #files = new Map(); // when files outside of the folder have changed, by path
  #ended;
  ready;

  // The server looks at the files of dir. ended is called when it has ended.
  constructor(tsc, dir, ended) {
    this.#dir = dir;
    this.#ended = ended;
    this.#child = spawn(tsc, ['--lsp', '--stdio'], {
      cwd: dir, stdio: ['pipe', 'pipe', 'ignore'], detached: true, env: { PATH: '/usr/bin:/bin', HOME: dir, TMPDIR: dir, GOMEMLIMIT: HEAP, GOGC: '50' },
    });
    this.#child.unref();
    for (const stream of [this.#child.stdin, this.#child.stdout]) {
      stream.unref?.();
      stream.on('error', () => this.end());
    }
    this.#child.on('error', () => this.end());
    this.#child.on('exit', () => this.end());
    this.#child.stdout.on('data', (chunk) => this.#receive(chunk));
    this.ready = this.ask('initialize', { processId: null, rootUri: pathToFileURL(dir).href, capabilities: ABILITIES }, START)
      .then(() => this.tell('initialized', {}));
    this.ready.catch(() => this.end());
  }

  get pid() {
    return this.#child.pid;
  }

  get alive() {
    return this.#ended !== null;
  }

  // end ends the server. All questions fail.
  end() {
    const ended = this.#ended;
    if (ended === null) return;
    this.#ended = null;
    this.#child.kill('SIGKILL');
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(new Error('the language server has ended'));
    }
    this.#waiting.clear();
    ended();
  }

  // large reports whether the server takes more memory than it may.
  large() {
    try {
      return Number(fs.readFileSync(`/proc/${this.pid}/statm`, 'latin1').split(' ')[1]) * PAGE > MOST;
    } catch {
      return true;
    }
  }

  #receive(chunk) {
    this.#data = Buffer.concat([this.#data, chunk]);
    for (;;) {
      const head = this.#data.indexOf('\r\n\r\n');
      if (head < 0) return;
      const size = Number(/Content-Length: (\d+)/i.exec(this.#data.toString('latin1', 0, head))?.[1]);
      if (!(size >= 0)) return this.end();
      if (this.#data.length < head + 4 + size) return;
      const message = JSON.parse(this.#data.toString('utf8', head + 4, head + 4 + size));
      this.#data = this.#data.subarray(head + 4 + size);
      this.#take(message);
    }
  }

  #take({ id, method, params, result, error }) {
    if (method !== undefined) {
      // Every question of the server has an answer, notes have none.
      if (id !== undefined) this.#send({ id, result: method === 'workspace/configuration' ? params.items.map(() => SETTINGS) : null });
      return;
    }
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    this.#waiting.delete(id);
    clearTimeout(waiting.timer);
    if (error) waiting.reject(new Error(String(error.message)));
    else waiting.resolve(result);
  }

  #send(message) {
    if (this.#ended === null) return;
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }));
    this.#child.stdin.write(Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]));
  }

  tell(method, params) {
    this.#send({ method, params });
  }

  // ask resolves with the answer. A server that does not answer in time is ended. Without signal,
  // nothing cancels the question.
  ask(method, params, time = TIME, signal = undefined) {
    if (this.#ended === null) return Promise.reject(new Error('the language server has ended'));
    const id = ++this.#id;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.end(), time);
      this.#waiting.set(id, { resolve, reject, timer });
      signal?.addEventListener('abort', () => {
        if (this.#waiting.has(id)) this.tell('$/cancelRequest', { id });
      }, { once: true });
      this.#send({ id, method, params });
    });
  }

  uri(name) {
    return pathToFileURL(path.join(this.#dir, name)).href;
  }

  // name returns the name of a file in the server's folder, or else {file}.
  static place(dir, uri) {
    const file = fileURLToPath(uri);
    return path.dirname(file) === dir ? { name: path.basename(file) } : { file };
  }

  // put sets the text of a document.
  put(name, text) {
    const version = (this.#versions.get(name)?.version ?? 0) + 1;
    const before = this.#versions.get(name)?.text;
    if (before === text) return;
    this.#versions.set(name, { version, text });
    const uri = this.uri(name);
    if (before !== undefined) {
      this.tell('textDocument/didChange', { textDocument: { uri, version }, contentChanges: [{ text }] });
      return;
    }
    // The project has the files that are on disk.
    fs.writeFileSync(path.join(this.#dir, name), 'export {};\n');
    this.tell('workspace/didChangeWatchedFiles', { changes: [{ uri, type: 1 }] });
    const languageId = name.endsWith('x') ? 'typescriptreact' : 'typescript';
    this.tell('textDocument/didOpen', { textDocument: { uri, languageId, version, text } });
  }

  // look makes the server read files again that have changed.
  look(files) {
    for (const file of files) {
      const before = this.#files.get(file);
      const now = changed(file);
      if (before === now) continue;
      this.#files.set(file, now);
      const type = before === undefined || now === 0 ? (now === 0 ? 3 : 1) : before === 0 ? 1 : 2;
      if (before !== undefined) this.tell('workspace/didChangeWatchedFiles', { changes: [{ uri: pathToFileURL(file).href, type }] });
    }
  }

  // keep closes all documents but these.
  keep(names) {
    for (const name of [...this.#versions.keys()]) {
      if (names.has(name)) continue;
      this.#versions.delete(name);
      const uri = this.uri(name);
      this.tell('textDocument/didClose', { textDocument: { uri } });
      fs.rmSync(path.join(this.#dir, name), { force: true });
      this.tell('workspace/didChangeWatchedFiles', { changes: [{ uri, type: 3 }] });
    }
  }
}

module.exports = { LanguageServer, program, available, changed, FREE };
