'use strict';
// Walks the syntax tree of acorn.

const FUNCTION = /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/;

// children calls visit for each direct child of node.
function children(node, visit) {
  for (const key in node) {
    const value = node[key];
    if (Array.isArray(value)) {
      for (const item of value) if (item && typeof item.type === 'string') visit(item, key);
    } else if (value && typeof value.type === 'string') {
      visit(value, key);
    }
  }
}

// names calls found for each identifier that a pattern binds.
function names(pattern, found) {
  switch (pattern?.type) {
    case 'Identifier':
      found(pattern.name);
      break;
    case 'ObjectPattern':
      for (const p of pattern.properties) names(p.type === 'RestElement' ? p.argument : p.value, found);
      break;
    case 'ArrayPattern':
      for (const p of pattern.elements) names(p, found);
      break;
    case 'AssignmentPattern':
      names(pattern.left, found);
      break;
    case 'RestElement':
      names(pattern.argument, found);
  }
}

// vars calls found(declaration, parent, key) for each var that belongs to the function or program
// with this body.
function vars(node, found, parent, key) {
  if (FUNCTION.test(node.type) || node.type === 'StaticBlock' || node.type === 'PropertyDefinition') return;
  if (node.type === 'VariableDeclaration' && node.kind === 'var') found(node, parent, key);
  children(node, (child, k) => vars(child, found, node, k));
}

// blockNames returns the names that a block, function or loop binds itself.
function blockNames(node) {
  const bound = new Set();
  const add = (name) => bound.add(name);
  const statements = (list) => {
    for (const s of list) {
      if (s.type === 'VariableDeclaration' && s.kind !== 'var') for (const d of s.declarations) names(d.id, add);
      else if ((s.type === 'ClassDeclaration' || s.type === 'FunctionDeclaration') && s.id) add(s.id.name);
    }
  };
  if (FUNCTION.test(node.type)) {
    for (const p of node.params) names(p, add);
    if (node.type !== 'FunctionDeclaration' && node.id) add(node.id.name);
    vars(node.body, (d) => { for (const x of d.declarations) names(x.id, add); });
    if (node.type !== 'ArrowFunctionExpression') add('arguments');
  }
  switch (node.type) {
    case 'BlockStatement':
    case 'StaticBlock':
      statements(node.body);
      break;
    case 'SwitchStatement':
      for (const c of node.cases) statements(c.consequent);
      break;
    case 'ForStatement':
      if (node.init) statements([node.init]);
      break;
    case 'ForInStatement':
    case 'ForOfStatement':
      statements([node.left]);
      break;
    case 'CatchClause':
      if (node.param) names(node.param, add);
      break;
    case 'ClassExpression':
      if (node.id) add(node.id.name);
  }
  return bound;
}

// assignments calls found(identifier, node, how) for each place that assigns to a name of the
// program's own scope that is in wanted. how is logical, shorthand or plain.
function assignments(program, wanted, found) {
  const target = (pattern, hidden, node) => {
    switch (pattern?.type) {
      case 'Identifier':
        if (wanted.has(pattern.name) && !hidden.some((s) => s.has(pattern.name))) {
          found(pattern, node, /^(\?\?|&&|\|\|)=$/.test(node.operator) ? 'logical' : 'plain');
        }
        break;
      case 'ObjectPattern':
        for (const p of pattern.properties) {
          const value = p.type === 'RestElement' ? p.argument : p.value;
          const id = value.type === 'AssignmentPattern' ? value.left : value;
          if (p.shorthand && id.type === 'Identifier') {
            if (wanted.has(id.name) && !hidden.some((s) => s.has(id.name))) found(id, node, 'shorthand');
          } else {
            target(value, hidden, node);
          }
        }
        break;
      case 'ArrayPattern':
        for (const p of pattern.elements) target(p, hidden, node);
        break;
      case 'AssignmentPattern':
        target(pattern.left, hidden, node);
        break;
      case 'RestElement':
        target(pattern.argument, hidden, node);
    }
  };
  const walk = (node, hidden) => {
    const bound = node === program ? new Set() : blockNames(node);
    const inner = bound.size > 0 ? [...hidden, bound] : hidden;
    if (node.type === 'AssignmentExpression') target(node.left, inner, node);
    else if (node.type === 'UpdateExpression') target(node.argument, inner, node);
    else if ((node.type === 'ForOfStatement' || node.type === 'ForInStatement') && node.left.type !== 'VariableDeclaration') {
      target(node.left, inner, node);
    }
    children(node, (child) => walk(child, inner));
  };
  walk(program, []);
}

// references calls found(identifier, shorthand) for each identifier that refers to a name of the
// program's own scope, or to an undeclared name, and is in wanted. shorthand means that it is also
// the key of a property.
function references(program, wanted, found) {
  const walk = (node, hidden, parent, key) => {
    if (node.type === 'Identifier') {
      const isKey = (key === 'key' || key === 'property') && !parent.computed && !(parent.shorthand && key === 'key');
      const isName = isKey || key === 'label' || key === 'meta' || /Specifier$|^ExportAll/.test(parent.type);
      if (isName || !wanted.has(node.name) || hidden.some((s) => s.has(node.name))) return;
      found(node, false);
      return;
    }
    if (node.type === 'ImportDeclaration') return;
    const bound = node === program ? new Set() : blockNames(node);
    const inner = bound.size > 0 ? [...hidden, bound] : hidden;
    children(node, (child, k) => {
      if (node.type === 'Property' && node.shorthand) {
        // { a } and { a = 1 }: one identifier is both key and value.
        if (k === 'key') return;
        const id = child.type === 'AssignmentPattern' ? child.left : child;
        if (wanted.has(id.name) && !inner.some((s) => s.has(id.name))) found(id, true);
        if (child.type === 'AssignmentPattern') walk(child.right, inner, child, 'right');
        return;
      }
      // The name of a declared function or class belongs to the scope around it.
      const outside = k === 'id' && /^(Function|Class)Declaration$/.test(node.type);
      walk(child, outside ? hidden : inner, node, k);
    });
  };
  walk(program, [], program, '');
}

module.exports = { FUNCTION, children, names, vars, assignments, references };
