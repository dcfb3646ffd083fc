'use strict';
// Which cell is running, and which cell a piece of code belongs to.
const { AsyncLocalStorage } = require('node:async_hooks');

// The cell follows promises, timers and callbacks by itself.
const storage = new AsyncLocalStorage();

let serial = 0;

class Cell {
  constructor({ cell = 0, silent = false, no_input: noInput = false, program = false } = {}) {
    this.number = Number.isInteger(cell) && cell >= 0 && cell < 2 ** 32 ? cell : 0;
    this.serial = ++serial;
    this.silent = silent === true;
    this.noInput = noInput === true;
    this.program = program === true;
    this.drained = false; // the wait for an empty event loop has begun
    this.leave = null; // ends it
    this.name = ''; // of its source, as in cell_3.js
    this.done = false; // it has its reply
    this.interrupts = 0;
    this.abandoned = false; // it was given up, and must not go on
    this.exitCode = undefined;
    this.waits = new Set(); // functions that reject what it awaits
    this.timers = new Set();
    this.abort = null; // an AbortController for what it sleeps in
  }
}

// NONE is the cell of what belongs to no cell.
const NONE = new Cell();

module.exports = { Cell, NONE, storage, current: () => storage.getStore() ?? NONE };
