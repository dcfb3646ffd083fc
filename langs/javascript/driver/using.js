'use strict';
// using at the top level of a cell. The value is a variable of the session, and is disposed of at
// the end of the cell that declares it.
const { current } = require('./cells.js');

// using remembers a value for the end of its cell, and returns it.
function using(value, asynchronous = false) {
  if (value === null || value === undefined) return value;
  const dispose = (asynchronous ? value[Symbol.asyncDispose] : undefined) ?? value[Symbol.dispose];
  if (typeof dispose !== 'function') throw new TypeError('the value of using has no method Symbol.dispose');
  current().disposals.push(() => Reflect.apply(dispose, value, []));
  return value;
}

module.exports = { using };
