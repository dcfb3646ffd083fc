'use strict';
// The driver of JavaScript and TypeScript: it starts the controller, installs streams and hooks,
// sends ready and serves.
const path = require('node:path');
const v8 = require('node:v8');
const { Worker, MessageChannel } = require('node:worker_threads');
const module_ = require('node:module');
const shared = require('./shared.js');

const memory = shared.make();
const calls = new MessageChannel();
const requests = new MessageChannel();
const answers = new MessageChannel();

const controller = new Worker(path.join(__dirname, 'controller.js'), {
  workerData: { calls: calls.port2, requests: requests.port2, answers: answers.port2, memory, heap: v8.getHeapStatistics().heap_size_limit },
  transferList: [calls.port2, requests.port2, answers.port2],
  execArgv: [],
  name: 'controller',
});
controller.on('error', (error) => {
  require('node:fs').writeSync(2, `the controller ended: ${error.stack}\n`);
  process.kill(process.pid, 'SIGKILL');
});
controller.unref();

const { Output } = require('./output.js');
const { Origins } = require('./positions.js');
const { Names } = require('./rewrite.js');
const { Messages } = require('./messages.js');
const values = require('./values.js');
const { Inspection, take } = require('./inspection.js');
const { Help } = require('./help.js');
const { Server } = require('./server.js');
const { Lines, install: installInput } = require('./stdin.js');
const { makeDisplay } = require('./display.js');
const { hold, holdEach } = require('./waits.js');
const errors = require('./errors.js');
const streams = require('./streams.js');
const timers = require('./timers.js');
const children = require('./children.js');
const { shell } = require('./shell.js');
const { using } = require('./using.js');
const modules = require('./modules.js');
const variables = require('./variables.js');
const { exiting } = require('./exit.js');
const { load } = require('./load.js');
const { stopping } = require('./ending.js');

const output = new Output(memory);
const messages = new Messages(output);
const origins = new Origins();
// Cells may declare these names again, as a file may.
const OWN = ['require', 'module', 'exports', '__filename', '__dirname', '_', 'display', 'sandgate', 'prompt', 'confirm', 'alert'];
const FIXED = ['undefined', 'NaN', 'Infinity', 'globalThis', '$sandgate'];
const names = new Names(Object.getOwnPropertyNames(globalThis).filter((name) => !OWN.includes(name) && !FIXED.includes(name)));
const inspection = new Inspection();
const lines = new Lines(messages, output, answers.port1, memory);
const help = new Help(inspection, names);

errors.install(origins);
streams.install(output);
load();
timers.install();
children.install(output);
installInput(lines);
modules.install();

const server = new Server({ memory, output, messages, inspection, names, help, origins, lines, port: calls.port1, requests: requests.port1 });
exiting(server);
module_.syncBuiltinESMExports();

// The functions that rewritten cells and the controller call.
const constants = new Proxy(Object.create(null), {
  set() { throw new TypeError('Assignment to constant variable.'); },
});
const runtime = Object.freeze({
  __proto__: null,
  hold,
  holdEach,
  shell,
  using,
  take,
  constants,
  import: modules.importFrom,
  module: modules.importNames,
  typed: modules.importTyped,
  meta: modules.meta,
  stop: stopping(memory),
});
Object.defineProperty(globalThis, '$sandgate', { value: runtime });
Object.defineProperty(globalThis, 'sandgate', { value: values, writable: true, configurable: true, enumerable: false });
Object.defineProperty(globalThis, 'display', { value: makeDisplay(messages), writable: true, configurable: true, enumerable: false });
variables.begin();

server.start({
  language: 'javascript',
  version: process.versions.node,
  implementation: `Node.js ${process.version}, V8 ${process.versions.v8}`,
  file_extension: '.js',
  mimetype: 'text/javascript',
  banner: `Node.js ${process.version}, JavaScript and TypeScript`,
  pid: process.pid,
});
