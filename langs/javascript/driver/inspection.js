'use strict';
// V8's inspector, through a session of this very thread: its answers come
// while the call lasts, except for evaluations that await.
const inspector = require('node:inspector');
const { Interrupted } = require('./waits.js');

class Inspection {
  #session = null;

  constructor() {
    this.renew();
  }

  // renew ends the session and begins another. An evaluation that is still
  // awaited is thereby given up, which it must be before V8 collects what it
  // waits for: V8 would answer from inside the garbage collector, and abort.
  renew() {
    this.#session?.disconnect();
    this.#session = new inspector.Session();
    this.#session.connect();
  }

  // run evaluates a cell; done(error, result) is called when it has ended.
  run(code, done) {
    this.#session.post('Runtime.evaluate', { expression: code, replMode: true, objectGroup: 'cell' }, done);
  }

  // ask calls a method that answers at once.
  ask(method, params) {
    let result;
    this.#session.post(method, params, (error, answer) => {
      result = error ? { error } : answer;
    });
    return result ?? { error: new Error(`${method} did not answer`) };
  }

  // give calls function with the value of a remote object.
  give(remote, take) {
    if (!remote.objectId) return take(primitive(remote));
    taking = take;
    try {
      const answer = this.ask('Runtime.callFunctionOn', {
        functionDeclaration: 'function (value) { $sandgate.take(value) }',
        objectId: remote.objectId,
        arguments: [{ objectId: remote.objectId }],
      });
      if (answer.error) throw answer.error;
    } finally {
      taking = null;
    }
    return undefined;
  }

  // value is the value of a remote object, if no interrupt ends its reading.
  value(remote) {
    let given;
    this.give(remote, (value) => { given = { value }; });
    if (!given) throw new Interrupted();
    return given.value;
  }

  forget() {
    this.#session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  }

  // stop ends the code that runs, which nothing can catch.
  stop() {
    this.#session.post('Runtime.terminateExecution');
  }
}

let taking = null;

// take is called in the inspector's context with what give is about.
function take(value) {
  taking?.(value);
}

function primitive({ type, value, unserializableValue }) {
  if (unserializableValue === undefined) return type === 'undefined' ? undefined : value;
  if (type === 'bigint') return BigInt(unserializableValue.slice(0, -1));
  return Number(unserializableValue);
}

module.exports = { Inspection, take };
