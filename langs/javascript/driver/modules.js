'use strict';
// require and import in a cell: they behave as if the cell were a file in the working directory.
const process = require('node:process');
const fs = require('node:fs');
const module_ = require('node:module');
const path = require('node:path');
const { pathToFileURL, fileURLToPath } = require('node:url');
const typescript = require('./typescript.js');

const FILE = 'cell.js';
const FROM_CELL = 'sandgate-cell:';
const SOURCE = /\.(?:[mc]?ts|tsx|jsx)$/;

const here = () => path.join(process.cwd(), FILE);

// hooks lets cells import from the working directory, and all code import TypeScript with enums and
// decorators.
function hooks() {
  module_.registerHooks({
    resolve(specifier, context, next) {
      if (!specifier.startsWith(FROM_CELL)) return next(specifier, context);
      const name = specifier.slice(FROM_CELL.length).replace(/^npm:((?:@[^/@]+\/)?[^/@]+)(?:@[^/]+)?/, '$1');
      const found = next(name, { ...context, parentURL: pathToFileURL(here()).href });
      return { ...found, url: renewed(found.url) };
    },
    load(url, context, next) {
      if (!url.startsWith('file:') || !SOURCE.test(url.replace(/[?#].*$/, '')) || url.includes('/node_modules/')) return next(url, context);
      return load(url, context, next);
    },
  });
}

const stamps = new Map(); // of the files that cells have imported: what they were then

// stamp describes the content of a file without reading it; null if there is no such file.
function stamp(file) {
  const about = fs.statSync(file, { throwIfNoEntry: false });
  return about?.isFile() ? `${about.mtimeMs}-${about.size}` : null;
}

// renewed returns the URL under which a cell imports a file. A file that has changed since a cell
// imported it gets another URL, so that it is loaded again.
function renewed(url) {
  if (!url.startsWith('file:') || url.includes('?') || url.includes('/node_modules/')) return url;
  const now = stamp(fileURLToPath(url));
  if (!stamps.has(url)) stamps.set(url, now);
  return now === null || stamps.get(url) === now ? url : `${url}?changed=${now}`;
}

const required = new Map(); // the same for require

// forget removes a changed file from the cache of require.
function forget(file) {
  if (!path.isAbsolute(file) || file.includes('/node_modules/')) return;
  const now = stamp(file);
  if (required.has(file) && required.get(file) !== now) delete module_._cache[file];
  required.set(file, now);
}

// load handles a file that Node might not understand by itself.
function load(url, context, next) {
  const source = fs.readFileSync(fileURLToPath(url), 'utf8');
  url = url.replace(/[?#].*$/, '');
  const needs = /\.[jt]sx$/.test(url) || /^\s*@[\w$]|[\s(]@[\w$]+(\.[\w$]+)*(\(|\s)|\baccessor\s/m.test(source);
  let code;
  try {
    code = needs ? typescript.build(source, !/^\s*(import|export)\b/m.test(source)).code : typescript.strip(source).code;
  } catch (error) {
    error.message += ` (${fileURLToPath(url)}:${error.line}:${error.column})`;
    throw error;
  }
  const cjs = url.endsWith('.cts') || context.format?.startsWith('commonjs') ||
    (!url.endsWith('.mts') && !/^\s*(import|export)\b/m.test(code) && /\brequire\s*\(|\bmodule\.exports\b/.test(code));
  return { format: cjs ? 'commonjs' : 'module', source: code, shortCircuit: true };
}

// importFrom is import() for a cell.
function importFrom(specifier, options) {
  return import(FROM_CELL + specifier, options);
}

// importNames performs an import declaration: the imported names must exist. A package without a
// default export is its own: code that was written for an older version imports it so.
async function importNames(specifier, wanted, options) {
  const loaded = await importTyped(specifier, wanted, options);
  for (const name of wanted) {
    if (!(name in loaded)) {
      throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${name}'`);
    }
  }
  return loaded;
}

// importTyped is the same for TypeScript: a name that does not exist may be that of a type.
async function importTyped(specifier, wanted, options) {
  const loaded = await importFrom(specifier, options);
  const whole = wanted.includes('default') && !('default' in loaded) && /^[\w@]/.test(specifier) && !/^(node|file|data):/.test(specifier);
  return whole ? { __proto__: loaded, default: loaded } : loaded;
}

function attempt(get) {
  try {
    return get();
  } catch {
    return undefined;
  }
}

// install gives cells the names of a CommonJS file.
function install() {
  hooks();
  const made = new Map(); // sorted by working directory
  const local = () => {
    const file = here();
    if (!made.has(file)) made.set(file, module_.createRequire(file));
    return made.get(file);
  };
  const require_ = (id) => {
    if (typeof id !== 'string') return local()(id);
    if (/^[./]/.test(id)) forget(attempt(() => local().resolve(id)) ?? '');
    return local()(id.replace(/^npm:/, ''));
  };
  const main = new module_.Module(here(), null);
  main.filename = here();
  main.paths = module_.Module._nodeModulePaths(process.cwd());
  main.loaded = true;
  main.id = '.';
  Object.defineProperties(require_, {
    name: { value: 'require' },
    resolve: { get: () => local().resolve, enumerable: true },
    cache: { get: () => module_._cache, enumerable: true },
    extensions: { get: () => module_._extensions, enumerable: true },
    main: { value: main, writable: true, enumerable: true },
  });
  main.require = require_;
  const define = (name, descriptor) => Object.defineProperty(globalThis, name, { configurable: true, enumerable: false, ...descriptor });
  define('require', { value: require_, writable: true });
  define('module', { value: main, writable: true });
  define('exports', { value: main.exports, writable: true });
  for (const [name, get] of [['__filename', here], ['__dirname', () => process.cwd()]]) {
    define(name, { get, set: (value) => define(name, { value, writable: true }) });
  }
}

// meta is import.meta of a cell.
const meta = {
  get url() { return pathToFileURL(here()).href; },
  get filename() { return here(); },
  get dirname() { return process.cwd(); },
  main: true,
  resolve: (specifier) => pathToFileURL(module_.createRequire(here()).resolve(specifier)).href,
};

module.exports = { hooks, install, importFrom, importNames, importTyped, meta };
