'use strict';
// The processes below this one, as /proc lists them.
const fs = require('node:fs');

const TICK = 10; // ms: the unit of a process's start time in /proc, rounded down
const ROUNDED = TICK / 2; // ms: gVisor rounds its clock to the same unit

// uptime returns the machine's clock that start times refer to, in ms.
function uptime() {
  return Number(fs.readFileSync('/proc/uptime', 'latin1').split(' ')[0]) * 1000;
}

// descendants returns the ids of the processes below pid that began at the time since or later,
// without processes that older ones have started.
function descendants(pid, since) {
  const children = new Map();
  for (const name of fs.readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = fs.readFileSync(`/proc/${name}/stat`, 'latin1');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (Number(fields[19]) * TICK < since - TICK - ROUNDED) continue;
      const parent = Number(fields[1]);
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(Number(name));
    } catch {
      // It has ended meanwhile.
    }
  }
  const found = [];
  for (let todo = [pid]; todo.length > 0; ) {
    const own = children.get(todo.pop()) ?? [];
    found.push(...own);
    todo.push(...own);
  }
  return found;
}

// kill sends a signal to the processes that pid has started within the last age ms.
function kill(pid, signal, age) {
  for (const child of descendants(pid, uptime() - age)) {
    try {
      process.kill(child, signal);
    } catch {
      // It has ended meanwhile.
    }
  }
}

module.exports = { kill };
