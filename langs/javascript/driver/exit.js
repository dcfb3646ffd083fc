'use strict';
// process.exit and similar functions: they end the cell, not the kernel.

// exiting makes the server handle an exit.
function exiting(server) {
  const exit = (code) => server.exit(code);
  Object.defineProperty(exit, 'name', { value: 'exit' });
  process.exit = exit;
  process.reallyExit = exit;
}

module.exports = { exiting };
