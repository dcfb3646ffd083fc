'use strict';
// Questions about code in the controller's thread: it answers them, or passes them to the main
// thread, which knows the values.

const EARLIER = 200; // cells
const LENGTH = 512 << 10; // characters of all of them

class Code {
  #questions = null;
  #earlier = []; // the cells that were executed
  #length = 0;
  #reply;
  #pass;
  #busy;

  // reply sends an answer. pass gives a request to the main thread, and busy reports whether that
  // runs a cell, so that its answer would be late.
  constructor({ reply, pass, busy }) {
    this.#reply = reply;
    this.#pass = pass;
    this.#busy = busy;
  }

  executed({ code, silent }) {
    if (silent || typeof code !== 'string' || code.length > LENGTH) return;
    this.#earlier.push(code);
    this.#length += code.length;
    while (this.#earlier.length > EARLIER || this.#length > LENGTH) this.#length -= this.#earlier.shift().length;
  }

  // take reports whether a request is a question about code. Its answer follows.
  take(request) {
    // Loaded with the first question, so that a kernel without any takes no memory for this.
    const { Questions, asks } = require('./questions.js');
    if (!asks(request)) return false;
    this.#questions ??= new Questions();
    this.#questions.answer(request, this.#earlier).then((found) => this.#answered(request, found), (error) => {
      this.#reply(request, { status: 'error', ename: error.name, evalue: error.message });
    });
    return true;
  }

  #answered(request, found) {
    const { kind } = request.about;
    if (request.op === 'complete') {
      if (found) this.#reply(request, { status: 'ok', ...found });
      else if (this.#busy()) this.#reply(request, { status: 'ok', matches: [] });
      else this.#pass({ ...request, about: undefined });
    } else if (kind !== 'describe') {
      this.#reply(request, { status: 'ok', ...(found ? { found: true, data: { 'application/json': found } } : { found: false }) });
    } else if (!this.#busy()) {
      this.#pass({ ...request, about: undefined, known: found?.text });
    } else {
      this.#reply(request, { status: 'ok', ...(found ? { found: true, data: { 'text/plain': found.text } } : { found: false }) });
    }
  }
}

module.exports = { Code };
