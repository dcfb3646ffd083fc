'use strict';
// The controller: a thread that reads requests from descriptor 3, hands them
// to the main thread, writes output that lies too long, and can always end
// what runs on the main thread.
//
// An interrupt asks first, unless the cell's code has not come to an await
// yet: a main thread that comes to its event loop ends the cell by itself, and
// finally blocks run. One that does not within ASK runs code or waits in a
// call: the controller ends that through the inspector.
const { workerData } = require('node:worker_threads');
const inspector = require('node:inspector');
const net = require('node:net');
const shared = require('./shared.js');
const { writeAll } = require('./output.js');
const children = require('./family.js');

const { LOCK, USED, BUSY, TAKEN, HEARD, ANSWERED, FULL, RUNNING, NUMBER, YIELDS, BEGAN, ENDED, FREE, CONTROLLER, HEADER, MAX_BODY } = shared;
const CONTROL = 1;
const TICK = 40; // ms that output may lie while a cell runs
const ASK = 20; // ms until a main thread that does not answer is taken to run code
const GRACE = 120; // ms that a cell has for its finally blocks
const IDLE = 50; // ms, likewise, while no cell runs
const BEGIN = 200; // ms that a cell which is interrupted has to begin, before what keeps the main thread from it is ended
const LOST = 5000; // ms after which a cell that has not begun is none that will
const CHILD = 150; // ms until children that outlive an interrupt are killed
const SWALLOWED = 4; // times that the main thread waits for the lock before it is taken not to end any more

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

// --- Output that lies ---

let ticking = false;
let executes = 0; // that the main thread was sent

function tick() {
  if (words[USED] > 0) {
    const held = holding;
    if (lock()) {
      const n = words[USED];
      words[USED] = 0;
      // The main thread looks at USED to know whether its last frame is there.
      if (n > 0) writeAll(4, bytes.subarray(0, n));
      if (!held) unlock();
    }
  }
  watchMemory();
  // Not by BUSY: between one cell and the next, nothing is.
  ticking = Atomics.load(words, ENDED) !== (executes | 0);
  if (ticking) setTimeout(tick, TICK);
}

// --- The main thread ---

let posted = 0; // requests

// post lays a request where the main thread takes it when it is called: a call
// is lost if it is ended, and what it was for is not.
function post(request) {
  posted++;
  requests.postMessage(request);
  call({ op: 'take' });
}

function call(message) {
  calls.postMessage(message);
}

// recall tells of code that was ended, and calls for all that calls were lost for.
function recall(cell) {
  call({ op: 'terminated', cell });
  for (let n = posted - Atomics.load(words, TAKEN); n >= 0; n--) call({ op: 'take' });
}

// waiting reports whether the main thread has not taken what it was sent.
const waiting = () => Atomics.load(words, TAKEN) !== posted;

let latest = 0; // the cell of the last execute
let interrupting = false;
let wanted = 0; // the cell of an interrupt that came meanwhile
let count = 0;

// interrupt ends the cell that an execute had the number of, or what runs if
// number is 0.
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

// comes waits until the main thread has come to a cell: the execute lies before
// the interrupt, but may not have been taken yet. A callback of an earlier cell
// that does not end is ended. An interrupt that comes late, when another cell
// was sent already, waits for nothing: it could end that one's beginning.
async function comes(number) {
  const here = () => Atomics.load(words, NUMBER) === (number | 0);
  if (number !== latest) return here();
  if (await until(() => here() || number !== latest, BEGIN)) return here();
  if (!waiting()) return here(); // the cell that is meant has ended, and another has begun
  await terminate(() => Atomics.load(words, BUSY) !== 0 || !waiting(), 0);
  return until(here, LOST);
}

async function stop(number) {
  if (number !== 0 && !(await comes(number))) return;
  const cell = Atomics.load(words, BUSY);
  // It has ended. BUSY may be the next one's by now.
  if (number !== 0 && (cell === 0 || Atomics.load(words, NUMBER) !== (number | 0))) return;
  const over = () => Atomics.load(words, BUSY) !== cell;
  while (!over()) {
    const n = ++count;
    const heard = () => Atomics.load(words, HEARD) === n;
    if (cell === 0 || Atomics.load(words, RUNNING) !== cell) {
      call({ op: 'interrupt', n, cell });
      await until(() => heard() || over(), cell === 0 ? IDLE : ASK);
    }
    if (!over() && !heard()) await terminate(over, cell);
    // Without a cell, it was for a callback that would not end.
    if (cell === 0) return;
    await until(over, GRACE);
  }
}

// terminate ends the code that the main thread runs, of a cell or of none,
// unless over() says that it is too late.
async function terminate(over, cell) {
  while (!lock()) {
    if (over()) return;
    await sleep(1);
  }
  if (over()) {
    unlock();
    return;
  }
  let ended = false;
  try {
    session.post('Runtime.terminateExecution', () => { ended = true; });
    // Should no code run, this message is what is ended.
    call({ op: 'take' });
    // Where the code had come to its last call, V8 ends its own reading of the
    // result: the main thread tells of the cell by itself, and waits for the lock.
    const yields = Atomics.load(words, YIELDS);
    const swallowed = () => Atomics.load(words, YIELDS) - yields >= SWALLOWED;
    for (let rounds = 0; !(await until(() => ended || swallowed(), CHILD / (rounds > 0 ? 3 : 1))); rounds++) {
      children.kill(process.pid, rounds > 0 ? 'SIGKILL' : 'SIGTERM', (shared.now() - Atomics.load(words, BEGAN)) | 0);
    }
  } finally {
    unlock();
    recall(ended ? cell : 0);
  }
}

// --- Memory ---

// When the process has grown to half of V8's limit, the inspector's debugger
// is turned on, since it stops the program before the heap is full instead of
// letting V8 abort. It is off otherwise, because it costs every cell.
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
      // V8 has raised the limit so that the debugger has room. This takes it
      // back, as far as can be, and asks to be stopped there again.
      session.post('Debugger.disable');
      session.post('Debugger.enable');
    });
  }
  session.post('Debugger.resume');
});

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
      if (!ticking) {
        ticking = true;
        setTimeout(tick, TICK);
      }
  }
  post(request);
}

// fail ends the driver: whoever speaks like this cannot be answered.
function fail(what) {
  writeAll(2, Buffer.from(`the driver ${what}\n`));
  process.kill(process.pid, 'SIGKILL');
}

let chunks = [];
let have = 0; // bytes in chunks
let need = HEADER; // bytes until there is something to do

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
    return fail('got a request that is no JSON');
  }
  if (request === null || typeof request !== 'object' || Array.isArray(request)) {
    return fail('got a request that is no object');
  }
  take(request);
}

const pipe = new net.Socket({ fd: 3, readable: true, writable: false });
pipe.on('data', receive);
pipe.on('end', () => process.kill(process.pid, 'SIGKILL'));
pipe.on('error', (error) => fail(`could not read requests: ${error.message}`));
