'use strict';
// Node loads some of its parts when they are first used. An interrupt in the middle of that would
// leave a part half loaded, and broken until the kernel ends. The driver therefore uses them once
// before the first cell.
const { Console } = require('node:console');
const { Writable } = require('node:stream');

function load() {
  const sink = new Writable({ write: (chunk, encoding, callback) => callback() });
  const quiet = new Console({ stdout: sink, stderr: sink });
  quiet.log('%s %o', 'load', [{ a: 1 }]);
  quiet.error(new Error('load'));
  // Node makes the value of a global such as FormData when its descriptor is read. That loads the
  // implementation of fetch.
  for (const name of Object.getOwnPropertyNames(globalThis)) Object.getOwnPropertyDescriptor(globalThis, name);
}

module.exports = { load };
