'use strict';
// process.stdout, process.stderr and console.
const process = require('node:process');
const fs = require('node:fs');
const { Writable } = require('node:stream');
const { Console } = require('node:console');
const { STDOUT, STDERR } = require('./output.js');

class Stream extends Writable {
  #output;
  #kind;

  constructor(output, kind) {
    super({ decodeStrings: false });
    this.#output = output;
    this.#kind = kind;
    this.fd = kind === STDOUT ? 1 : 2;
    this._type = 'pipe';
  }

  write(chunk, encoding, callback) {
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding];
    if (typeof chunk === 'string') {
      const utf8 = !encoding || /^utf-?8$/i.test(encoding);
      this.#output.text(this.#kind, utf8 ? chunk : Buffer.from(chunk, encoding));
    } else if (ArrayBuffer.isView(chunk)) {
      this.#output.text(this.#kind, new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    } else {
      return super.write(chunk, encoding, callback); // reports the error
    }
    if (typeof callback === 'function') process.nextTick(callback, null);
    return true;
  }

  _write(chunk, encoding, callback) {
    this.write(chunk, encoding);
    callback();
  }

  // A cell must not close the session's stream.
  end(chunk, encoding, callback) {
    if (typeof chunk === 'function') [chunk, callback] = [undefined, chunk];
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding];
    if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
    if (typeof callback === 'function') process.nextTick(callback);
    return this;
  }

  destroy() {
    return this;
  }

  get writableEnded() {
    return false;
  }
}

// install installs the streams before any code has used them.
function install(output) {
  const stdout = new Stream(output, STDOUT);
  const stderr = new Stream(output, STDERR);
  for (const [name, value] of [['stdout', stdout], ['stderr', stderr]]) {
    Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true });
  }
  // Node's own console also writes to the inspector, which keeps the output. A separate Console
  // does not.
  const own = new Console({ stdout, stderr });
  for (const name of Object.keys(console)) {
    if (typeof own[name] === 'function' && name !== 'Console') console[name] = own[name];
  }
  console.context = () => own;
  plainWrites(output);
}

// plainWrites keeps the order between writes to descriptors 1 and 2 and the text of the streams.
function plainWrites(output) {
  const { writeSync, write, writeFileSync } = fs;
  const kind = (fd) => (fd === 1 ? STDOUT : STDERR);
  const part = (data, offset, length) => {
    if (typeof data === 'string') return Buffer.from(data, typeof length === 'string' ? length : 'utf8');
    if (offset !== null && typeof offset === 'object') ({ offset, length } = offset);
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    return bytes.subarray(offset ?? 0, typeof length === 'number' ? (offset ?? 0) + length : undefined);
  };
  const ours = (fd, data) => (fd === 1 || fd === 2) && (typeof data === 'string' || ArrayBuffer.isView(data));
  fs.writeSync = function (fd, data, offset, length, ...rest) {
    if (!ours(fd, data)) return Reflect.apply(writeSync, this, [fd, data, offset, length, ...rest]);
    const bytes = part(data, offset, length);
    output.text(kind(fd), bytes);
    return bytes.length;
  };
  fs.write = function (fd, data, ...rest) {
    const callback = rest.at(-1);
    if (!ours(fd, data) || typeof callback !== 'function') return Reflect.apply(write, this, [fd, data, ...rest]);
    const bytes = part(data, ...rest.slice(0, -1));
    output.text(kind(fd), bytes);
    return process.nextTick(callback, null, bytes.length, data);
  };
  fs.writeFileSync = function (file, data, ...rest) {
    const fd = file === '/dev/stdout' ? 1 : file === '/dev/stderr' ? 2 : file;
    if (!ours(fd, data)) return Reflect.apply(writeFileSync, this, [file, data, ...rest]);
    return output.text(kind(fd), part(data));
  };
}

module.exports = { install };
