'use strict';
// The controller: a thread that reads requests from descriptor 3, passes them to the main thread,
// writes output that has waited too long, and can always end the code that runs on the main thread.
//
// An interrupt first asks, unless the cell's code has not reached an await yet: a main thread that
// reaches its event loop ends the cell by itself, and finally blocks run. A main thread that does
// not answer within ASK runs code or waits in a call. The controller ends that with the inspector.
const { workerData } = require('node:worker_threads');
const inspector = require('node:inspector');
const net = require('node:net');
const shared = require('./shared.js');
const { writeAll } = require('./output.js');
const children = require('./family.js');
const { Code } = require('./code.js');

const { LOCK, USED, BUSY, TAKEN, HEARD, ANSWERED, FULL, RUNNING, NUMBER, YIELDS, BEGAN, ENDED, STOPPED, FREE, CONTROLLER, HEADER, MAX_BODY } = shared;
const CONTROL = 1;
const TICK = 40; // ms that output may wait while a cell runs
const ASK = 20; // ms after which a main thread that does not answer is assumed to run code
const GRACE = 120; // ms that a cell has for its finally blocks
const IDLE = 50; // ms, likewise, while no cell runs
const BEGIN = 200; // ms until an interrupted cell must begin; then the code that prevents this is ended
const LOST = 5000; // ms after which a cell that has not begun will not begin any longer
const HURRY = 200; // ms for which all code of Node is spared
const FORCE = 2000; // ms for which code of Node with lists of all cells is spared
const CHILD = 150; // ms until children that outlive an interrupt are killed
const SWALLOWED = 4; // times that the main thread waits for the lock before it is assumed not to end

const { calls, requests, answers, memory, heap } = workerData;
const words = shared.words(memory);
const bytes = shared.bytes(memory);
const session = new inspector.Session();
session.connectToMainThread();

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(condition, ms) {
  for (const end = performance.now() + ms; !condition(); ) {
    if (performance.now() >= end) return false;
    await sleep(1);
  }
  return true;
}

// --- The lock ---

let holding = false;

function lock() {
  holding ||= Atomics.compareExchange(words, LOCK, FREE, CONTROLLER) === FREE;
  return holding;
}

function unlock() {
  holding = false;
  Atomics.store(words, LOCK, FREE);
  Atomics.notify(words, LOCK);
}

// --- Output that waits ---

let ticking = false;
let executes = 0; // number of executes sent to the main thread

function tick() {
  if (words[USED] > 0) {
    const held = holding;
    if (lock()) {
      const n = words[USED];
      words[USED] = 0;
      // The main thread checks USED to know whether its last frame is still there.
      if (n > 0) writeAll(4, bytes.subarray(0, n));
      if (!held) unlock();
    }
  }
  watchMemory();
  // Not by BUSY: it is 0 between one cell and the next.
  ticking = Atomics.load(words, ENDED) !== (executes | 0);
  if (ticking) setTimeout(tick, TICK);
}

// --- The main thread ---

let posted = 0; // number of requests

// post puts a request where the main thread finds it when it is called. A call may be ended, but
// the request is not lost.
function post(request) {
  posted++;
  requests.postMessage(request);
  call({ op: 'take' });
}

function call(message) {
  calls.postMessage(message);
}

// recall reports ended code, and repeats the calls that may have been lost.
function recall(cell) {
  call({ op: 'terminated', cell });
  for (let n = posted - Atomics.load(words, TAKEN); n >= 0; n--) call({ op: 'take' });
}

// waiting reports whether the main thread has not taken all requests.
const waiting = () => Atomics.load(words, TAKEN) !== posted;

let latest = 0; // the cell of the last execute
let interrupting = false;
let wanted = 0; // the cell of an interrupt that came meanwhile
let count = 0;
let attempts = 0; // number of attempts to end code

// interrupt ends the cell of the execute with this number, or the running code if number is 0.
async function interrupt(number) {
  if (interrupting) {
    wanted = number || wanted;
    return;
  }
  interrupting = true;
  try {
    await stop(number);
  } finally {
    interrupting = false;
  }
  const next = wanted;
  wanted = 0;
  if (next !== 0 && next !== number) interrupt(next);
}

// comes waits until the main thread has reached the cell: the execute was sent before the
// interrupt, but may not have been taken yet. A callback of an earlier cell that does not end is
// ended. An interrupt that comes late, when another cell was already sent, does not wait: it could
// end the beginning of that cell.
async function comes(number) {
  const here = () => Atomics.load(words, NUMBER) === (number | 0);
  if (number !== latest) return here();
  if (await until(() => here() || number !== latest, BEGIN)) return here();
  if (!waiting()) return here(); // the interrupted cell has ended, and another has begun
  await terminate(() => Atomics.load(words, BUSY) !== 0 || !waiting(), 0);
  return until(here, LOST);
}

async function stop(number) {
  if (number !== 0 && !(await comes(number))) return;
  const cell = Atomics.load(words, BUSY);
  // It has ended. BUSY may already be the next cell's.
  if (number !== 0 && (cell === 0 || Atomics.load(words, NUMBER) !== (number | 0))) return;
  const over = () => Atomics.load(words, BUSY) !== cell;
  while (!over()) {
    const n = ++count;
    const heard = () => Atomics.load(words, HEARD) === n;
    if (cell === 0 || Atomics.load(words, RUNNING) !== cell) {
      call({ op: 'interrupt', n, cell });
      await until(() => heard() || over(), cell === 0 ? IDLE : ASK);
    }
    if (!over() && !heard()) await terminate(() => over() || heard(), cell);
    // Without a cell, the interrupt was for a callback that does not end.
    if (cell === 0) return;
    await until(over, GRACE);
  }
}

// terminate ends the code that the main thread runs, of a cell or of none, unless over() returns
// true. It spares Node's own code for a while, and releases the lock again and again, because that
// code may wait for it.
async function terminate(over, cell) {
  for (const begun = performance.now(); ; await sleep(1)) {
    while (!lock()) {
      if (over()) return;
      await sleep(1);
    }
    let answer = 'ends';
    let ended = false;
    try {
      if (over()) return;
      const done = () => { ended = true; };
      const passed = performance.now() - begun;
      if (passed >= FORCE) session.post('Runtime.terminateExecution', done);
      else await outlast(ask(passed >= HURRY, (a) => { answer = a; }, done));
      if (answer === 'ends') {
        // If no code runs, the handling of this message is ended instead.
        call({ op: 'take' });
        // If the code has reached its last call, V8 ends only its own reading of the result: the main
        // thread then reports the cell by itself, and waits for the lock.
        const yields = Atomics.load(words, YIELDS);
        await outlast(() => ended || Atomics.load(words, YIELDS) - yields >= SWALLOWED);
      }
    } finally {
      unlock();
    }
    if (answer !== 'ends') continue;
    recall(ended ? cell : 0);
    return;
  }
}

// ask lets the main thread stand still and requests the end of its code. The result reports whether
// take was called with the answer of stop.
function ask(hurried, take, done) {
  const number = ++attempts;
  let answered = false;
  const answer = (what) => {
    if (!answered) take(what);
    answered = true;
  };
  session.post('Runtime.evaluate', { expression: `$sandgate.stop(${number}, ${hurried})`, silent: true }, (error, made) => {
    answer(made?.result?.value);
  });
  return () => {
    if (Atomics.compareExchange(words, STOPPED, number, -number) === number) {
      session.post('Runtime.terminateExecution', done);
      Atomics.store(words, STOPPED, 0);
      answer('ends');
    }
    return answered;
  };
}

// outlast waits for condition, and kills children of the cell that outlive the interrupt.
async function outlast(condition) {
  for (let rounds = 0; !(await until(condition, CHILD / (rounds > 0 ? 3 : 1))); rounds++) {
    children.kill(process.pid, rounds > 0 ? 'SIGKILL' : 'SIGTERM', (shared.now() - Atomics.load(words, BEGAN)) | 0);
  }
}

// --- Memory ---

// When the process has grown to half of V8's limit, the inspector's debugger is enabled: it stops
// the program before the heap is full, so that V8 does not abort. Otherwise it is disabled, because
// it slows every cell.
let watching = false;

function watchMemory() {
  const large = process.memoryUsage.rss() > heap / 2;
  if (large === watching) return;
  watching = large;
  session.post(large ? 'Debugger.enable' : 'Debugger.disable');
}

session.on('Debugger.paused', ({ params }) => {
  if (params.reason === 'OOM') {
    Atomics.store(words, FULL, 1);
    const cell = Atomics.load(words, BUSY);
    session.post('Runtime.terminateExecution', () => {
      recall(cell);
      // V8 has raised the limit so that the debugger has room. This lowers it again, as far as
      // possible, and makes V8 stop there again.
      session.post('Debugger.disable');
      session.post('Debugger.enable');
    });
  }
  session.post('Debugger.resume');
});

// --- Questions about code ---

// reply writes an answer of this thread. The pipes may have unread bytes.
async function reply({ id }, answer) {
  let body = Buffer.from(JSON.stringify({ op: 'reply', id: Number.isSafeInteger(id) && id >= 0 ? id : 0, ...answer }));
  if (body.length > MAX_BODY) body = Buffer.from(JSON.stringify({ op: 'reply', id, status: 'ok', found: false }));
  const head = Buffer.alloc(HEADER);
  head.writeUInt32BE(body.length, 0);
  head[4] = CONTROL;
  const held = holding;
  while (!lock()) await sleep(1);
  try {
    writeAll(4, Buffer.concat([head, body]));
  } finally {
    if (!held) unlock();
  }
}

const code = new Code({ reply, pass: post, busy: () => Atomics.load(words, BUSY) !== 0 });

// --- Requests ---

function take(request) {
  switch (request.op) {
    case 'interrupt':
      interrupt(Number.isInteger(request.cell) ? request.cell : 0);
      return;
    case 'input':
      answers.postMessage({ value: request.value, eof: request.eof });
      Atomics.store(words, ANSWERED, 1);
      Atomics.notify(words, ANSWERED);
      return;
    case 'execute':
      latest = Number.isInteger(request.cell) ? request.cell : 0;
      executes++;
      code.executed(request);
      if (!ticking) {
        ticking = true;
        setTimeout(tick, TICK);
      }
      break;
    case 'complete':
    case 'inspect':
      if (request.about && code.take(request)) return;
  }
  post(request);
}

// fail ends the driver: the sender of such data cannot be answered.
function fail(what) {
  writeAll(2, Buffer.from(`the driver ${what}\n`));
  process.kill(process.pid, 'SIGKILL');
}

let chunks = [];
let have = 0; // bytes in chunks
let need = HEADER; // bytes needed before there is something to do

function receive(chunk) {
  chunks.push(chunk);
  have += chunk.length;
  if (have < need) return;
  let data = chunks.length > 1 ? Buffer.concat(chunks) : chunk;
  need = HEADER;
  while (data.length >= HEADER) {
    const size = data.readUInt32BE(0);
    if (size > MAX_BODY) return fail(`got a request of ${size} bytes: the limit is ${MAX_BODY} bytes`);
    need = HEADER + size;
    if (data.length < need) break;
    if (data[4] === CONTROL) parse(data.subarray(HEADER, need));
    data = data.subarray(need);
    need = HEADER;
  }
  chunks = data.length > 0 ? [data] : [];
  have = data.length;
}

function parse(body) {
  let request;
  try {
    request = JSON.parse(body.toString());
  } catch {
    return fail('got a request that is not JSON');
  }
  if (request === null || typeof request !== 'object' || Array.isArray(request)) {
    return fail('got a request that is not an object');
  }
  take(request);
}

const pipe = new net.Socket({ fd: 3, readable: true, writable: false });
pipe.on('data', receive);
pipe.on('end', () => process.kill(process.pid, 'SIGKILL'));
pipe.on('error', (error) => fail(`could not read requests: ${error.message}`));
