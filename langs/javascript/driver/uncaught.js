'use strict';
// Errors that a cell does not catch. They go to the listeners of uncaughtException and to the domain
// that the same cell has begun to use, as in a file. Those of earlier cells do not hide them.
const process = require('node:process');
const { setImmediate } = require('node:timers');

// listeners returns how many there are of an event, without those of node:test, which keeps errors
// for the end of the program, and of node:domain, which only forgets its domains.
function listeners(event) {
  return process.listeners(event).filter((l) => l.name !== 'domainUncaughtExceptionClear' &&
    !Function.prototype.toString.call(l).includes('rootTest.diagnostic')).length;
}

class Uncaught {
  #listeners = listeners('uncaughtException');
  #captured = process.hasUncaughtExceptionCaptureCallback();

  // take gives an error to them, and reports whether there are any. An error of theirs goes to fail.
  take(error, origin, fail) {
    if (!this.#captured && process.hasUncaughtExceptionCaptureCallback()) {
      // Only Node can call a domain.
      setImmediate(() => { throw error; });
      return true;
    }
    if (listeners('uncaughtException') <= this.#listeners) return false;
    try {
      process.emit('uncaughtExceptionMonitor', error, origin);
      process.emit('uncaughtException', error, origin);
    } catch (failure) {
      fail(failure);
    }
    return true;
  }
}

module.exports = { Uncaught, listeners };
