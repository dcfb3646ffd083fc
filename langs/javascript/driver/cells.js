'use strict';
// The running cell, and the cell that a piece of code belongs to.
const { AsyncLocalStorage } = require('node:async_hooks');

// The storage follows promises, timers and callbacks by itself.
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
    this.leave = null; // ends that wait
    this.name = ''; // name of its source, such as cell_3.js
    this.done = false; // its reply was sent
    this.interrupts = 0;
    this.abandoned = false; // it was abandoned and must not continue
    this.exitCode = undefined;
    this.uncaught = null; // takes errors that it does not catch
    this.waits = new Map(); // the promises that it awaits, and functions that reject them
    this.asks = 0; // questions that it may ask in the next round of the event loop
    this.rest = null; // ends it when its questions are answered
    this.timers = new Set();
    this.disposals = []; // functions that dispose of the values of its using declarations
    this.abort = null; // an AbortController for its timers
  }
}

// NONE is the cell of code and output that belong to no cell.
const NONE = new Cell();

module.exports = { Cell, NONE, storage, current: () => storage.getStore() ?? NONE };
