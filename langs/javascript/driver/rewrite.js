'use strict';
// Converts a cell to code that V8's REPL mode accepts. REPL mode has no modules, does not allow a
// name to change between let, const, var and function, and forgets a promise that nothing else
// refers to. So the top level of a cell changes as follows:
//
//	import a, {b} from 'm'       a let with await $sandgate.import('m'), moved to the top
//	import(), import.meta        $sandgate.import(), $sandgate.meta
//	export                       is left out
//	await p                      await $sandgate.hold(p), likewise each step of for await
//	const                        let; an assignment to such a name throws as JavaScript does
//	let, class, var, function    assignments, if the name is already of the other kind
//	using                        let; the value is disposed of at the end of the cell
//	{ a: 1 }                     ({ a: 1 })
//	a declaration or loop at     void 0 after it: the values of earlier statements are not
//	the end                      the cell's
//	a name of Node, declared     another name: every module sees a script's declarations, and
//	                             fetch would not work with a setTimeout that returns promises
const acorn = require('./acorn.js');
const { Edits } = require('./positions.js');
const { FUNCTION, children, names, vars, assignments, references } = require('./scope.js');

const OPTIONS = {
  ecmaVersion: 'latest',
  sourceType: 'script',
  allowImportExportEverywhere: true,
  allowAwaitOutsideFunction: true,
  allowHashBang: true,
};

// using may stand at the top level of a cell.
const Parser = acorn.Parser.extend((Base) => class extends Base {
  get allowUsing() {
    return super.allowUsing || this.currentScope() === this.scopeStack[0];
  }
});

// parse returns the syntax tree of a cell, or throws acorn's SyntaxError.
function parse(code) {
  return Parser.parse(code, OPTIONS);
}

// asObject returns code in parentheses if it is an object literal, else null.
function asObject(code) {
  const text = code.trim();
  if (text[0] !== '{' || text.length > 1 << 20 || !/\}[\s;]*$/.test(text)) return null;
  const from = code.indexOf('{');
  const to = code.lastIndexOf('}') + 1;
  try {
    const node = acorn.parseExpressionAt(code.slice(0, to), from, OPTIONS);
    if (node.type !== 'ObjectExpression' || node.end !== to) return null;
  } catch {
    return null;
  }
  return { from, to };
}

const MARK = 'sandgate$';

// Names has the session's declarations: how V8 keeps a name, which cannot change, and whether the
// latest declaration is const.
class Names {
  #taken; // names that cannot be declared unchanged
  #inside = new Map(); // declared ones of these names, and V8's names for them
  #kept = new Map(); // lexical or global
  #constant = new Set();
  #own = new Set();

  constructor(taken) {
    this.#taken = new Set(taken);
  }

  // inside returns V8's name for a user's name, if the cell that uses it declares it or an earlier
  // cell has.
  inside(name, declares = false) {
    return this.#inside.get(name) ?? (declares && this.#taken.has(name) ? `${MARK}${name}` : name);
  }

  // outside returns the user's name for one of V8's.
  outside(name) {
    return name.startsWith(MARK) ? name.slice(MARK.length) : name;
  }

  get changed() {
    return this.#inside.keys();
  }

  kept(name) {
    return this.#kept.get(name);
  }

  get constants() {
    return this.#constant;
  }

  // list returns the user's names, without those of silent cells.
  list() {
    return [...this.#own];
  }

  hidden(name) {
    return this.#kept.has(name) && !this.#own.has(name);
  }

  // add records the declarations of a cell that V8 has accepted.
  add(declared, silent) {
    for (const [name, { kind, constant }] of declared) {
      if (!this.#kept.has(name)) this.#kept.set(name, kind);
      if (this.#taken.has(name)) this.#inside.set(name, `${MARK}${name}`);
      if (!silent) this.#own.add(name);
      if (constant) this.#constant.add(name);
      else this.#constant.delete(name);
    }
  }
}

// rewrite returns {code, kept, declared} for a cell. If nothing changes, code is the source and
// kept is undefined. In TypeScript a name may be imported only for its type, so it need not exist.
function rewrite(source, tree, session, typescript = false) {
  const cell = new Rewriting(source, tree, session, typescript);
  return cell.run();
}

class Rewriting {
  #source;
  #tree;
  #session;
  #typescript;
  #edits;
  #declared = new Map(); // name → {kind, constant}
  #needed = new Set(); // names that must be declared before they are assigned
  #handled = new Set(); // positions of identifiers that need no other name

  constructor(source, tree, session, typescript) {
    this.#source = source;
    this.#tree = tree;
    this.#session = session;
    this.#typescript = typescript;
    this.#edits = new Edits(source);
  }

  run() {
    for (const node of this.#tree.body) this.#statement(node);
    vars(this.#tree, (node, parent, key) => this.#var(node, parent, key));
    this.#constants();
    this.#rename();
    if (/\b(await|import)\b/.test(this.#source)) children(this.#tree, (node) => this.#inner(node, false));
    this.#withoutValue();
    if (this.#needed.size > 0) this.#edits.veryFirst(`let ${[...this.#needed].map((name) => this.#inside(name)).join(', ')};`);
    const result = this.#edits.empty ? { code: this.#source } : this.#edits.apply();
    return { ...result, declared: this.#declared };
  }

  // #withoutValue keeps a cell whose last statement is no expression from having the value of an
  // earlier one. Functions, imports and var without a value are moved to the top, and do not count.
  #withoutValue() {
    const moved = ({ type, kind, declaration, declarations, specifiers }) => /^(Empty|Debugger)Statement$|^FunctionDeclaration$|^ImportDeclaration$|^ExportAll/.test(type) ||
      declaration?.type === 'FunctionDeclaration' || (specifiers && !declaration) || (kind === 'var' && declarations.every((d) => !d.init));
    const last = this.#tree.body.findLast((node) => !moved(node));
    let node = last?.declaration ?? last;
    while (node?.type === 'LabeledStatement') node = node.body;
    if (/^(Variable|Class)Declaration$|^(For|While|DoWhile)/.test(node?.type)) this.#edits.last('\n;void 0;');
  }

  #inside(name) {
    return this.#session.inside(name, this.#declared.has(name));
  }

  #declare(name, kind, constant = false) {
    this.#declared.set(name, { kind: this.#session.kept(name) ?? kind, constant });
  }

  // #conflict reports whether V8 keeps one of the names as the other kind.
  #conflict(list, kind) {
    return list.some((name) => (this.#session.kept(name) ?? kind) !== kind);
  }

  #statement(node) {
    switch (node.type) {
      case 'ImportDeclaration':
        return this.#import(node);
      case 'ExportAllDeclaration':
        return this.#edits.replace(node.start, node.end, `await $sandgate.hold($sandgate.import(${node.source.raw}));`);
      case 'ExportNamedDeclaration':
        if (!node.declaration) return this.#edits.blank(node.start, node.end);
        this.#edits.blank(node.start, node.declaration.start);
        return this.#statement(node.declaration);
      case 'ExportDefaultDeclaration':
        this.#edits.blank(node.start, node.declaration.start);
        if (node.declaration.id) this.#statement(node.declaration);
        else if (/^(Function|Class)Declaration$|^ObjectExpression$/.test(node.declaration.type)) {
          this.#edits.wrap(node.declaration, '(', ')');
        }
        return;
      case 'VariableDeclaration':
        if (node.kind !== 'var') this.#lexical(node);
        return;
      case 'ClassDeclaration':
        this.#declare(node.id.name, 'lexical');
        if (this.#conflict([node.id.name], 'lexical') || this.#renamed(node)) {
          this.#edits.wrap(node, `void (${this.#inside(node.id.name)} = `, ');');
        }
        return;
      case 'FunctionDeclaration':
        this.#declare(node.id.name, 'global');
        if (this.#conflict([node.id.name], 'global') || this.#renamed(node)) {
          this.#edits.hoist(node, `void (${this.#inside(node.id.name)} = `, ');');
        }
    }
  }

  // #renamed reports whether V8 has another name for a function or class. As an expression it keeps
  // its own name.
  #renamed({ id }) {
    const { name } = id;
    if (this.#inside(name) === name) return false;
    if (!this.#session.kept(name)) {
      this.#needed.add(name);
      this.#declared.get(name).kind = 'lexical';
    }
    this.#handled.add(id.start);
    return true;
  }

  // #rename replaces names by V8's names for them.
  #rename() {
    const wanted = new Set([...this.#session.changed, ...this.#declared.keys()].filter((name) => this.#inside(name) !== name));
    if (wanted.size === 0) return;
    references(this.#tree, wanted, (id, shorthand) => {
      if (this.#handled.has(id.start)) return;
      if (shorthand) this.#edits.insert(id.end, `: ${this.#inside(id.name)}`);
      else this.#edits.replace(id.start, id.end, this.#inside(id.name));
    });
  }

  // #lexical handles let, const and using at the top level.
  #lexical(node) {
    const list = [];
    for (const d of node.declarations) names(d.id, (name) => list.push(name));
    const using = /using$/.test(node.kind);
    for (const name of list) this.#declare(name, 'lexical', node.kind === 'const' || using);
    if (using) {
      for (const d of node.declarations) {
        this.#edits.wrap(d.init, '$sandgate.using(', node.kind === 'using' ? ')' : ', true)');
      }
    }
    if (this.#conflict(list, 'lexical')) this.#assign(node, list, true);
    else if (node.kind === 'const') this.#edits.replace(node.start, node.start + 5, 'let  ');
    else if (using) this.#edits.replace(node.start, node.declarations[0].start, 'let ');
  }

  // #var handles var, anywhere in the cell's own scope.
  #var(node, parent, key) {
    const list = [];
    for (const d of node.declarations) names(d.id, (name) => list.push(name));
    const top = parent.type === 'Program';
    for (const name of list) this.#declare(name, 'global');
    if (!this.#conflict(list, 'global')) return;
    const loop = (key === 'left' || key === 'init') && /^For/.test(parent.type);
    this.#assign(node, list, top || !loop, key === 'left' && loop);
  }

  // #assign converts a declaration to assignments.
  #assign(node, list, statement, target = false) {
    for (const name of list) if (!this.#session.kept(name)) {
      this.#needed.add(name);
      this.#declared.get(name).kind = 'lexical';
    }
    const first = node.declarations[0];
    this.#edits.replace(node.start, first.start, target ? '' : '(');
    if (target) return;
    for (const d of node.declarations) {
      if (d.init) continue;
      if (node.kind === 'var') this.#edits.replace(d.start, d.end, '0');
      else this.#edits.wrap(d, '', ' = undefined');
    }
    const all = { start: node.start, end: node.declarations.at(-1).end };
    this.#edits.wrap(all, '', statement ? ', undefined);' : ')');
  }

  #import(node) {
    const attributes = node.attributes?.length
      ? `, {with: {${node.attributes.map((a) => `${a.key.raw ?? JSON.stringify(a.key.name)}: ${a.value.raw}`)}}}`
      : '';
    const asked = [];
    let whole = '';
    const list = [];
    for (const s of node.specifiers) {
      list.push(s.local.name);
      if (s.type === 'ImportNamespaceSpecifier') whole = s.local.name;
      else if (s.type === 'ImportDefaultSpecifier') asked.push(['"default"', s.local.name]);
      else asked.push([s.imported.raw ?? JSON.stringify(s.imported.name), s.local.name]);
    }
    for (const name of list) {
      this.#declare(name, 'lexical', true);
      if (!this.#session.kept(name)) this.#needed.add(name);
    }
    const wanted = `[${asked.map(([imported]) => imported)}]`;
    const load = this.#typescript ? '$sandgate.typed' : '$sandgate.module';
    const module = `await $sandgate.hold(${load}(${node.source.raw}, ${wanted}${attributes}))`;
    const pattern = asked.map(([imported, local]) => `${imported}: ${this.#inside(local)}`);
    if (whole) whole = this.#inside(whole);
    // void, because an import has no value.
    if (whole) this.#edits.first(`void (${whole} = ${module});${asked.length ? `void ({${pattern}} = ${whole});` : ''}`);
    else if (asked.length) this.#edits.first(`void ({${pattern}} = ${module});`);
    else this.#edits.first(`void ${module};`);
    this.#edits.blank(node.start, node.end);
    this.#edits.insert(node.end, ';');
  }

  // #constants makes assignments to constants throw.
  #constants() {
    const wanted = new Set(this.#session.constants);
    for (const [name, { constant }] of this.#declared) {
      if (constant) wanted.add(name);
      else wanted.delete(name);
    }
    if (wanted.size === 0) return;
    assignments(this.#tree, wanted, (id, node, how) => {
      const target = `$sandgate.constants.${id.name}`;
      this.#handled.add(id.start);
      if (how === 'shorthand') this.#edits.insert(id.end, `: ${target}`);
      else if (how === 'logical') {
        this.#edits.replace(id.start, node.right.start, `(${this.#inside(id.name)} ${node.operator.slice(0, -1)} (${target} = `);
        this.#edits.wrap(node.right, '', '))');
      } else this.#edits.replace(id.start, id.end, target);
    });
  }

  // #inner handles await, import() and import.meta, at any depth.
  #inner(node, inFunction) {
    switch (node.type) {
      case 'ImportDeclaration':
        return;
      case 'ImportExpression':
        this.#edits.replace(node.start, node.start + 6, '$sandgate.import');
        break;
      case 'MetaProperty':
        if (node.meta.name === 'import') this.#edits.replace(node.start, node.end, '$sandgate.meta');
        return;
      case 'AwaitExpression':
        if (inFunction) break;
        this.#edits.wrap(node.argument, '$sandgate.hold(', ')');
        break;
      case 'ForOfStatement':
        if (inFunction || !node.await) break;
        this.#edits.wrap(node.right, '$sandgate.holdEach(', ')');
    }
    const below = inFunction || FUNCTION.test(node.type) || /^(StaticBlock|PropertyDefinition)$/.test(node.type);
    children(node, (child) => this.#inner(child, below));
  }
}

module.exports = { parse, asObject, rewrite, Names };
