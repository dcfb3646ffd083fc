'use strict';
// Lets the controller end the running code at a moment that leaves Node as it is. The controller
// evaluates stop() in this thread. V8 does that where it would also end the code: at the beginning
// of a function or in a loop. If Node's own code runs there, it may have begun a change, such as a
// list of timers that has no place in the queue yet: no timer of that list would ever fire.
const { getCallSites } = require('node:util');
const { performance } = require('node:perf_hooks');
const shared = require('./shared.js');

const OWN = 2; // frames: stop and the expression that calls it
const DEPTH = 16; // frames that are read
const TIMERS = require.resolve('./timers.js'); // it records a timer after Node has made it
// Scripts of Node with lists that all cells share.
const LISTS = /^node:(internal\/)?(timers$|priority_queue$|modules\/|bootstrap\/)/;
const lists = ({ scriptName }) => LISTS.test(scriptName);
// A call that waits for a child. The cell must not continue when the child is killed.
const waits = ({ scriptName, functionName }) => /child_process$/.test(scriptName) && /Sync$/.test(functionName);
const LIMIT = 500; // ms for which the code stands still at most
const { STOPPED } = shared;

// User code could replace these.
const { load, store, compareExchange } = Atomics;
const now = performance.now.bind(performance);

// stopping returns the function stop.
function stopping(memory) {
  const words = shared.words(memory);

  // stop lets the code stand still until the controller has requested its end: V8 then ends it at
  // its next function or round of a loop. It returns 'ends', or why it does not: 'node' if code of
  // Node runs that must not end, 'late' if the controller did not come. If it is hurried, code of
  // Node that has no such lists may end.
  return function stop(number, hurried) {
    const frames = getCallSites(OWN + DEPTH).slice(OWN);
    // The name of a cell's script is empty.
    const user = frames.findIndex(({ scriptName }) => !scriptName.startsWith('node:') && scriptName !== TIMERS);
    const nodes = user < 0 ? frames : frames.slice(0, user);
    const ends = nodes.length === 0 || nodes.some(waits) || hurried && !nodes.some(lists);
    if (!ends) return 'node';
    store(words, STOPPED, number);
    // Not with Atomics.wait: the running code may be in a call of it, and V8 cannot wait twice.
    for (const end = now() + LIMIT; load(words, STOPPED) !== 0; ) {
      if (now() >= end && compareExchange(words, STOPPED, number, 0) === number) return 'late';
    }
    return 'ends';
  };
}

module.exports = { stopping };
