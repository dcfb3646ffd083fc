'use strict';
// Child processes: earlier output of the cell comes before the output of a child.
const processes = require('node:child_process');

const STREAMS = [1, 2];

// shares reports whether a child with these stdio options uses our descriptor 1 or 2.
function shares(stdio) {
  if (stdio === 'inherit') return true;
  if (!Array.isArray(stdio)) return false;
  return stdio.some((entry, i) => {
    if (entry === 'inherit') return STREAMS.includes(i);
    const fd = typeof entry === 'number' ? entry : entry?.fd;
    return STREAMS.includes(fd);
  });
}

function install(output) {
  const { spawn } = processes.ChildProcess.prototype;
  processes.ChildProcess.prototype.spawn = function (options) {
    output.beforeChild();
    const shared = shares(options?.stdio);
    if (shared) {
      output.childPrints();
      let ended = false;
      const end = () => {
        if (!ended) output.childEnded();
        ended = true;
      };
      this.once('exit', end);
      this.once('error', end);
    }
    return Reflect.apply(spawn, this, [options]);
  };
  for (const name of ['spawnSync', 'execFileSync', 'execSync']) {
    const real = processes[name];
    const call = function (...args) {
      output.beforeChild();
      const shared = args.some((a) => shares(a?.stdio));
      if (shared) output.childPrints();
      try {
        return Reflect.apply(real, this, args);
      } finally {
        if (shared) output.childEnded();
      }
    };
    Object.defineProperty(call, 'name', { value: name });
    processes[name] = call;
  }
}

module.exports = { install };
