'use strict';
// Memory that the main thread and the controller share: words for locks and flags, and the buffer
// with unwritten output.
//
// The lock guards the buffer, descriptor 4, BUSY and the taking of requests. The controller ends
// running code only while it holds the lock. So no section of the driver under the lock is
// interrupted in the middle, no cell is ended after its reply, and no taken request is lost.

const WORDS = 16;
const BUFFER = 256 << 10; // bytes
const clock = Date.now; // user code may replace it

module.exports = {
  BUFFER,
  make: () => new SharedArrayBuffer(WORDS * 4 + BUFFER),
  words: (memory) => new Int32Array(memory, 0, WORDS),
  bytes: (memory) => Buffer.from(memory, WORDS * 4, BUFFER),

  // now is a clock of both threads, in ms, as an Int32 that wraps around. It is the clock that gVisor
  // takes the start times of processes from, so that a step of it does not matter.
  now: () => clock() | 0,

  // Indexes of words.
  LOCK: 0, // FREE, MAIN or CONTROLLER
  USED: 1, // bytes in the buffer
  BUSY: 2, // the serial number of the cell without a reply, or 0
  TAKEN: 3, // requests that the main thread has taken
  HEARD: 4, // the last interrupt that the main thread has handled
  ANSWERED: 5, // 1 when an answer to prompt() may have arrived
  FULL: 6, // 1 when code was ended because the heap is full
  RUNNING: 7, // the serial number of the cell whose code has not yet returned to the event loop, or 0
  NUMBER: 8, // the number in the request of the last cell that began, as an Int32; 0 while BUSY changes to it
  YIELDS: 9, // how often the main thread has waited 10 ms for the lock
  BEGAN: 10, // when the last cell began, by now()
  ENDED: 11, // number of cells with a reply
  STOPPED: 12, // the number of the attempt to end the code that stands still for it, negative while its end is requested, or 0

  // The holders of the lock.
  FREE: 0,
  MAIN: 1,
  CONTROLLER: 2,

  HEADER: 16, // bytes of a frame's header
  MAX_BODY: 8 << 20, // bytes of a frame's body
};
