'use strict';
// From a cell's text to a script for V8. The text is parsed as JavaScript first, and then as
// TypeScript. If both fail, the error of the parser that got further is reported.
const { parse, asObject, rewrite } = require('./rewrite.js');
const { Origin } = require('./positions.js');
const typescript = require('./typescript.js');
const { commands } = require('./shell.js');

// Calls like identity<string>(x) are comparisons in JavaScript.
const ARGUMENTS = /[\w$\]]<[\w$\s,.|&[\]{}'":;?]*>\(/;
const MODULE = /^\s*(import|export)\b(?!\s*\()/m;

// compile returns {name, code, origin, declared, module}; the last one reports whether only a module
// of ECMAScript may have its statements. If V8 has to report the error in the source,
// declared is null. Otherwise a SyntaxError with line and column, both from 1, is thrown.
function compile(text, number, names) {
  const source = commands(text, names);
  let { script, map, tree, ts } = understand(source, names);
  const name = `cell_${number}.${ts ? 'ts' : 'js'}`;
  if (!tree) return { name, code: source, origin: new Origin({ name, source }), declared: null };
  if (tree.object) {
    // Removing a space moves the column by one: the parenthesis replaces a blank before it, or
    // shifts the first line by one.
    const { from, to } = tree.object;
    const code = `(${script.slice(from, to)})`;
    tree = parse(code);
    const kept = [[1, from, to - from]];
    const result = rewrite(code, tree, names);
    const pieces = result.kept ? result.kept.map(([a, b, n]) => [a, b + from - 1, n]) : kept;
    return { name, code: result.code, declared: result.declared, origin: new Origin({ name, source, script, map, code: result.code, kept: pieces }) };
  }
  const { code, kept, declared } = rewrite(script, tree, names, ts);
  const module = tree.body.some((node) => /^(Im|Ex)port/.test(node.type));
  return { name, code, declared, module, origin: new Origin({ name, source, script, map, code, kept }) };
}

// understand returns {script, map, tree, ts}: the source as JavaScript with its syntax tree. If
// there is no tree, V8 has to report the error.
function understand(source, names) {
  const object = asObject(source);
  if (object) return { script: source, map: null, tree: { object }, ts: false };
  let failure;
  try {
    const tree = parse(source);
    if (!ARGUMENTS.test(source)) return { script: source, map: null, tree, ts: false };
    const stripped = tryStrip(source);
    if (!stripped || stripped.code === source) return { script: source, map: null, tree, ts: false };
    return { script: stripped.code, map: stripped.map, tree: parse(stripped.code), ts: true };
  } catch (error) {
    failure = error;
  }
  let failed;
  let stripped;
  try {
    stripped = typescript.strip(source);
    return { script: stripped.code, map: stripped.map, tree: parse(stripped.code), ts: true };
  } catch (error) {
    failed = error;
  }
  if (/@|accessor|<\/|\/>/.test(source)) {
    try {
      const built = typescript.build(source, names.list().includes('React'));
      return { script: built.code, map: built.map, tree: parse(built.code), ts: true };
    } catch (error) {
      // Only esbuild knows this syntax, so its error counts if it was called.
      if (error.line && stripped) failed = error;
    }
  }
  const js = failure.loc ? [failure.loc.line, failure.loc.column + 1] : [1, 1];
  const ours = failed.line ? [failed.line, failed.column] : [0, 0];
  if (ours[0] > js[0] || (ours[0] === js[0] && ours[1] > js[1])) throw failed;
  if (MODULE.test(source)) {
    const message = failure.message.replace(/ \(\d+:\d+\)$/, '');
    throw Object.assign(new SyntaxError(message), { line: js[0], column: js[1] });
  }
  return { script: source, map: null, tree: null, ts: false };
}

function tryStrip(source) {
  try {
    return typescript.strip(source);
  } catch {
    return null;
  }
}

// completeness returns complete, incomplete or invalid.
function completeness(text, names) {
  const source = commands(text, names);
  if (asObject(source)) return 'complete';
  let js;
  try {
    parse(source);
    return 'complete';
  } catch (error) {
    js = error;
  }
  const open = js.pos >= source.trimEnd().length || /^Unterminated (template|comment)/.test(js.message);
  if (open) return 'incomplete';
  try {
    typescript.strip(source);
    return 'complete';
  } catch (error) {
    if (/<eof>'$|Unexpected eof|Unterminated (template|block comment)/.test(error.message)) return 'incomplete';
  }
  return 'invalid';
}

module.exports = { compile, completeness };
