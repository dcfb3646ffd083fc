'use strict';
// process.exit and its kin: they end the cell, not the kernel.

// exiting lets a server decide what an exit is.
function exiting(server) {
  const exit = (code) => server.exit(code);
  Object.defineProperty(exit, 'name', { value: 'exit' });
  process.exit = exit;
  process.reallyExit = exit;
}

module.exports = { exiting };
