'use strict';
// The one ordered queue for all output: frames in the shared buffer. It is written when it is full,
// at a flush, before a child process starts, with the reply of a cell, and by the controller every
// 40 ms.
const fs = require('node:fs');
const shared = require('./shared.js');
const cells = require('./cells.js');

const { LOCK, USED, BUSY, ENDED, YIELDS, FREE, MAIN, CONTROLLER, HEADER, MAX_BODY } = shared;
const CONTROL = 1;
const STDOUT = 4;
const STDERR = 5;
const MESSAGE = 6;
const CLEAR = 1 << 1; // descriptors 1 and 2 had no unread bytes
const CHUNK = 256 << 10; // bytes of a frame of text
const LINGER = 5; // ms that output between cells may wait
const REPLIES = 4; // the descriptor

// User code could replace these.
const { writeSync } = fs;
const { setTimeout: later } = globalThis;

class Output {
  #words;
  #bytes;
  #last = -1; // where the last frame of text in the buffer begins
  #lastKind = 0;
  #lastCell = 0;
  #timer = null;
  #lingers = 0; // child processes that may print to descriptors 1 and 2
  #unclear = false; // descriptors 1 and 2 may have unread output

  constructor(memory) {
    this.#words = shared.words(memory);
    this.#bytes = shared.bytes(memory);
  }

  // text appends text or bytes to a stream.
  text(kind, text, cell = cells.current()) {
    const most = typeof text === 'string' ? text.length * 3 : text.byteLength;
    if (most === 0) return undefined;
    if (most > CHUNK / 2) return this.#long(kind, text, cell.number);
    this.#lock();
    try {
      this.#append(kind, cell.number, text, most);
    } finally {
      this.#unlock();
    }
    return this.#settleLater();
  }

  // message appends a Message frame. body is JSON.
  message(body, cell = cells.current()) {
    const most = body.length * 3;
    if (most > CHUNK / 2) {
      this.#direct(MESSAGE, cell.number, Buffer.from(body));
      return;
    }
    this.#lock();
    try {
      this.#append(MESSAGE, cell.number, body, most);
    } finally {
      this.#unlock();
    }
    this.#settleLater();
  }

  // whole runs a section of the driver that no interrupt ends: it happens completely or not at all.
  // It must not call another such section or the user's code.
  whole(section) {
    this.#lock();
    try {
      return section();
    } finally {
      this.#unlock();
    }
  }

  // reply writes everything and the reply, at once with then, in one section. If it is a cell's
  // last reply, no interrupt hits the cell after it.
  reply(body, cell, then) {
    const data = Buffer.from(body);
    this.whole(() => {
      if (cell) {
        if (cell.done) return;
        cell.done = true;
      }
      this.#room(HEADER + data.length);
      if (HEADER + data.length <= shared.BUFFER) {
        this.#frame(CONTROL, cell ? cell.number : 0, data);
        this.#write();
      } else {
        this.#writeFrame(CONTROL, cell ? cell.number : 0, data);
      }
      if (cell) {
        Atomics.add(this.#words, ENDED, 1);
        Atomics.store(this.#words, BUSY, 0);
      }
      then?.();
    });
  }

  flush() {
    if (this.#words[USED] === 0) return;
    this.#lock();
    try {
      this.#write();
    } finally {
      this.#unlock();
    }
  }

  // beforeChild writes everything that must come before a child's output.
  beforeChild() {
    const barrier = this.#unclear && this.#words[USED] > 0;
    this.flush();
    // The agent must have read a frame that is not clear before more data comes through the pipes:
    // wait a moment.
    if (barrier) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
  }

  // childPrints records that a child with our descriptors 1 or 2 runs. childEnded records that it
  // has ended, and that its output is in the pipes.
  childPrints() {
    this.#lingers++;
    this.#unclear = true;
  }

  childEnded() {
    this.#lingers--;
  }

  #settleLater() {
    // While a cell runs, the controller does this.
    if (this.#timer !== null || this.#words[BUSY] !== 0) return;
    cells.storage.exit(() => {
      this.#timer = later(() => this.settle(), LINGER);
      this.#timer.unref();
    });
  }

  // settle writes output from between cells.
  settle() {
    this.#timer = null;
    this.flush();
  }

  #lock() {
    for (;;) {
      const holder = Atomics.compareExchange(this.#words, LOCK, FREE, MAIN);
      // This thread already holds it: a stack overflow prevented the release. Sections are not
      // nested, and change the buffer at their end.
      if (holder !== CONTROLLER) return;
      this.#yield();
    }
  }

  // #yield waits for the controller, which may be ending this thread's code: V8 checks for that at
  // the beginning of a function, and in a loop only after thousands of rounds. The count shows the
  // controller that the code was not ended here.
  #yield() {
    Atomics.add(this.#words, YIELDS, 1);
    Atomics.wait(this.#words, LOCK, CONTROLLER, 10);
  }

  #unlock() {
    Atomics.store(this.#words, LOCK, FREE);
  }

  // #room makes room for size bytes, or as much as possible.
  #room(size) {
    if (this.#words[USED] + size > shared.BUFFER) this.#write();
  }

  // #append adds text to the last frame of the buffer, or begins a new frame.
  #append(kind, cell, text, most) {
    this.#room(HEADER + most);
    const at = this.#words[USED];
    const joins = kind !== MESSAGE && at > 0 && at > this.#last && this.#last >= 0 &&
      this.#lastKind === kind && this.#lastCell === cell && this.#flags() === this.#bytes[this.#last + 5];
    if (!joins) {
      this.#frame(kind, cell, text);
      return;
    }
    const n = this.#put(text, at);
    this.#size(this.#last, at - this.#last - HEADER + n);
    this.#words[USED] = at + n;
  }

  // #frame adds a frame. There must be room for it.
  #frame(kind, cell, body) {
    const at = this.#words[USED];
    const n = this.#put(body, at + HEADER);
    this.#header(this.#bytes, at, n, kind, cell);
    this.#last = kind === MESSAGE || kind === CONTROL ? -1 : at;
    this.#lastKind = kind;
    this.#lastCell = cell;
    this.#words[USED] = at + HEADER + n;
  }

  #put(text, at) {
    if (typeof text === 'string') return this.#bytes.utf8Write(text, at);
    this.#bytes.set(text, at);
    return text.byteLength;
  }

  #size(at, n) {
    const b = this.#bytes;
    b[at] = n >>> 24;
    b[at + 1] = n >>> 16;
    b[at + 2] = n >>> 8;
    b[at + 3] = n;
  }

  #flags() {
    return this.#unclear ? 0 : CLEAR;
  }

  #header(b, at, size, kind, cell) {
    const words = [size, 0, 0, cell];
    for (let i = 0; i < 4; i++) {
      const w = words[i];
      b[at + 4 * i] = w >>> 24;
      b[at + 4 * i + 1] = w >>> 16;
      b[at + 4 * i + 2] = w >>> 8;
      b[at + 4 * i + 3] = w;
    }
    b[at + 4] = kind;
    b[at + 5] = this.#flags();
  }

  // #long sends text that is too long for the buffer, in pieces.
  #long(kind, text, cell) {
    const bytes = typeof text === 'string' ? Buffer.from(text) : Buffer.from(text.buffer, text.byteOffset, text.byteLength);
    for (let at = 0; at < bytes.length; at += CHUNK) this.#direct(kind, cell, bytes.subarray(at, at + CHUNK));
  }

  // #direct writes the queue and one frame without using the buffer.
  #direct(kind, cell, body) {
    this.#lock();
    try {
      this.#write();
      this.#writeFrame(kind, cell, body);
    } finally {
      this.#unlock();
    }
  }

  #writeFrame(kind, cell, body) {
    if (body.length > MAX_BODY) throw new RangeError(`a frame of ${body.length} bytes: the limit is ${MAX_BODY} bytes`);
    const data = Buffer.allocUnsafe(HEADER + body.length);
    this.#header(data, 0, body.length, kind, cell);
    body.copy(data, HEADER);
    this.#written();
    writeAll(REPLIES, data);
  }

  // #write empties the buffer; the lock is held.
  #write() {
    const n = this.#words[USED];
    this.#last = -1;
    if (n === 0) return;
    this.#words[USED] = 0;
    this.#written();
    writeAll(REPLIES, this.#bytes.subarray(0, n));
  }

  // #written records that a frame was sent after which the pipes are empty, unless a child still
  // prints.
  #written() {
    if (this.#lingers === 0) this.#unclear = false;
  }
}

// writeAll writes all of data, even to a non-blocking descriptor.
function writeAll(fd, data) {
  for (let at = 0; at < data.length; ) {
    try {
      at += writeSync(fd, data, at, data.length - at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

module.exports = { Output, writeAll, STDOUT, STDERR };
