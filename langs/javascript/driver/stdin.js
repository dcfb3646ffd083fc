'use strict';
// prompt, confirm, alert, process.stdin and readline: the client types the lines.
const process = require('node:process');
const fs = require('node:fs');
const { Readable } = require('node:stream');
const { receiveMessageOnPort } = require('node:worker_threads');
const { current, storage } = require('./cells.js');
const { ANSWERED, words } = require('./shared.js');

class NoInputError extends Error {
  constructor() {
    super('input was requested, but this execution does not allow input (no_input)');
  }
}
Object.defineProperty(NoInputError.prototype, 'name', { value: 'NoInputError', configurable: true });

// Lines requests lines. null is the end of input.
class Lines {
  #messages;
  #output;
  #port;
  #words;
  #waiting = []; // {cell, take} of asynchronous requests, oldest first

  constructor(messages, output, port, memory) {
    this.#messages = messages;
    this.#output = output;
    this.#port = port;
    this.#words = words(memory);
    port.on('message', (answer) => {
      const asked = this.#waiting.shift();
      if (this.#waiting.length === 0) port.unref();
      if (!asked) return;
      storage.run(asked.cell, asked.take, line(answer));
      this.#rest(asked.cell);
    });
    port.unref();
  }

  #request(prompt, password) {
    if (current().noInput) throw new NoInputError();
    this.#messages.send('input_request', { prompt, password });
    this.#output.flush();
  }

  // ask waits for a line, and no other code runs meanwhile.
  ask(prompt = '', password = false) {
    this.clear();
    this.#request(String(prompt), password);
    for (;;) {
      Atomics.store(this.#words, ANSWERED, 0);
      const answer = receiveMessageOnPort(this.#port);
      if (answer) return line(answer.message);
      Atomics.wait(this.#words, ANSWERED, 0);
    }
  }

  // later calls take with a line when it arrives.
  later(prompt, password, take) {
    this.#request(prompt, password);
    this.#waiting.push({ cell: current(), take });
    this.#port.ref(); // a program that reads has not ended
  }

  // soon calls ask in the next round of the event loop, as the present cell.
  soon(ask) {
    const cell = current();
    cell.asks++;
    setImmediate(() => {
      cell.asks--;
      ask();
      this.#rest(cell);
    });
  }

  // open reports whether a cell has a question without an answer, or may ask one at once.
  open(cell) {
    return cell.asks > 0 || this.#waiting.some((asked) => asked.cell === cell);
  }

  // #rest ends a cell that only its questions have kept from ending.
  #rest(cell) {
    if (!cell.rest) return;
    // The stream asks again in the round after the next.
    setImmediate(() => setImmediate(() => {
      const { rest } = cell;
      if (!rest || this.open(cell)) return;
      cell.rest = null;
      rest();
    }));
  }

  // clear forgets lines that were typed for an earlier cell.
  clear() {
    this.#waiting.length = 0;
    this.#port.unref();
    while (receiveMessageOnPort(this.#port));
  }
}

const line = ({ value, eof }) => (eof ? null : typeof value === 'string' ? value : '');

// Stdin is a stream of requested lines. A readline interface reads as soon as it is created, but a
// line is only requested when the user's code wants one.
class Stdin extends Readable {
  #lines;
  #interfaces = [];
  #wanted = false;

  constructor(lines) {
    super({ highWaterMark: 0 });
    this.#lines = lines;
    this.fd = 0;
  }

  // adopt registers a readline interface that reads this stream.
  adopt(rl) {
    this.#interfaces.push(rl);
    rl.on('close', () => { this.#interfaces = this.#interfaces.filter((other) => other !== rl); });
    rl.on('newListener', (event) => { if (event === 'line') this.#lines.soon(() => this.#ask()); });
  }

  _read() {
    this.#wanted = true;
    this.#lines.soon(() => this.#ask());
  }

  on(event, listener) {
    if (event === 'readable') this.#lines.soon(() => this.#ask());
    return super.on(event, listener);
  }

  addListener(event, listener) {
    return this.on(event, listener);
  }

  resume() {
    this.#lines.soon(() => this.#ask());
    return super.resume();
  }

  #ask() {
    const flows = this.readableFlowing &&
      (this.#interfaces.length === 0 || this.#interfaces.some((rl) => rl.listenerCount('line') > 0));
    if (!this.#wanted || this.destroyed || !(flows || this.listenerCount('readable') > 0)) return;
    this.#wanted = false;
    try {
      this.#lines.later('', false, (text) => this.push(text === null ? null : `${text}\n`));
    } catch (error) {
      this.destroy(error);
    }
  }

  ref() {
    return this;
  }

  unref() {
    return this;
  }
}

// install installs the functions that read input.
function install(lines) {
  // Each cell has its own stream, so that an interface that a cell leaves open does not affect the
  // next cell.
  const streams = new WeakMap();
  Object.defineProperty(process, 'stdin', {
    configurable: true,
    enumerable: true,
    get() {
      const cell = current();
      let stream = streams.get(cell);
      if (!stream || stream.destroyed || stream.readableEnded) streams.set(cell, (stream = new Stdin(lines)));
      return stream;
    },
  });
  const define = (name, value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  const prompt = (message = '', fallback = null) => {
    const text = lines.ask(message);
    return text === '' && fallback !== null ? String(fallback) : text;
  };
  prompt.password = (message = 'Password: ') => lines.ask(message, true);
  define('prompt', prompt);
  define('confirm', (message = '') => /^y(es)?$/i.test((lines.ask(`${message} [y/N] `) ?? '').trim()));
  define('alert', (message = '') => { lines.ask(`${message} [Enter] `); });
  readFiles(lines);
  adoptReadline(lines);
}

// readFiles lets fs read standard input.
function readFiles(lines) {
  const { readFileSync, readSync } = fs;
  const isInput = (file) => file === 0 || file === '/dev/stdin';
  fs.readFileSync = function (file, options) {
    if (!isInput(file)) return Reflect.apply(readFileSync, this, arguments);
    let all = '';
    for (let text; (text = lines.ask()) !== null; ) all += `${text}\n`;
    const encoding = typeof options === 'string' ? options : options?.encoding;
    return encoding ? Buffer.from(all).toString(encoding) : Buffer.from(all);
  };
  let rest = Buffer.alloc(0);
  fs.readSync = function (fd, buffer, offset, length, ...more) {
    if (fd !== 0) return Reflect.apply(readSync, this, [fd, buffer, offset, length, ...more]);
    if (offset !== null && typeof offset === 'object') ({ offset, length } = offset);
    if (rest.length === 0) {
      const text = lines.ask();
      if (text === null) return 0;
      rest = Buffer.from(`${text}\n`);
    }
    const n = Math.min(length ?? buffer.byteLength - (offset ?? 0), rest.length);
    new Uint8Array(buffer.buffer, buffer.byteOffset + (offset ?? 0), n).set(rest.subarray(0, n));
    rest = rest.subarray(n);
    return n;
  };
}

// adoptReadline makes question() an input request with its prompt.
function adoptReadline(lines) {
  const readline = require('node:readline');
  const promises = require('node:readline/promises');
  const ours = (rl) => rl.input instanceof Stdin && !rl.closed;

  for (const library of [readline, promises]) {
    const { createInterface } = library;
    library.createInterface = function (...args) {
      const rl = Reflect.apply(createInterface, this, args);
      if (rl.input instanceof Stdin) rl.input.adopt(rl);
      return rl;
    };
  }
  const { question } = readline.Interface.prototype;
  readline.Interface.prototype.question = function (query, options, callback) {
    const answer = typeof options === 'function' ? options : callback;
    if (!ours(this) || typeof answer !== 'function') return Reflect.apply(question, this, arguments);
    return lines.later(String(query), false, (text) => (text === null ? this.close() : answer(text)));
  };
  const wait = promises.Interface.prototype.question;
  promises.Interface.prototype.question = function (query, options) {
    if (!ours(this)) return Reflect.apply(wait, this, arguments);
    return new Promise((resolve, reject) => {
      options?.signal?.addEventListener('abort', () => reject(options.signal.reason), { once: true });
      lines.later(String(query), false, (text) => {
        if (text !== null) return resolve(text);
        this.close();
        return reject(new Error('the input has ended'));
      });
    });
  };
}

module.exports = { Lines, install };
