'use strict';
// After a restore: renews everything that must differ between sandboxes of one snapshot.
const process = require('node:process');
const path = require('node:path');
const crypto = require('node:crypto');

// The numbers of values that node:crypto keeps ready: UUIDs, and blocks of 6 bytes for randomInt.
const KEPT_UUIDS = 128;
const KEPT_INTS = 1024;

// reseed renews randomness and sets the environment.
function reseed({ env, seed }) {
  // Each load of this module makes OpenSSL read randomness from the system.
  process.dlopen({ exports: {} }, path.join(__dirname, 'reseed.node'));
  for (let i = 0; i < KEPT_UUIDS; i++) crypto.randomUUID();
  for (let i = 0; i < KEPT_INTS; i++) crypto.randomInt(2);
  const bytes = /^[0-9a-f]{32,}$/i.test(seed) ? Buffer.from(seed, 'hex') : crypto.randomBytes(32);
  const value = generator(bytes);
  Object.defineProperty(Math, 'random', { value, writable: true, configurable: true, enumerable: false });
  for (const [name, text] of Object.entries(env ?? {})) process.env[name] = String(text);
  // Node looks for a proxy only when it starts, and this process started long ago.
  if (env?.NODE_USE_ENV_PROXY === '1') require('node:http').setGlobalProxyFromEnv?.();
  return {};
}

// generator returns a Math.random, because V8's own cannot be seeded. It is sfc32, called twice for
// 53 bits, and as fast as V8's.
function generator(seed) {
  let [a, b, c, d] = [0, 4, 8, 12].map((at) => seed.readInt32LE(at));
  function next() {
    const sum = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }
  for (let i = 0; i < 16; i++) next();
  function random() {
    return ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992;
  }
  return random;
}

module.exports = { reseed };
