'use strict';
// Lines such as !ls -l run a command of the shell. !name is JavaScript too: a line is a command if
// no such name is known, or if it cannot be JavaScript.
const processes = require('node:child_process');
const { parse } = require('./rewrite.js');

const LINE = /^([ \t]*)![ \t]*([A-Za-z_][\w-]*|[./~]\S*)([^\n]*)$/gm;
const WORDS = new Set(['typeof', 'void', 'delete', 'await', 'new', 'function', 'class', 'async', 'this', 'super', 'import',
  'true', 'false', 'null', 'undefined']);

// commands replaces the lines that are commands. Other lines and their numbers stay.
function commands(source, names) {
  if (!source.includes('!')) return source;
  return source.replace(LINE, (line, indent, word, rest, at) => {
    if (!isCommand(source, line, word, at, names)) return line;
    return `${indent}$sandgate.shell(${JSON.stringify(`${word}${rest}`.trim())});`;
  });
}

function isCommand(source, line, word, at, names) {
  const before = source.slice(0, at);
  if (!isProgram(before.replace(LINE, ';'))) return false; // in a string, a comment or an expression
  if (!/^[A-Za-z_$][\w$]*$/.test(word) || !isProgram(line)) return true;
  return !WORDS.has(word) && !(word in globalThis) && names.kept(word) === undefined && !names.constants.has(word) &&
    !new RegExp(`\\b(let|const|var|function|class|import)\\b[^;\\n]*\\b${word}\\b`).test(source);
}

function isProgram(code) {
  try {
    parse(code);
    return true;
  } catch {
    return false;
  }
}

// shell runs a command with the cell's output. The value is undefined.
function shell(command) {
  processes.spawnSync('/bin/bash', ['-c', command], { stdio: ['ignore', 'inherit', 'inherit'] });
}

module.exports = { commands, shell };
