'use strict';
// The server: it takes requests from the controller, runs cells, and answers.
//
// An interrupt can end the running code anywhere. Nothing catches that, and waiting microtasks are
// dropped. So the server does not rely on its own promises: each step is a callback of Node, and an
// ended cell is answered when the controller reports it. The server does not rely on a single
// callback either: the controller calls again, and a request is always in exactly one place.
const process = require('node:process');
const { setImmediate } = require('node:timers'); // not the function that belongs to a cell
const { receiveMessageOnPort } = require('node:worker_threads');
const shared = require('./shared.js');
const cells = require('./cells.js');
const timers = require('./timers.js');
const errors = require('./errors.js');
const kept = require('./kept.js');
const variables = require('./variables.js');
const { compile, completeness } = require('./compile.js');
const { dumps } = require('./safejson.js');
const { Origin } = require('./positions.js');
const { types } = require('node:util');
const { bundle } = require('./display.js');
const { Interrupted, hold, release } = require('./waits.js');
const { STDERR } = require('./output.js');
const { reseed } = require('./reseed.js');
const { Uncaught, listeners } = require('./uncaught.js');

const { BEGAN, BUSY, TAKEN, HEARD, FULL, RUNNING, NUMBER, MAX_BODY, now } = shared;
const { then } = Promise.prototype;
const FAR = 'RangeError';

class Server {
  #words;
  #output;
  #messages;
  #inspection;
  #names;
  #help;
  #origins;
  #lines;
  #port;
  #requests;
  #asked = null; // a request without an answer that is not an execute
  #tries = 0; // attempts to answer it
  #cell = null; // the running cell
  #queue = [];
  #count = 0;
  #silent = 0;
  #self = new MessageChannel(); // for steps that must follow after code was ended

  constructor({ memory, output, messages, inspection, names, help, origins, lines, port, requests }) {
    this.#words = shared.words(memory);
    this.#output = output;
    this.#messages = messages;
    this.#inspection = inspection;
    this.#names = names;
    this.#help = help;
    this.#origins = origins;
    this.#lines = lines;
    this.#port = port;
    this.#requests = requests;
    this.#listen();
  }

  // #listen handles uncaught errors. It also works after user code has removed all listeners.
  #listen() {
    const own = {
      uncaughtException: (error) => this.#uncaught('uncaughtException', 'Uncaught ', error),
      unhandledRejection: (reason) => this.#uncaught('unhandledRejection', 'Uncaught (in promise) ', reason),
    };
    const listen = () => {
      for (const [event, listener] of Object.entries(own)) {
        if (!process.listeners(event).includes(listener)) process.on(event, listener);
      }
      return process;
    };
    listen();
    const { removeAllListeners } = process;
    process.removeAllListeners = (...args) => {
      Reflect.apply(removeAllListeners, process, args);
      return listen();
    };
  }

  start(info) {
    this.#port.on('message', (call) => this.#heed(call));
    this.#self.port1.on('message', (serial) => this.#ended(serial));
    this.#output.reply(dumps({ op: 'ready', id: 0, status: 'ok', info }));
  }

  #heed(call) {
    switch (call.op) {
      case 'interrupt':
        Atomics.store(this.#words, HEARD, call.n);
        return this.#interrupt(call.cell);
      case 'terminated':
        return this.#ended(call.cell);
    }
    return this.#take();
  }

  // #take takes a request, if there is one, and begins a cell, if possible.
  #take() {
    if (this.#asked) this.#answer(this.#asked); // its answer was ended
    const cell = this.#output.whole(() => {
      const request = receiveMessageOnPort(this.#requests)?.message;
      if (request?.op === 'execute') this.#queue.push(request);
      else if (request && request.op !== 'comm') this.#asked = request;
      this.#tries = 0;
      const next = this.#begin();
      // Last: an interrupt looks for its cell when all requests are taken.
      if (request) Atomics.add(this.#words, TAKEN, 1);
      return next;
    });
    if (this.#asked) this.#answer(this.#asked);
    if (cell) this.#execute(cell);
  }

  // #answer answers at once, even while a cell awaits. An answer that was ended is tried once more,
  // because the interrupt was most likely for something else.
  #answer(request) {
    let reply;
    try {
      if (++this.#tries > 2) throw new Interrupted();
      reply = { status: 'ok', ...this.#make(request) };
    } catch (error) {
      const { ename, evalue } = errors.describe(error, this.#origins);
      reply = { status: 'error', ename, evalue };
    }
    this.#reply(request, reply, undefined, () => { this.#asked = null; });
  }

  #make(request) {
    switch (request.op) {
      case 'complete':
        return this.#help.complete(request);
      case 'inspect':
        return this.#help.inspect(request);
      case 'is_complete':
        return isComplete(String(request.code ?? ''), this.#names);
      case 'variables':
        return variables.list(this.#help, this.#inspection, this.#names);
      case 'reseed':
        return reseed(request);
      case 'keep':
        return kept.keep(request, this.#help, this.#inspection, this.#names, variables.given);
      case 'restore':
        return kept.restore(request);
    }
    throw new RangeError(`there is no operation ${errors.text(request.op)}`);
  }

  #reply(request, reply, cell, then) {
    const head = { op: 'reply', id: Number.isSafeInteger(request.id) && request.id >= 0 ? request.id : 0 };
    let body = dumps({ ...head, ...reply });
    if (body.length > MAX_BODY / 3 && Buffer.byteLength(body) > MAX_BODY) {
      body = dumps({ ...head, status: 'error', ename: FAR, evalue: `an answer of ${Buffer.byteLength(body)} bytes: the limit is ${MAX_BODY} bytes` });
    }
    this.#output.reply(body, cell, then);
  }

  // --- Cells ---

  // #begin starts the next cell.
  #begin() {
    if (this.#cell || this.#queue.length === 0) return null;
    const request = this.#queue.shift();
    const cell = new cells.Cell(request);
    cell.request = request;
    this.#cell = cell;
    Atomics.store(this.#words, FULL, 0);
    Atomics.store(this.#words, BEGAN, now());
    // NUMBER is only set while BUSY is that cell's, or after the cell has ended.
    Atomics.store(this.#words, NUMBER, 0);
    Atomics.store(this.#words, BUSY, cell.serial);
    Atomics.store(this.#words, NUMBER, cell.number | 0);
    Atomics.store(this.#words, RUNNING, cell.serial);
    return cell;
  }

  #execute(cell) {
    this.#lines.clear();
    process.exitCode = undefined;
    cell.uncaught = new Uncaught();
    cells.storage.run(cell, () => this.#run(cell, String(cell.request.code ?? '')));
    Atomics.store(this.#words, RUNNING, 0);
  }

  #run(cell, source) {
    const number = cell.silent ? `silent${++this.#silent}` : ++this.#count;
    let compiled;
    try {
      compiled = compile(source, number, this.#names);
    } catch (error) {
      if (!error.line) return this.#fail(cell, errors.describe(error, this.#origins));
      const origin = new Origin({ name: `cell_${number}.js`, source });
      return this.#fail(cell, errors.syntax(error.message, origin, error.line, error.column));
    }
    const { name, code, origin, declared, module } = compiled;
    this.#origins.add(origin);
    return this.#inspection.run(`${code}\n//# sourceURL=${name}`, (error, answer) => {
      // The cell may have been abandoned.
      if (cell.done || this.#cell !== cell) return;
      cells.storage.run(cell, () => {
        if (error) return this.#stopped(cell);
        const { exceptionDetails: details, result } = answer;
        if (declared && !(details && refused(details))) this.#names.add(declared, cell.silent);
        try {
          return details ? this.#thrown(cell, details, origin, module) : this.#value(cell, result);
        } catch (failure) {
          if (failure instanceof Interrupted) return this.#stopped(cell);
          throw failure;
        }
      });
    });
  }

  #thrown(cell, details, origin, module) {
    const { exception } = details;
    if (!exception) return this.#fail(cell, this.#interruption(cell, details.text));
    const error = this.#inspection.value(exception);
    if (cell.interrupts > 0 && (error instanceof Interrupted || error?.name === 'AbortError')) {
      return this.#fail(cell, this.#interruption(cell));
    }
    if (refused(details)) {
      const at = origin.find(details.lineNumber + 1, details.columnNumber + 1);
      return this.#fail(cell, errors.syntax(String(error.message), origin, at.line, at.column, error.name));
    }
    return this.#failed(cell, error, module ? 'unhandledRejection' : 'uncaughtException');
  }

  #value(cell, remote) {
    if (cell.silent || remote.type === 'undefined') return this.#finish(cell, { status: 'ok' });
    return this.#settled(cell, this.#inspection.value(remote));
  }

  // #settled shows the value of a cell. If it is a promise, the cell waits for it. A program ends
  // when nothing is left to do.
  #settled(cell, value) {
    if (types.isPromise(value)) {
      if (cell.program) return this.#finish(cell, { status: 'ok' });
      const resume = (next) => (result) => cells.storage.run(cell, () => { if (!cell.done) next(result); });
      Reflect.apply(then, hold(value), [
        resume((result) => {
          if (result === undefined) this.#finish(cell, { status: 'ok' });
          else this.#settled(cell, result);
        }),
        resume((error) => this.#rejected(cell, error)),
      ]);
      return undefined;
    }
    remember(value);
    const show = (data) => {
      if (cell.done) return;
      this.#messages.bundle('execute_result', data, { count: this.#count, cell });
      this.#finish(cell, { status: 'ok' });
    };
    const failed = (error) => { if (!cell.done) this.#fail(cell, errors.describe(error, this.#origins)); };
    try {
      const data = bundle(value);
      if (typeof data?.then === 'function') data.then(show, failed);
      else show(data);
    } catch (error) {
      failed(error);
    }
    return undefined;
  }

  #rejected(cell, error) {
    const stopped = cell.interrupts > 0 && (error instanceof Interrupted || error?.name === 'AbortError');
    if (stopped) this.#fail(cell, this.#interruption(cell));
    else this.#failed(cell, error, 'unhandledRejection');
  }

  // #failed ends a cell that does not catch an error, unless the cell itself has begun to handle such
  // errors.
  #failed(cell, error, origin) {
    const fail = (reason) => this.#fail(cell, errors.describe(reason, this.#origins));
    if (!cell.uncaught.take(error, origin, fail)) return fail(error);
    setImmediate(() => cells.storage.run(cell, () => { if (!cell.done) this.#finish(cell, { status: 'ok' }); }));
    return undefined;
  }

  #fail(cell, { ename, evalue, traceback }) {
    if (cell.done) return;
    this.#messages.send('error', { ename, evalue, traceback }, cell);
    this.#finish(cell, { status: 'error', ename, evalue });
  }

  // #drain lets a program continue until it has nothing left to do. Node reports that when only the
  // driver's own ports remain: they do not count meanwhile, except while it reports. Otherwise Node
  // would end if an interrupt ended a listener of the user.
  #drain(cell, reply) {
    const ports = [this.#port, this.#self.port1];
    const ref = () => { for (const port of ports) port.ref(); };
    const unref = () => { for (const port of ports) port.unref(); };
    let before;
    const count = () => {
      ref();
      cells.storage.enterWith(cell); // for the user's listeners
      before = process.getActiveResourcesInfo().length;
    };
    const empty = () => {
      if (process.getActiveResourcesInfo().length > before) {
        setImmediate(() => { if (cell.leave) unref(); }); // a listener of the user has begun new work
        return;
      }
      cell.leave();
      try {
        process.emit('exit', Number(process.exitCode ?? 0));
      } catch (error) {
        return this.#fail(cell, errors.describe(error, this.#origins));
      }
      process.removeAllListeners('exit');
      this.#finish(cell, reply);
    };
    cell.leave = () => {
      ref();
      process.off('beforeExit', count);
      process.off('beforeExit', emptied);
      cell.leave = null;
    };
    const emptied = () => {
      cells.storage.enterWith(undefined);
      cells.storage.run(cell, empty);
    };
    process.prependListener('beforeExit', count);
    process.on('beforeExit', emptied);
    unref();
  }

  // #dispose disposes of the values of using declarations, the last one first.
  #dispose(cell, disposals, ended) {
    const failed = (error) => this.#print('Uncaught ', error);
    while (disposals.length > 0) {
      try {
        const made = disposals.pop()();
        if (!types.isPromise(made)) continue;
        const resume = () => cells.storage.run(cell, () => this.#dispose(cell, disposals, ended));
        Reflect.apply(then, hold(made), [resume, (error) => { failed(error); resume(); }]);
        return;
      } catch (error) {
        failed(error);
      }
    }
    ended();
  }

  #finish(cell, reply) {
    if (cell.done) return;
    release(cell);
    if (reply.status === 'ok' && !cell.program && cell.exitCode === undefined && this.#lines.open(cell)) {
      cell.rest = () => cells.storage.run(cell, () => this.#finish(cell, reply));
      return;
    }
    if (cell.disposals.length > 0) {
      this.#dispose(cell, cell.disposals.splice(0), () => this.#finish(cell, reply));
      return;
    }
    if (cell.program && reply.status === 'ok' && !cell.drained && cell.exitCode === undefined) {
      cell.drained = true;
      this.#drain(cell, reply);
      return;
    }
    cell.leave?.();
    if (!cell.silent) reply.execution_count = this.#count;
    if (cell.exitCode === undefined && process.exitCode !== undefined) cell.exitCode = Number(process.exitCode) || 0;
    if (cell.exitCode !== undefined) reply.exit_code = cell.exitCode;
    this.#reply(cell.request, reply, cell, () => { this.#cell = null; });
    this.#inspection.forget();
    if (this.#queue.length > 0) setImmediate(() => this.#take());
  }

  // --- Interrupts ---

  #interruption(cell, text = '') {
    if (Atomics.exchange(this.#words, FULL, 0) === 1) {
      const evalue = 'JavaScript heap out of memory: the execution was ended, and the session\'s state is kept';
      return { ename: 'RangeError', evalue, traceback: [`RangeError: ${evalue}`] };
    }
    const evalue = text || 'the execution was interrupted';
    return { ename: 'Interrupted', evalue, traceback: [`Interrupted: ${evalue}`] };
  }

  // #interrupt answers the controller's question whether the event loop is reached.
  #interrupt(serial) {
    const cell = this.#cell;
    if (!cell || cell.serial !== serial || cell.done) return;
    cell.interrupts++;
    timers.stop(cell);
    const waits = release(cell);
    if (cell.interrupts === 1 && waits.length > 0) {
      // The cell awaits: its finally blocks run, and then it ends.
      for (const cancel of waits) cancel(new Interrupted());
      return;
    }
    this.#abandon(cell);
  }

  // #abandon ends a cell that does not end by itself.
  #abandon(cell) {
    cell.abandoned = true;
    timers.stop(cell);
    this.#inspection.renew();
    this.#fail(cell, this.#interruption(cell));
  }

  // #ended is called after running code was ended from outside, or by exit.
  #ended(serial) {
    Atomics.store(this.#words, RUNNING, 0);
    this.#output.settle();
    timers.revive();
    const cell = this.#cell;
    if (!cell || cell.serial !== serial || cell.done) return;
    this.#inspection.renew();
    this.#stopped(cell);
  }

  // #stopped answers for a cell whose code was ended.
  #stopped(cell) {
    cell.interrupts++;
    cell.abandoned = true;
    timers.stop(cell);
    if (cell.exitCode !== undefined) this.#finish(cell, { status: 'ok' });
    else this.#fail(cell, this.#interruption(cell));
  }

  // exit handles process.exit in user code: the cell ends, the session stays.
  exit(code) {
    const cell = cells.current();
    const status = code ?? process.exitCode ?? 0;
    if (!cell.done && cell === this.#cell) cell.exitCode = Number(status) || 0;
    try {
      process.emit('exit', Number(status) || 0);
    } catch (error) {
      this.#print('Uncaught ', error);
    }
    process.removeAllListeners('exit');
    process.exitCode = undefined;
    timers.stop(cell);
    // No code of the cell continues: it ends here, and nothing can catch that.
    this.#self.port2.postMessage(cell.serial);
    this.#inspection.stop();
    for (;;);
  }

  // --- Uncaught errors ---

  #uncaught(event, head, error) {
    // A listener of the user handles it.
    if (listeners(event) !== 1) return;
    if (event === 'unhandledRejection' && listeners('uncaughtException') > 1) {
      process.emit('uncaughtException', error, event);
      return;
    }
    const cell = this.#cell;
    if (!cell?.program || cells.current() !== cell) return this.#print(head, error);
    // The error ends a program.
    timers.stop(cell);
    cell.exitCode = 1;
    this.#fail(cell, errors.describe(error, this.#origins));
  }

  #print(head, error) {
    const cell = cells.current();
    if (cell.interrupts > 0 && (error instanceof Interrupted || error?.name === 'AbortError')) return;
    const lines = [...errors.describe(error, this.#origins).traceback];
    // The message follows the excerpt of the code, which ends with an empty line.
    const at = lines[2]?.trim() === '^' ? lines.indexOf('') + 1 : 0;
    lines[at] = head + lines[at].replace(/^Uncaught /, '');
    this.#output.text(STDERR, `${lines.join('\n')}\n`, cell);
  }
}

// refused reports whether the cell did not compile: V8 then reports the position, but not in the
// error's stack.
function refused({ exception }) {
  return exception?.className === 'SyntaxError' && !/\n\s+at /.test(exception.description);
}

function isComplete(code, names) {
  const status = completeness(code, names);
  if (status !== 'incomplete') return { is_complete: status };
  const last = /([ \t]*)[^\n]*$/.exec(code.trimEnd());
  return { is_complete: status, indent: last[1] + (/[[{(]\s*$/.test(code) ? '  ' : '') };
}

let latest;

// remember keeps the last result in _, unless the user has given _ a value.
function remember(value) {
  latest = value;
}

Object.defineProperty(globalThis, '_', {
  configurable: true,
  enumerable: false,
  get: () => latest,
  set: (value) => Object.defineProperty(globalThis, '_', { value, writable: true, configurable: true, enumerable: true }),
});

module.exports = { Server };
