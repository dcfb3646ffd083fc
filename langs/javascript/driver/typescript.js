'use strict';
// TypeScript to JavaScript. Node strips types, which keeps every position. Node transforms enums,
// namespaces and parameter properties. esbuild, a separate program, transforms decorators,
// accessors and JSX.
const { stripTypeScriptTypes } = require('node:module');
const { spawnSync } = require('node:child_process');
const path = require('node:path');

const ESBUILD = path.join(__dirname, 'esbuild');
const LIMIT = 10_000; // ms that esbuild may take

// strip returns {code, map} or throws a SyntaxError with line and column,
// both from 1.
function strip(source) {
  try {
    return { code: stripTypeScriptTypes(source, { mode: 'strip' }), map: null };
  } catch (error) {
    if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw located(error);
  }
  try {
    return unpack(stripTypeScriptTypes(source, { mode: 'transform', sourceMap: true, sourceUrl: 'cell' }));
  } catch (error) {
    throw located(error);
  }
}

// unpack separates code from the source map at its end.
function unpack(text) {
  const at = text.lastIndexOf('\n//# sourceMappingURL=');
  if (at < 0) return { code: text, map: null };
  const data = text.slice(text.indexOf('base64,', at) + 7);
  return { code: text.slice(0, at), map: JSON.parse(Buffer.from(data, 'base64').toString()) };
}

// located adds the position in the stack to an error of Node's parser.
function located(error) {
  const lines = String(error.stack).split('\n');
  const mark = lines.findIndex((l) => /^\s*\^+\s*$/.test(l));
  const line = Number(/^.*:(\d+)$/.exec(lines[0])?.[1] ?? 1);
  const column = mark > 0 ? lines[mark].indexOf('^') + 1 : Infinity; // at the end of the line
  return Object.assign(new SyntaxError(error.message), { line, column });
}

// legacy reports whether decorators are written as in TypeScript before version 5, with (target,
// key, descriptor).
const OLD = /\bPropertyDescriptor\b|\bdescriptor\b|\bpropertyKey\b|@(Injectable|Component|Entity|Controller|Module)\b/;
const STANDARD = /\bClass\w*DecoratorContext\b|\bcontext\.(name|kind|addInitializer)\b/;
const legacy = (source) => OLD.test(source) && !STANDARD.test(source);

// REACT matches a declaration of the name React, or a setting of JSX. Types such as React.ReactNode
// need no such name.
const REACT = /\b(import\s+(\*\s+as\s+)?|const\s+|let\s+|var\s+)React\b|@jsx\b/;

// build is like strip, but uses esbuild. JSX imports React's own functions, unless the source has a
// name for them, or own says that there is such a name.
function build(source, own = false) {
  const old = legacy(source);
  const automatic = !own && !REACT.test(source);
  const config = { compilerOptions: { experimentalDecorators: old, useDefineForClassFields: !old, preserveValueImports: true } };
  const run = spawnSync(ESBUILD, [
    `--loader=${/<\/|\/>/.test(source) ? 'tsx' : 'ts'}`,
    `--tsconfig-raw=${JSON.stringify(config)}`,
    `--jsx=${automatic ? 'automatic' : 'transform'}`,
    '--target=es2024',
    '--supported:decorators=false',
    '--supported:top-level-await=true',
    '--sourcemap=inline',
    '--sourcefile=cell',
    '--log-level=error',
    '--log-limit=1',
  ], { input: source, timeout: LIMIT, maxBuffer: 64 << 20, encoding: 'utf8' });
  if (run.error) throw run.error;
  if (run.status !== 0) {
    const [, message, line, column] = /\[ERROR\] (.*)\n\n\s+\S+?:(\d+):(\d+):/.exec(run.stderr) ?? [null, run.stderr.trim(), 1, 0];
    throw Object.assign(new SyntaxError(message), { line: Number(line), column: Number(column) + 1 });
  }
  return unpack(run.stdout.trimEnd());
}

module.exports = { strip, build };
