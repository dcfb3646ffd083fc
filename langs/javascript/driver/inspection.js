'use strict';
// V8's inspector, in a session of this same thread: it answers during the call, except for
// evaluations that await.
const inspector = require('node:inspector');
const { Interrupted } = require('./waits.js');

class Inspection {
  #session = null;

  constructor() {
    this.renew();
  }

  // renew ends the session and begins another. This abandons an awaited evaluation. That must
  // happen before V8 collects the promise that it waits for: V8 would answer from inside the
  // garbage collector, and abort.
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

  // give calls take with the value of a remote object.
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

  // value returns the value of a remote object, unless an interrupt ends its reading.
  value(remote) {
    let given;
    this.give(remote, (value) => { given = { value }; });
    if (!given) throw new Interrupted();
    return given.value;
  }

  forget() {
    this.#session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  }

  // stop ends the running code. Nothing can catch that.
  stop() {
    this.#session.post('Runtime.terminateExecution');
  }
}

let taking = null;

// take is called in the inspector's context with the value for give.
function take(value) {
  taking?.(value);
}

function primitive({ type, value, unserializableValue }) {
  if (unserializableValue === undefined) return type === 'undefined' ? undefined : value;
  if (type === 'bigint') return BigInt(unserializableValue.slice(0, -1));
  return Number(unserializableValue);
}

module.exports = { Inspection, take };
