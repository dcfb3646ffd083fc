'use strict';
// The processes below this one, as /proc tells.
const fs = require('node:fs');

// descendants returns the ids of all processes below pid.
function descendants(pid) {
  const children = new Map();
  for (const name of fs.readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = fs.readFileSync(`/proc/${name}/stat`, 'latin1');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
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

// kill sends a signal to all processes below pid.
function kill(pid, signal) {
  for (const child of descendants(pid)) {
    try {
      process.kill(child, signal);
    } catch {
      // It has ended meanwhile.
    }
  }
}

module.exports = { kill };
