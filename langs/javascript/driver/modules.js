'use strict';
// require and import in a cell: they behave as if the cell were a file in the working directory.
const process = require('node:process');
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
      return next(name, { ...context, parentURL: pathToFileURL(here()).href });
    },
    load(url, context, next) {
      if (!url.startsWith('file:') || !SOURCE.test(url) || url.includes('/node_modules/')) return next(url, context);
      return load(url, context, next);
    },
  });
}

// load handles a file that Node might not understand by itself.
function load(url, context, next) {
  const source = require('node:fs').readFileSync(fileURLToPath(url), 'utf8');
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

// importNames performs an import declaration: the imported names must exist.
async function importNames(specifier, wanted, options) {
  const loaded = await importFrom(specifier, options);
  for (const name of wanted) {
    if (!(name in loaded)) {
      throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${name}'`);
    }
  }
  return loaded;
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
  const require_ = (id) => local()(typeof id === 'string' ? id.replace(/^npm:/, '') : id);
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

module.exports = { hooks, install, importFrom, importNames, meta };
