'use strict';
// Tests that cells cannot express: broken requests, interrupts at any moment, and new randomness.
// Run it with node --test.
const assert = require('node:assert/strict');
const { test } = require('node:test');
const { start, frame } = require('./harness.js');

// random returns a generator with a seed, so that a failure can be repeated.
function random(seed) {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

test('wrong requests have an answer, and the kernel goes on', async (t) => {
  const kernel = await start(t);
  for (const request of [
    { op: 'nonsense' }, { op: null }, { op: {} }, {}, { op: 'toString' },
    { op: 'complete' }, { op: 'complete', code: 5, cursor: 'x' },
    { op: 'complete', code: 'a.b', cursor: -3 }, { op: 'complete', code: 'a', cursor: 1e9 },
    { op: 'inspect', code: null, cursor: {} }, { op: 'inspect', code: '((((', cursor: 4 },
    { op: 'is_complete' }, { op: 'is_complete', code: [] },
    { op: 'variables', extra: 1 }, { op: 'reseed', seed: 'not hex', env: 7 }, { op: 'reseed' },
    { op: 'execute' }, { op: 'execute', code: 5, cell: 'x' }, { op: 'execute', code: null, cell: -1 },
    { op: 'execute', code: {}, cell: 2 ** 40, silent: 'yes' },
  ]) {
    const { op, ...fields } = request;
    const reply = await kernel.ask(op, fields);
    assert.equal(reply.op, 'reply');
    assert.match(reply.status, /^(ok|error)$/);
  }
  for (const request of [{ op: 'input' }, { op: 'input', value: {} }, { op: 'interrupt', id: 'x' }, { op: 'comm' }]) kernel.send(request);
  kernel.write(frame(Buffer.from('no control frame'), 6));
  assert.equal((await kernel.run('6 * 7')).value, '42');
  await kernel.close();
});

test('bytes that are no request end the driver with a message', async (t) => {
  const size = Buffer.alloc(16);
  size.writeUInt32BE(9 << 20, 0);
  size[4] = 1;
  for (const [data, message] of [
    [frame(Buffer.from('{"op":')), /not JSON/],
    [frame(Buffer.from('[1]')), /not an object/],
    [frame(Buffer.from('null')), /not an object/],
    [frame(Buffer.from([0xff, 0xfe])), /not JSON/],
    [size, /9437184 bytes: the limit is 8388608/],
  ]) {
    const kernel = await start(t);
    kernel.write(data);
    await assert.rejects(kernel.until(() => false), /the driver ended/);
    assert.match(kernel.plain, message);
  }
});

test('a request comes in pieces, and many in one', async (t) => {
  const kernel = await start(t);
  const request = frame(Buffer.from(JSON.stringify({ op: 'execute', id: 900, cell: 900, code: `"${'x'.repeat(200_000)}".length` })));
  for (let at = 0; at < request.length; at += 40_000) kernel.write(request.subarray(at, at + 40_000));
  assert.equal((await kernel.until(() => kernel.replies.get(900))).status, 'ok');
  const short = (n) => JSON.stringify({ op: 'execute', id: 900 + n, cell: 900 + n, code: `console.log(${n})` });
  kernel.write(Buffer.concat([1, 2, 3].map((n) => frame(Buffer.from(short(n))))));
  await kernel.until(() => kernel.replies.get(903));
  assert.deepEqual(kernel.events.filter((e) => e.type === 'stdout').map((e) => [e.cell, e.text]), [[901, '1\n'], [902, '2\n'], [903, '3\n']]);
  await kernel.close();
});

test('what a cell prints before it blocks comes, whatever lay between it and the cell before', async (t) => {
  const kernel = await start(t);
  const request = (cell, code) => frame(Buffer.from(JSON.stringify({ op: 'execute', id: cell, cell, code })));
  // Its callbacks run between its reply and the beginning of the next cell.
  const before = `let turns = 0;
    await new Promise((resolve) => setTimeout(resolve, 50));
    setImmediate(function turn() {
      for (const end = Date.now() + 100; Date.now() < end;);
      if (++turns < 3) setImmediate(turn);
    });`;
  kernel.write(Buffer.concat([request(700, before), request(701, "console.log('go'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)")]));
  await kernel.until(() => kernel.events.find((e) => e.cell === 701 && e.type === 'stdout' && e.text === 'go\n'));
  kernel.send({ op: 'interrupt', cell: 701 });
  assert.equal((await kernel.until(() => kernel.replies.get(701))).ename, 'Interrupted');
  await kernel.close();
});

test('an interrupt at any moment hits its cell or none', async (t) => {
  const kernel = await start(t);
  const next = random(7);
  await kernel.run('let done = 0');
  const bodies = [
    'for (let i = 0; i < N; i++);',
    'await null; for (let i = 0; i < N; i++);',
    'for (let i = 0; i < N / 1e4; i++) await null;',
    'for (let i = 0; i < N / 1e5; i++) console.log(i);',
    'try { for (let i = 0; i < N; i++); } catch {} finally { }',
    'await new Promise((resolve) => setTimeout(resolve, N / 1e6));',
    'await new Promise((resolve) => setImmediate(resolve));',
    'const N2 = JSON.stringify(Array.from({ length: N / 1e4 }, (_, i) => i));',
  ];
  let finished = 0;
  let interrupted = 0;
  let took = 0; // ms for a short cell: it decides the moments of the interrupts and depends on the machine
  for (let round = 0; round < 100; round++) {
    const body = bodies[Math.floor(next() * bodies.length)].replace(/\bN\b/g, String(Math.floor(next() * 8e6)));
    const { reply } = kernel.start(`${body}\ndone++; void 0`);
    await new Promise((resolve) => setTimeout(resolve, next() * (10 + 2 * took)));
    kernel.interrupt();
    if (next() < 0.3) kernel.interrupt();
    const { status, ename, evalue } = await reply;
    if (status === 'ok') finished++;
    else {
      assert.equal(ename, 'Interrupted', `${body}: ${evalue}`);
      interrupted++;
    }
    // The next cell must never be hit.
    const begun = performance.now();
    const after = await kernel.run('let sum = 0; for (let i = 0; i < 1e5; i++) sum += i; sum');
    took = performance.now() - begun;
    assert.equal(after.value, '4999950000', `after ${body}`);
  }
  assert.ok(finished > 0 && interrupted > 0, `${finished} finished, ${interrupted} were interrupted`);
  const { value } = await kernel.run('done');
  assert.ok(Number(value) >= finished, `${value} of ${finished}`);
  // Timers, ticks and promises work as before.
  const alive = await kernel.run("await new Promise((r) => setTimeout(() => process.nextTick(() => queueMicrotask(r)), 1)); 'alive'");
  assert.equal(alive.value, "'alive'");
  await kernel.close();
});

test('an interrupt right behind its execute is not lost', async (t) => {
  const kernel = await start(t);
  const bodies = [
    'for (;;);', 'await new Promise(() => {})', 'for (;;) await null', 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
    "require('node:child_process').execSync('sleep 1000')", "for (;;) require('node:child_process').execSync('true')", 'prompt()',
  ];
  const next = random(11);
  for (let round = 0; round < 60; round++) {
    const cell = 5000 + round;
    const body = bodies[round % bodies.length];
    const request = (q) => frame(Buffer.from(JSON.stringify(q)));
    const execute = request({ op: 'execute', id: cell, cell, code: body });
    const interrupt = request({ op: 'interrupt', cell });
    if (round % 2) kernel.write(Buffer.concat([execute, interrupt]));
    else {
      kernel.write(execute);
      await new Promise((resolve) => setTimeout(resolve, next() * 5));
      kernel.write(interrupt);
    }
    const { ename } = await kernel.until(() => kernel.replies.get(cell));
    assert.equal(ename, 'Interrupted', body);
    kernel.write(interrupt); // it has ended
    assert.equal((await kernel.run('1 + 1')).value, '2', `after ${body}`);
  }
  await kernel.close();
});

test('an interrupt that comes while the driver itself is at work loses no answer', async (t) => {
  const request = (q) => frame(Buffer.from(JSON.stringify(q)));
  // The main thread stalls after one of its calls of Atomics, each in turn.
  const stalling = `let calls = Infinity;
    for (const name of ['add', 'compareExchange', 'exchange', 'store']) {
      const real = Atomics[name];
      Atomics[name] = (...args) => {
        const made = real(...args);
        if (--calls === 0) for (const end = Date.now() + 300; Date.now() < end;);
        return made;
      };
    }`;
  const orders = [
    { named: true, endless: true, order: (execute, asks, interrupt) => [execute, interrupt] },
    { named: true, endless: true, order: (execute, asks, interrupt) => [execute, ...asks, interrupt] },
    { named: false, order: (execute, asks, interrupt) => [execute, interrupt] },
    { named: false, order: (execute, asks, interrupt) => [execute, ...asks, interrupt] },
    { named: false, order: (execute, asks, interrupt) => [...asks, interrupt, execute] },
  ];
  await Promise.all(orders.map(async ({ named, endless, order }) => {
    const kernel = await start(t);
    await kernel.run(stalling);
    for (let call = 1; call <= 24; call++) {
      await kernel.run(`calls = ${call}; void 0`);
      const id = 1000 * call;
      const execute = request({ op: 'execute', id, cell: id, code: endless ? 'for (;;);' : '6 * 7' });
      const asks = ['complete', 'inspect', 'variables'].map((op, i) => request({ op, id: id + 1 + i, code: 'calls', cursor: 5 }));
      const all = order(execute, asks, request({ op: 'interrupt', cell: named ? id : undefined }));
      kernel.write(Buffer.concat(all));
      for (let i = 0; i < all.length - 1; i++) {
        const { status, ename, evalue } = await kernel.until(() => kernel.replies.get(id + i));
        if (endless && i === 0 || status !== 'ok') assert.deepEqual([i, ename], [0, 'Interrupted'], `call ${call}: ${evalue}`);
      }
    }
    await kernel.close();
  }));
});

test('an interrupt loses neither the next cell, nor a request that does not end, nor a program', async (t) => {
  const kernel = await start(t);
  const begin = (cell, code, fields) => kernel.send({ op: 'execute', id: cell, cell, code, ...fields });
  const printed = (cell) => kernel.until(() => kernel.events.find((e) => e.cell === cell && e.type === 'stdout'));
  begin(700, "console.log('begun'); for (;;) await null");
  begin(701, '6 * 7');
  await printed(700);
  kernel.send({ op: 'interrupt', cell: 700 });
  assert.equal((await kernel.until(() => kernel.replies.get(700))).ename, 'Interrupted');
  assert.equal((await kernel.until(() => kernel.replies.get(701))).status, 'ok');
  begin(702, "process.once('beforeExit', () => { console.log('leaves'); for (;;); }); void 0", { program: true });
  await printed(702);
  kernel.send({ op: 'interrupt', cell: 702 });
  assert.equal((await kernel.until(() => kernel.replies.get(702))).ename, 'Interrupted');
  await kernel.run('var endless = { get [Symbol.toStringTag]() { for (;;); } }');
  kernel.send({ op: 'variables', id: 703 });
  const again = setInterval(() => kernel.send({ op: 'interrupt' }), 100);
  assert.equal((await kernel.until(() => kernel.replies.get(703))).ename, 'Interrupted');
  clearInterval(again);
  assert.equal((await kernel.run('6 * 7')).value, '42');
  await kernel.close();
});

test('an interrupt waits until Node has changed its list of timers', async (t) => {
  const kernel = await start(t);
  // Node removes the list of 23 ms from its queue, puts the last list of the queue into its place,
  // records that place, which takes 500 ms, and then forgets the list of 23 ms.
  const { cell, reply } = kernel.start(`const timer = setTimeout(() => {}, 23);
    const socket = new (require('node:net').Socket)().setTimeout(1e6);
    const key = Object.getOwnPropertySymbols(socket).find((key) => socket[key]?._idleTimeout === 1e6);
    const place = (fields) => Object.defineProperty(socket[key]._idleNext, 'priorityQueuePosition', { configurable: true, ...fields });
    place({ get() {}, set: Atomics.wait.bind(Atomics, new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500) });
    console.log('clears');
    clearTimeout(timer);
    for (;;);`);
  await kernel.until(() => kernel.events.find((e) => e.cell === cell && e.text === 'clears\n'));
  kernel.interrupt();
  assert.equal((await reply).ename, 'Interrupted');
  const { value } = await kernel.run(`place({ value: 1, writable: true });
    await new Promise((resolve) => setTimeout(resolve, 23));
    'alive'`);
  assert.equal(value, "'alive'");
  await kernel.close();
});

test('an interrupt loses no immediate of another cell', async (t) => {
  const kernel = await start(t);
  await kernel.run(`let ran = 0;
    const later = require('node:async_hooks').AsyncResource.bind(() => setImmediate((n) => { ran += n }, 1));`);
  const { cell, reply } = kernel.start(`setImmediate(() => { console.log('stuck'); for (;;); });
    later();
    await new Promise(() => {})`);
  await kernel.until(() => kernel.events.find((e) => e.cell === cell && e.text === 'stuck\n'));
  kernel.interrupt();
  assert.equal((await reply).ename, 'Interrupted');
  const { value } = await kernel.run(`await new Promise((resolve) => setTimeout(resolve, 20));
    const before = performance.eventLoopUtilization();
    await new Promise((resolve) => setTimeout(resolve, 20));
    [ran, performance.eventLoopUtilization(before).idle > 0]`);
  assert.equal(value, '[ 1, true ]');
  await kernel.close();
});

test('no interrupt can meet Node as it loads what the globals need', async (t) => {
  const kernel = await start(t);
  const { value } = await kernel.run(`const loaded = process.moduleLoadList.length;
    for (const name of Object.getOwnPropertyNames(globalThis)) Object.getOwnPropertyDescriptor(globalThis, name);
    process.moduleLoadList.slice(loaded)`);
  assert.equal(value, '[]');
  await kernel.close();
});

test('a seed decides Math.random, and node:crypto is fresh', async (t) => {
  const [one, two] = await Promise.all([start(t), start(t)]);
  const draw = async (kernel, seed) => {
    assert.equal((await kernel.ask('reseed', { seed, env: { FRESH: seed } })).status, 'ok');
    const { value } = await kernel.run('[Math.random(), Math.random(), process.env.FRESH].join()');
    return value;
  };
  const seed = 'ab'.repeat(32);
  assert.equal(await draw(one, seed), await draw(two, seed));
  assert.notEqual(await draw(one, 'cd'.repeat(32)), await draw(two, 'ef'.repeat(32)));
  const { value } = await one.run(`let sum = 0, ok = true;
    for (let i = 0; i < 1e5; i++) { const r = Math.random(); ok &&= r >= 0 && r < 1; sum += r }
    [ok, Math.abs(sum / 1e5 - 0.5) < 0.01]`);
  assert.equal(value, '[ true, true ]');
  await Promise.all([one.close(), two.close()]);
});

test('the driver ends with its requests', async (t) => {
  const kernel = await start(t);
  const { reply } = kernel.start('for (;;);');
  await Promise.all([assert.rejects(reply, /the driver ended/), kernel.close()]);
});
