'use strict';
// Starts the driver as the agent does and communicates with it.
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const HEADER = 16;
const TYPES = { 1: 'control', 4: 'stdout', 5: 'stderr', 6: 'message' };
const INSTALLED = '/opt/sandgate/langs/javascript';
const HOME = fs.existsSync(path.join(INSTALLED, 'driver/acorn.js')) ? INSTALLED : path.dirname(__dirname);

function frame(body, kind = 1) {
  const data = Buffer.alloc(HEADER + body.length);
  data.writeUInt32BE(body.length, 0);
  data[4] = kind;
  data.set(body, HEADER);
  return data;
}

class Kernel {
  #data = Buffer.alloc(0);
  #waiting = new Set(); // functions that check their conditions again
  #id = 0;
  #cell = 0;
  replies = new Map();
  events = []; // {type, cell, text} or {type, cell, content}
  ended = null; // the exit's {code, signal}
  plain = '';

  constructor() {
    const { argv, env } = JSON.parse(fs.readFileSync(path.join(HOME, 'manifest.json')));
    const [, ...args] = argv.map((a) => a.replace(INSTALLED, HOME));
    this.process = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'], env: { ...process.env, ...env } });
    const [, out, err, requests, replies] = this.process.stdio;
    this.requests = requests;
    requests.on('error', () => {});
    for (const stream of [out, err]) stream.on('data', (chunk) => { this.plain += chunk; });
    replies.on('data', (chunk) => this.#receive(chunk));
    this.process.on('close', (code, signal) => {
      this.ended = { code, signal };
      this.#look();
    });
  }

  #receive(chunk) {
    this.#data = Buffer.concat([this.#data, chunk]);
    while (this.#data.length >= HEADER) {
      const size = this.#data.readUInt32BE(0);
      if (this.#data.length < HEADER + size) break;
      const type = TYPES[this.#data[4]];
      const cell = this.#data.readUInt32BE(12);
      const body = this.#data.subarray(HEADER, HEADER + size).toString();
      this.#data = this.#data.subarray(HEADER + size);
      if (type === 'control') {
        const reply = JSON.parse(body);
        if (this.replies.has(reply.id)) throw new Error(`two replies with the id ${reply.id}`);
        this.replies.set(reply.id, reply);
      } else if (type === 'message') {
        const { msg_type: kind, content } = JSON.parse(body);
        this.events.push({ type: kind, cell, content });
      } else {
        this.events.push({ type, cell, text: body });
      }
    }
    this.#look();
  }

  #look() {
    for (const look of this.#waiting) look();
  }

  // until resolves with the result of condition, once that is true.
  until(condition, ms = 60_000) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(look);
        reject(new Error(`not in ${ms} ms; ${JSON.stringify(this.events.slice(-5))} ${this.plain}`));
      }, ms);
      const look = () => {
        const found = condition();
        if (!found && !this.ended) return;
        clearTimeout(timer);
        this.#waiting.delete(look);
        if (found) resolve(found);
        else reject(new Error(`the driver ended: ${JSON.stringify(this.ended)} ${this.plain}`));
      };
      this.#waiting.add(look);
      look();
    });
  }

  write(data) {
    this.requests.write(data);
  }

  send(request) {
    this.write(frame(Buffer.from(JSON.stringify(request))));
  }

  ask(op, fields = {}) {
    const id = ++this.#id;
    this.send({ op, id, ...fields });
    return this.until(() => this.replies.get(id));
  }

  // start begins a cell.
  start(code, fields = {}) {
    const cell = ++this.#cell;
    return { cell, reply: this.ask('execute', { code, cell, ...fields }) };
  }

  async run(code, fields) {
    const { cell, reply } = this.start(code, fields);
    const made = await reply;
    const events = this.events.filter((e) => e.cell === cell);
    const text = (type) => events.filter((e) => e.type === type).map((e) => e.text).join('');
    return {
      reply: made,
      stdout: text('stdout'),
      stderr: text('stderr'),
      value: events.find((e) => e.type === 'execute_result')?.content.data['text/plain'],
      error: events.find((e) => e.type === 'error')?.content,
    };
  }

  // interrupt names the cell, as the agent does. It may come before the cell has begun.
  interrupt() {
    this.send({ op: 'interrupt', cell: this.#cell });
  }

  async ready() {
    await this.until(() => this.replies.get(0));
    return this;
  }

  async close() {
    if (!this.ended) {
      this.requests.end();
      await this.until(() => this.ended);
    }
    return this.ended;
  }
}

// start starts a kernel that ends with the test.
function start(test) {
  const kernel = new Kernel();
  test.after(() => kernel.process.kill('SIGKILL'));
  return kernel.ready();
}

module.exports = { Kernel, frame, HOME, start };
