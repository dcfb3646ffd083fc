package front

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMatches is the largest number of completions.
const maxMatches = 1000

// Match is one completion.
type Match struct{ Text, Type string }

// placeholder ends the word at the cursor while the cell is checked.
const placeholder = "cursor__"

// Complete returns completions that may replace code[start:end]. start, end and cursor are byte
// offsets. The cell is checked, but not run.
func (s *Session) Complete(code string, cursor int) (list []Match, start, end int) {
	defer s.forget(nil)
	cursor = min(max(cursor, 0), len(code))
	start, end = cursor, cursor
	for start > 0 {
		r, n := utf8.DecodeLastRuneInString(code[:start])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		start -= n
	}
	if m := importPath.FindStringSubmatchIndex(code[:cursor]); m != nil {
		start = m[2]
		return s.importPaths(code[start:cursor]), start, end
	}
	prefix := code[start:cursor]
	list = s.matches(code, start, cursor, prefix)
	fit := filter(list, func(m Match) bool { return strings.HasPrefix(m.Text, prefix) })
	if len(fit) == 0 {
		low := strings.ToLower(prefix)
		fit = filter(list, func(m Match) bool {
			return strings.HasPrefix(strings.ToLower(m.Text),
				low)
		})
	}
	slices.SortFunc(fit, func(a, b Match) int { return strings.Compare(a.Text, b.Text) })
	fit = slices.CompactFunc(fit, func(a, b Match) bool { return a.Text == b.Text })
	return fit[:min(len(fit), maxMatches)], start, end
}

var importPath = regexp.MustCompile(`(?:^|\n)\s*(?:import\s+\(?\s*)?(?:[\w.]+\s+)?"([\w./-]*)$`)

func (s *Session) importPaths(prefix string) (list []Match) {
	for _, p := range s.std {
		if strings.HasPrefix(p, prefix) {
			list = append(list, Match{p, "module"})
		}
	}
	slices.SortFunc(list, func(a, b Match) int { return strings.Compare(a.Text, b.Text) })
	return list
}

func filter(list []Match, keep func(Match) bool) (out []Match) {
	for _, m := range list {
		if keep(m) {
			out = append(out, m)
		}
	}
	return out
}

// sketch checks a possibly unfinished cell, with the placeholder inserted at the cursor.
func (s *Session) sketch(code string, cursor int, insert string) *pass {
	for _, text := range []string{
		code[:cursor] + insert + code[cursor:],
		code[:cursor] + insert + closers(code[:cursor]),
	} {
		if program(text) {
			text = text[strings.Index(text, "package"):]
			if i := strings.IndexAny(text, "\n;"); i > 0 {
				text = strings.Repeat(" ", i) + text[i:]
			}
		}
		d := s.draft(1<<30, "cell.go", text)
		if len(d.errs.List) > 0 {
			continue
		}
		d.carryTypes(false)
		if p := d.firstPass(); p.pkg != nil {
			return p
		}
	}
	return nil
}

// closers returns the brackets that close the open ones at the end of code.
func closers(code string) string {
	list, _ := scan(code, false)
	var open []byte
	for _, l := range list {
		switch l.tok {
		case token.LPAREN:
			open = append(open, ')')
		case token.LBRACK:
			open = append(open, ']')
		case token.LBRACE:
			open = append(open, '}')
		case token.RPAREN, token.RBRACK, token.RBRACE:
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		}
	}
	var b strings.Builder
	for _, c := range slices.Backward(open) {
		if c == '}' {
			b.WriteByte('\n')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// matches returns all names that could be at the cursor.
func (s *Session) matches(code string, start, cursor int, prefix string) (list []Match) {
	selector := start > 0 && code[start-1] == '.'
	p := s.sketch(code, cursor, placeholder)
	if p == nil {
		if selector {
			return nil
		}
		return s.globals()
	}
	name := prefix + placeholder
	var at *ast.Ident
	var sel *ast.SelectorExpr
	var lits []*ast.CompositeLit
	ast.Inspect(p.file, func(n ast.Node) bool {
		if x, ok := n.(*ast.SelectorExpr); ok && x.Sel.Name == name {
			sel = x
		}
		if x, ok := n.(*ast.Ident); ok && x.Name == name {
			at = x
		}
		return true
	})
	switch {
	case sel != nil:
		return s.members(p, sel.X)
	case at == nil || selector:
		return nil
	}
	ast.Inspect(p.file, func(n ast.Node) bool {
		if x, ok := n.(*ast.CompositeLit); ok && x.Lbrace < at.Pos() && at.Pos() < x.Rbrace {
			lits = append(lits, x)
		}
		return true
	})
	if n := len(lits); n > 0 {
		if t := p.info.Types[lits[n-1]].Type; t != nil && slices.ContainsFunc(lits[n-1].Elts,
			func(e ast.Expr) bool { return e == at }) {
			list = fields(t, list)
		}
	}
	for scope := p.innermost(at.Pos()); scope != nil &&
		scope != types.Universe; scope = scope.Parent() {
		for _, n := range scope.Names() {
			if o := scope.Lookup(n); !strings.HasSuffix(n, "__") && n != "main" &&
				(scope.Parent() == p.pkg.Scope() || scope == p.pkg.Scope() || o.Pos() < at.Pos()) {
				list = append(list, Match{n, kindOf(o)})
			}
		}
	}
	return append(list, s.globals()...)
}

// innermost returns the smallest scope around a position.
func (p *pass) innermost(pos token.Pos) *types.Scope {
	best := p.pkg.Scope()
	size := token.Pos(1 << 30)
	for n, scope := range p.info.Scopes {
		from, to := n.Pos(), n.End()
		if f, ok := n.(*ast.FuncType); ok {
			// The scope of a function is recorded with its type.
			from, to = scope.Pos(), max(scope.End(), f.End())
		}
		if from <= pos && pos <= to && to-from < size {
			best, size = scope, to-from
		}
	}
	return best
}

// globals returns the names of the session, of packages, and Go's own.
func (s *Session) globals() (list []Match) {
	for n, u := range s.latest {
		list = append(list, Match{n, kindOf(u.pkg.Scope().Lookup(n))})
	}
	for _, n := range s.order[0].names() {
		list = append(list, Match{n, kindOf(s.order[0].pkg.Scope().Lookup(n))})
	}
	for n := range maps.Keys(s.std) {
		list = append(list, Match{n, "module"})
	}
	for n := range s.imports {
		list = append(list, Match{n, "module"})
	}
	for _, n := range types.Universe.Names() {
		list = append(list, Match{n, kindOf(types.Universe.Lookup(n))})
	}
	for t := token.BREAK; t <= token.VAR; t++ {
		list = append(list, Match{t.String(), "keyword"})
	}
	return list
}

// members returns the names that can be selected from an expression.
func (s *Session) members(p *pass, x ast.Expr) (list []Match) {
	if id, ok := x.(*ast.Ident); ok {
		if o, ok := p.info.Uses[id].(*types.PkgName); ok {
			scope := o.Imported().Scope()
			for _, n := range scope.Names() {
				if token.IsExported(n) {
					list = append(list, Match{n, kindOf(scope.Lookup(n))})
				}
			}
			return list
		}
	}
	t := p.info.Types[x].Type
	if t == nil {
		return nil
	}
	list = fields(t, list)
	set := types.NewMethodSet(t)
	if _, ok := t.(*types.Pointer); !ok && !types.IsInterface(t) {
		set = types.NewMethodSet(types.NewPointer(t))
	}
	for m := range set.Methods() {
		if o := m.Obj(); visible(o) {
			list = append(list, Match{o.Name(), "method"})
		}
	}
	return list
}

func visible(o types.Object) bool {
	return o.Exported() || o.Pkg() != nil && strings.HasPrefix(o.Pkg().Path(), "cells/") &&
		!strings.HasSuffix(o.Name(), "__")
}

// fields adds the fields of a struct, including those of embedded ones.
func fields(t types.Type, list []Match) []Match {
	seen := map[types.Type]bool{}
	var walk func(t types.Type)
	walk = func(t types.Type) {
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		st, ok := t.Underlying().(*types.Struct)
		if !ok || seen[t] {
			return
		}
		seen[t] = true
		for f := range st.Fields() {
			if visible(f) {
				list = append(list, Match{f.Name(), "field"})
			}
			if f.Embedded() {
				walk(f.Type())
			}
		}
	}
	walk(t)
	return list
}

func kindOf(o types.Object) string {
	switch o := o.(type) {
	case *types.Func, *types.Builtin:
		return "function"
	case *types.Var:
		if o.IsField() {
			return "field"
		}
		return "variable"
	case *types.TypeName:
		return "type"
	case *types.Const, *types.Nil:
		return "constant"
	case *types.PkgName:
		return "module"
	}
	return ""
}
