'use strict';
// Timers belong to the cell that created them, and continue when it has ended. The timers of an
// interrupted cell are cleared.
const timers = require('node:timers');
const promises = require('node:timers/promises');
const { promisify } = require('node:util');
const { storage } = require('./cells.js');

const CELL = Symbol('cell');
const { clearTimeout: clear, clearImmediate: drop, setImmediate: soon } = timers;
const queued = new Set(); // immediates of all cells whose callbacks have not begun

function install() {
  const real = { ...timers };
  const forget = (timer) => {
    queued.delete(timer);
    timer?.[CELL]?.timers.delete(timer);
  };

  const once = (name) => {
    const make = real[name];
    const immediate = name === 'setImmediate';
    const timed = function (callback, ...rest) {
      const cell = storage.getStore();
      if (!cell || typeof callback !== 'function') return make(callback, ...rest);
      const timer = make(function (...args) {
        cell.timers.delete(timer);
        if (immediate && !queued.delete(timer)) return undefined;
        return Reflect.apply(callback, this, args);
      }, ...rest);
      if (immediate && !cell.abandoned) queued.add(timer);
      return keep(cell, timer, real[name.replace('set', 'clear')]);
    };
    return named(timed, name, make);
  };
  const keep = (cell, timer, clear) => {
    if (cell.abandoned) {
      clear(timer);
      return timer;
    }
    Object.defineProperty(timer, CELL, { value: cell });
    cell.timers.add(timer);
    return timer;
  };
  const repeated = named(function (callback, ...rest) {
    const timer = real.setInterval(callback, ...rest);
    const cell = storage.getStore();
    return cell ? keep(cell, timer, real.clearInterval) : timer;
  }, 'setInterval', real.setInterval);
  const clearing = (name) => named(function (timer) {
    real[name](timer);
    forget(timer);
  }, name, real[name]);

  const changed = {
    setTimeout: once('setTimeout'),
    setImmediate: once('setImmediate'),
    setInterval: repeated,
    clearTimeout: clearing('clearTimeout'),
    clearImmediate: clearing('clearImmediate'),
    clearInterval: clearing('clearInterval'),
  };
  sleeps(changed.setImmediate);
  for (const [name, value] of Object.entries(changed)) {
    timers[name] = value;
    Object.defineProperty(globalThis, name, { value, configurable: true, enumerable: true, writable: true });
  }
  for (const name of ['setTimeout', 'setImmediate']) {
    Object.defineProperty(changed[name], promisify.custom, { get: () => promises[name], configurable: true });
  }
}

function named(made, name, like) {
  return Object.defineProperties(made, {
    name: { value: name, configurable: true },
    length: { value: like.length, configurable: true },
  });
}

// sleeps makes the promises of node:timers/promises reject at an interrupt, and those of immediates
// use immediate.
function sleeps(immediate) {
  const signal = (options) => {
    const cell = storage.getStore();
    if (!cell) return options;
    cell.abort ??= new AbortController();
    const own = options?.signal;
    return { ...options, signal: own instanceof AbortSignal ? AbortSignal.any([own, cell.abort.signal]) : cell.abort.signal };
  };
  for (const name of ['setTimeout', 'setInterval']) {
    const make = promises[name];
    promises[name] = named(function (ms, value, options) {
      return make(ms, value, options === undefined || typeof options === 'object' ? signal(options) : options);
    }, name, make);
  }
  const turn = promises.setImmediate;
  promises.setImmediate = named(function (value, options) {
    if (options !== undefined) return turn(value, options);
    return new Promise((resolve) => immediate(resolve, value));
  }, 'setImmediate', turn);
}

// stop clears a cell's timers.
function stop(cell) {
  for (const timer of cell.timers) {
    clear(timer);
    drop(timer);
    queued.delete(timer);
  }
  cell.timers.clear();
  cell.abort?.abort();
}

// revive repeats immediates that Node has lost: if the callback of one was ended, Node does not run
// those after it, but counts them and does not let the event loop sleep.
function revive() {
  if (queued.size === 0) return;
  const all = [...queued];
  // This comes after those that are not lost.
  soon(() => {
    for (const timer of all) if (queued.has(timer)) repeat(timer);
  });
}

function repeat(timer) {
  const { _onImmediate: run, _argv: args = [] } = timer;
  const holds = timer.hasRef();
  drop(timer);
  const again = storage.run(timer[CELL], soon, () => Reflect.apply(run, timer, args));
  if (!holds) again.unref();
}

module.exports = { install, stop, revive };
