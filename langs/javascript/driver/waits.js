'use strict';
// What a cell awaits at its top level. An interrupt rejects it, so that the
// cell's finally blocks run. And it is kept reachable: a promise that never
// settles would be collected with the cell that awaits it.
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

// hold returns a promise for value that the cell may await. What is no promise
// or has settled is returned as it is: it needs no hold, and it is awaited in
// as few turns as ever.
function hold(value) {
  const cell = current();
  if (cell.abandoned) return forever();
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return value;
  if (types.isPromise(value) && !pending(value)) return value;
  let cancel;
  const promise = new Promise((resolve, reject) => {
    cancel = reject;
    if (types.isPromise(value)) Reflect.apply(then, value, [resolve, reject]);
    else resolve(value);
  });
  held.add(promise);
  cell.waits.add(cancel);
  const over = () => {
    held.delete(promise);
    cell.waits.delete(cancel);
  };
  Reflect.apply(then, promise, [over, over]);
  return promise;
}

// holdEach is hold for each step of for await.
function holdEach(iterable) {
  const make = iterable?.[Symbol.asyncIterator];
  if (typeof make !== 'function') return iterable;
  const iterator = Reflect.apply(make, iterable, []);
  const steps = { next: (value) => hold(iterator.next(value)) };
  if (iterator.return) steps.return = (value) => iterator.return(value);
  if (iterator.throw) steps.throw = (error) => iterator.throw(error);
  return { [Symbol.asyncIterator]: () => steps };
}

// forever is what an abandoned cell awaits.
function forever() {
  const promise = new Promise(() => {});
  held.add(promise);
  return promise;
}

module.exports = { Interrupted, hold, holdEach };
