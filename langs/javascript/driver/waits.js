'use strict';
// Promises that a cell awaits at its top level. An interrupt rejects the promise, so that the
// cell's finally blocks run. The promise is also kept reachable: otherwise a promise that never
// settles would be collected together with the cell that awaits it.
const { inspect, types } = require('node:util');
const { current } = require('./cells.js');

const { then } = Promise.prototype;
const held = new Set();

class Interrupted extends Error {
  constructor(message = 'the execution was interrupted') {
    super(message);
  }
}
Object.defineProperty(Interrupted.prototype, 'name', { value: 'Interrupted', configurable: true });

const PENDING = { depth: 0, customInspect: false, maxArrayLength: 0, maxStringLength: 0, showProxy: true, breakLength: Infinity };
const pending = (promise) => /^(?:\w+ )?(?:\[\w+\] )?Promise(?: \[.*\])? \{\s*<pending>/.test(inspect(promise, PENDING));

// hold returns a promise for value that the cell may await. A value that is not a promise, or has
// settled, is returned unchanged: it needs no hold, and awaiting it takes no additional turns. The
// promise has no reaction but the cell's: V8 then finds the cell's line for the stack of an error.
function hold(value) {
  const cell = current();
  if (cell.abandoned) return forever();
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return value;
  if (types.isPromise(value) && !pending(value)) return value;
  release(cell);
  let cancel;
  const promise = new Promise((resolve, reject) => {
    cancel = reject;
    if (types.isPromise(value)) Reflect.apply(then, value, [resolve, reject]);
    else resolve(value);
  });
  held.add(promise);
  cell.waits.set(promise, cancel);
  return promise;
}

// release lets the promises go that have settled. It returns the functions that reject the others.
function release(cell) {
  for (const promise of cell.waits.keys()) if (!pending(promise)) {
    cell.waits.delete(promise);
    held.delete(promise);
  }
  return [...cell.waits.values()];
}

// holdEach does the same for each step of for await.
function holdEach(iterable) {
  const make = iterable?.[Symbol.asyncIterator];
  if (typeof make !== 'function') return iterable;
  const iterator = Reflect.apply(make, iterable, []);
  const steps = { next: (value) => hold(iterator.next(value)) };
  if (iterator.return) steps.return = (value) => iterator.return(value);
  if (iterator.throw) steps.throw = (error) => iterator.throw(error);
  return { [Symbol.asyncIterator]: () => steps };
}

// forever returns the promise that an abandoned cell awaits.
function forever() {
  const promise = new Promise(() => {});
  held.add(promise);
  return promise;
}

module.exports = { Interrupted, hold, holdEach, release };
