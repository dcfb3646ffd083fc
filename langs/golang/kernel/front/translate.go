package front

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// draft is a cell during its translation.
type draft struct {
	s      *Session
	u      *Unit
	errs   *Errors
	decls  []string        // source of types, constants, functions, methods
	own    map[string]bool // names that the declarations declare
	steps  []step          // the statements
	hoist  []string        // names of := and var, in order
	isMain bool            // it declares func main
	tests  tests
	vars   map[string]string // hoisted variables to declare, with their types
	local  map[string]string // variables that stay in the function of the cell, and why
	extra  map[string]string // further imports: path to name
	carry  *carriage
	second *pass // the check of the final source, also if it found errors
}

// step is one statement. Its text in the function is built from parts.
type step struct {
	piece
	names   []string // assigned by := or var
	define  bool     // a := statement
	value   string   // the right side, or nothing
	valueAt int      // the value's offset in the piece
	typ     string   // the type of a var, as written
	asIs    bool
	last    bool // an expression whose value is the cell's value
	many    int  // it is a list of so many expressions, on the cell's last line
	at      int  // where the text, or the value, begins in the source of the first pass
}

// around returns what stands around a step in the first pass: a list of expressions is no statement.
func (t *step) around() (before, after string) {
	if t.many > 0 {
		return "Result__(", ")"
	}
	return "", ""
}

// Translate converts a cell to the source of a package and checks it. file is its name in
// positions. The error is an *Errors.
func (s *Session) Translate(seq int, file, code string) (*Unit, error) {
	u, err, carried := s.translate(seq, file, code, true)
	if err != nil && carried {
		// Callers of a function of the cell may no longer fit its new signature. Then they keep the
		// old function.
		u, err, _ = s.translate(seq, file, code, false)
	}
	return u, err
}

func (s *Session) translate(seq int, file, code string,
	functions bool,
) (u *Unit, err error, carried bool) {
	var keep *token.File // the final source, to which later errors may refer
	defer func() { s.forget(keep) }()
	d := s.draft(seq, file, code)
	if len(d.errs.List) > 0 {
		return nil, d.errs, false
	}
	d.errs.Name = "CompileError"
	d.carryTypes(functions)
	carried = d.carry != nil
	info := d.firstPass()
	if len(d.errs.List) == 0 {
		d.declare(info)
	}
	if len(d.errs.List) == 0 {
		d.secondPass(info)
	}
	if len(d.errs.List) > 0 {
		return nil, d.errs, carried
	}
	if n := len(s.scratch); n > 0 {
		keep = s.scratch[n-1]
	}
	return d.u, nil, carried
}

// draft parses the pieces of a cell.
func (s *Session) draft(seq int, file, code string) *draft {
	d := &draft{
		s: s,
		u: &Unit{
			Seq: seq, File: file, Code: code, Path: Path(seq),
			imports: map[string]imported{},
		},
		errs: &Errors{Name: "SyntaxError", Code: code},
		own:  map[string]bool{}, vars: map[string]string{}, extra: map[string]string{},
		local: map[string]string{},
	}
	if errs := embedErrors(file, code); len(errs) > 0 {
		d.errs.Name = "CompileError"
		d.errs.syntax(errs)
		return d
	}
	pieces := split(code)
	for i, p := range pieces {
		fset := token.NewFileSet()
		decls, stmts, err := p.parse(fset, file, code)
		if n := p.expressions(); err != nil && n > 1 && i == len(pieces)-1 {
			d.add(step{piece: p, asIs: true, last: true, many: n})
			continue
		}
		if err != nil {
			d.errs.syntax(err)
			continue
		}
		offset := func(pos token.Pos) int { // position in the piece
			open := len("package p;") + len(mark(file, code, p.off))
			if p.kind == statement {
				open += len("func _(){")
			}
			return fset.PositionFor(pos, false).Offset - open
		}
		switch p.kind {
		case importDecl:
			d.addImports(fset, decls)
		case varDecl:
			d.addVars(p, decls, offset)
		case statement:
			for _, st := range stmts {
				// The pieces of a cell end at semicolons, so that there is exactly one statement.
				d.addStatement(p, st, offset, i == len(pieces)-1)
			}
		default:
			d.addDecls(p, decls, offset)
		}
	}
	return d
}

func (d *draft) addImports(fset *token.FileSet, decls []ast.Decl) {
	for _, x := range decls {
		for _, spec := range x.(*ast.GenDecl).Specs {
			i := spec.(*ast.ImportSpec)
			path, _ := strconv.Unquote(i.Path.Value)
			fail := func(msg string) {
				if len(d.errs.List) == 0 {
					d.errs.Name = "CompileError"
				}
				d.errs.add(fset.Position(i.Path.Pos()), msg)
			}
			if path == "C" {
				fail(noC)
				continue
			}
			pkg, err := d.s.packages.Import(path)
			if err != nil {
				fail(err.Error())
				continue
			}
			switch {
			case i.Name == nil:
				d.u.imports[pkg.Name()] = imported{path, d.u.Seq}
			case i.Name.Name == ".":
				d.u.dots = append(d.u.dots, path)
			case i.Name.Name == "_":
				d.extra[path] = "_"
			default:
				d.u.imports[i.Name.Name] = imported{path, d.u.Seq}
			}
		}
	}
}

func (d *draft) addDecls(p piece, decls []ast.Decl, offset func(token.Pos) int) {
	here := func(off int) string { return mark(d.u.File, d.u.Code, p.off+off) }
	d.decls = append(d.decls, here(0)+p.text)
	for _, x := range decls {
		switch x := x.(type) {
		case *ast.FuncDecl:
			e := &decl{
				name: x.Name.Name, text: p.text, doc: p.doc, mark: here(0),
				uses: identifiers(x),
			}
			if x.Recv != nil {
				e.recv = receiver(x)
				d.u.methods = append(d.u.methods, e)
				continue
			}
			d.tests.add(x)
			if e.name == "main" {
				d.isMain = true
			} else if e.name != "init" && e.name != "_" {
				d.own[e.name] = true
				d.u.decls = append(d.u.decls, e)
			}
		case *ast.GenDecl:
			for _, spec := range x.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					from, to := offset(spec.Pos()), offset(spec.End())
					d.own[spec.Name.Name] = true
					doc := p.doc
					if spec.Doc != nil {
						doc = spec.Doc.Text()
					}
					d.u.decls = append(d.u.decls, &decl{
						name: spec.Name.Name, isType: true, text: p.text[from:to], doc: doc,
						mark: here(from), uses: identifiers(spec),
					})
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						d.own[n.Name] = true
					}
				}
			}
		}
	}
}

func (d *draft) addVars(p piece, decls []ast.Decl, offset func(token.Pos) int) {
	for _, x := range decls {
		for _, spec := range x.(*ast.GenDecl).Specs {
			v := spec.(*ast.ValueSpec)
			from, to := offset(v.Pos()), offset(v.End())
			t := step{piece: piece{
				kind: varDecl, text: p.text[from:to], off: p.off + from,
				doc: p.doc,
			}}
			blank := true
			for _, n := range v.Names {
				t.names = append(t.names, n.Name)
				blank = blank && n.Name == "_"
			}
			if v.Type != nil {
				t.typ = p.text[offset(v.Type.Pos()):offset(v.Type.End())]
			}
			if len(v.Values) > 0 {
				t.valueAt = offset(v.Values[0].Pos()) - from
				t.value = t.text[t.valueAt:]
			}
			if blank {
				t.asIs, t.names = true, nil
				t.text = "var " + t.text
				t.off -= len("var ")
			}
			d.add(t)
		}
	}
}

func (d *draft) addStatement(p piece, st ast.Stmt, offset func(token.Pos) int, last bool) {
	t := step{piece: p, asIs: true}
	switch st := st.(type) {
	case *ast.AssignStmt:
		if st.Tok != token.DEFINE {
			break
		}
		for _, x := range st.Lhs {
			id, ok := x.(*ast.Ident)
			if !ok {
				d.errs.add(token.Position{
					Filename: d.u.File, Line: lineOf(d.u.Code, p.off),
					Column: columnOf(d.u.Code, p.off),
				},
					"non-name on left side of :=")
				return
			}
			t.names = append(t.names, id.Name)
		}
		t.asIs, t.define = false, true
		t.valueAt = offset(st.Rhs[0].Pos())
		t.value = p.text[t.valueAt:]
	case *ast.ExprStmt:
		t.last = last
	}
	d.add(t)
}

func (d *draft) add(t step) {
	for _, n := range t.names {
		if why := reserved(n); why != "" {
			d.local[n] = why
		} else if n != "_" && !slices.Contains(d.hoist, n) {
			d.hoist = append(d.hoist, n)
		}
	}
	d.steps = append(d.steps, t)
}

// reserved says why no variable of the session can have a name; "" if one can.
func reserved(name string) string {
	if name == "main" || name == "init" {
		return "a program has a function of that name"
	}
	if _, ok := types.Universe.Lookup(name).(*types.TypeName); ok {
		return "it is the name of a type"
	}
	return ""
}

func (d *draft) here(off int) string { return mark(d.u.File, d.u.Code, off) }

// firstPass checks the cell with its variables local to one function, as Go itself would, in order
// to find their types. It only reports an error if a type cannot be found.
func (d *draft) firstPass() *pass {
	var b strings.Builder
	seen := map[string]bool{}
	b.WriteString("func Cell__() {\n")
	for i := range d.steps {
		t := &d.steps[i]
		switch {
		case t.define:
			fresh := false
			for _, n := range t.names {
				fresh = fresh || n != "_" && !seen[n]
			}
			op := " = "
			if fresh {
				op = " := "
			}
			b.WriteString(d.here(t.off) + strings.Join(t.names, ", ") + op +
				d.here(t.off+t.valueAt))
			t.at = b.Len()
			b.WriteString(t.value)
		case !t.asIs:
			fresh := true
			for _, n := range t.names {
				fresh = fresh && !seen[n]
			}
			if fresh {
				b.WriteString("var " + d.here(t.off))
				t.at = b.Len() + t.valueAt
				b.WriteString(t.text)
			} else if t.value != "" {
				b.WriteString(strings.Join(t.names, ", ") + " = " + d.here(t.off+t.valueAt))
				t.at = b.Len()
				b.WriteString(t.value)
			}
		default:
			open, shut := t.around()
			b.WriteString(open + d.here(t.off))
			t.at = b.Len()
			b.WriteString(t.text + shut)
		}
		b.WriteString("\n")
		for _, n := range t.names {
			seen[n] = true
		}
	}
	b.WriteString("\n}\nfunc main() {}\n")
	p := d.check(d.source()+d.carry.declarations(), b.String(), nil)
	for i := range d.steps {
		d.steps[i].at += p.bodyAt
	}
	// The types of the names.
	p.vars = map[string]types.Type{}
	for id, o := range p.info.Defs {
		if v, ok := o.(*types.Var); ok && slices.Contains(d.hoist, id.Name) &&
			p.local == v.Parent() {
			p.vars[id.Name] = v.Type()
		}
	}
	for _, n := range d.hoist {
		if t := p.vars[n]; t == nil || t == types.Typ[types.Invalid] || mentionsInvalid(t) {
			for _, e := range p.errors {
				if !e.Soft && !d.aboutHoisted(e.Msg) {
					d.typeError(e)
				}
			}
			if len(d.errs.List) == 0 {
				for _, e := range p.errors {
					d.typeError(e)
				}
			}
			if len(d.errs.List) == 0 {
				d.errs.add(token.Position{}, "the type of "+n+" cannot be found")
			}
			break
		}
	}
	return p
}

func mentionsInvalid(t types.Type) bool {
	return strings.Contains(types.TypeString(t, nil), "invalid type")
}

// aboutHoisted reports whether only the first pass has this error: functions do not see its local
// variables.
func (d *draft) aboutHoisted(msg string) bool {
	name, ok := strings.CutPrefix(msg, "undefined: ")
	return ok && slices.Contains(d.hoist, name)
}

// declare decides for each hoisted name whether it is a new variable, and how its type is written.
// A variable of an earlier cell with the same type is used again, so functions that refer to it see
// the new value. A variable whose type cannot be written stays in the function of the cell.
func (d *draft) declare(p *pass) {
	for _, n := range d.hoist {
		t := types.Default(p.vars[n])
		if old, ok := d.s.object(n).(*types.Var); ok && !d.own[n] && !d.carries(n) &&
			types.Identical(old.Type(), t) {
			continue
		}
		text, err := d.typeText(t)
		if err != "" {
			d.local[n] = "its type " + err + " has no name outside its package"
			continue
		}
		d.vars[n] = text
	}
}

// typeText returns a type as the cell's source can write it. what is the part that cannot be
// written.
func (d *draft) typeText(t types.Type) (text, what string) {
	if mentions(t, func(o *types.TypeName) bool {
		p := o.Pkg()
		if p == nil || o.Exported() || strings.HasPrefix(p.Path(), "cells/") &&
			o.Parent() == p.Scope() {
			return false
		}
		what = p.Name() + "." + o.Name()
		return true
	}) {
		return "", what
	}
	return types.TypeString(t, d.qualifier), ""
}

func (d *draft) qualifier(p *types.Package) string {
	if p.Path() == d.u.Path {
		return ""
	}
	name := p.Name() + "__"
	if n, ok := strings.CutPrefix(p.Path(), "cells/"); ok {
		name = "c" + n + "__"
	}
	for path, other := range d.extra {
		if path == p.Path() && other != "_" {
			return other
		}
		if other == name {
			name = fmt.Sprintf("p%d__", len(d.extra))
		}
	}
	d.extra[p.Path()] = name
	return name
}

// secondPass writes the final source, checks it and adds the checks.
func (d *draft) secondPass(first *pass) {
	var vars, b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(d.vars)) {
		fmt.Fprintf(&vars, "var %s %s\n", n, d.vars[n])
	}
	b.WriteString("func Cell__() {\n")
	for _, n := range slices.Sorted(maps.Keys(d.vars)) {
		fmt.Fprintf(&b, "Var__(%q, &%s)\n", n, n)
	}
	b.WriteString(d.carry.moves())
	seen := map[string]bool{}
	for i := range d.steps {
		t := &d.steps[i]
		switch {
		case t.asIs && t.last && !first.isVoid(t):
			b.WriteString("Result__(" + d.here(t.off) + d.qualify(first, t, t.text) + ")")
		case t.asIs:
			b.WriteString(d.here(t.off) + d.qualify(first, t, t.text))
		default:
			d.assign(&b, first, t, seen)
		}
		b.WriteString("\n")
	}
	if d.u.isMain = d.isMain; d.isMain {
		b.WriteString("main()\n}\nfunc Main__() { main() }\n")
	} else {
		b.WriteString(d.tests.settings() + d.tests.call() + "\n}\n" + d.mainFunc())
	}
	b.WriteString("func init() { Keep__(Cell__) }\n")
	p := d.check(d.source()+vars.String(), b.String(),
		d.typeError)
	d.second = p
	if len(d.errs.List) > 0 {
		return
	}
	d.u.pkg, d.u.local = p.pkg, d.local
	d.u.Imports = p.imports
	source, err := instrument(p.source)
	if err != nil {
		d.errs.add(token.Position{}, err.Error())
		return
	}
	d.u.Source = source
}

// assign writes a := or var. seen has the local variables that earlier steps declare.
func (d *draft) assign(b *strings.Builder, first *pass, t *step, seen map[string]bool) {
	if t.value == "" {
		for _, n := range t.names {
			switch {
			case n == "_":
			case d.local[n] != "" && !seen[n]:
				fmt.Fprintf(b, "var %s %s%s; _ = %s;", n, d.here(t.off), t.typ, n)
				seen[n] = true
			default:
				fmt.Fprintf(b, "%s = *new(%s%s);", n, d.here(t.off), t.typ)
			}
		}
		return
	}
	// A new local variable gets the type of its value. The session's variables beside it get their
	// values through others, since := would declare them too.
	names, after, op := slices.Clone(t.names), "", " = "
	for _, n := range t.names {
		if d.local[n] != "" && !seen[n] {
			op, seen[n] = " := ", true
			after += "; _ = " + n
		}
	}
	for i, n := range names {
		if op == " := " && d.local[n] == "" && n != "_" {
			names[i] = fmt.Sprintf("value%d__", i)
			after += fmt.Sprintf("; %s = %s", n, names[i])
		}
	}
	if op == " := " && t.typ != "" {
		names[len(names)-1] += " " + t.typ
		names[0], op = "var "+names[0], " = "
	}
	b.WriteString(d.here(t.off) + strings.Join(names, ", ") + op + d.here(t.off+t.valueAt) +
		d.qualify(first, t, t.value) + after)
}

// source returns the declarations of the cell, and the carried ones.
func (d *draft) source() string {
	return strings.Join(d.decls, "\n") + "\n" + d.carry.source()
}

// qualify changes the text of a step so that a variable which the cell declares again is the
// earlier cell's variable before that: x := x + 1.
func (d *draft) qualify(p *pass, t *step, text string) string {
	type use struct {
		off int
		pkg *types.Package
	}
	var uses []use
	for id, o := range p.info.Uses {
		if o.Pkg() == nil || o.Pkg().Path() == d.u.Path ||
			!strings.HasPrefix(o.Pkg().Path(), "cells/") || d.vars[id.Name] == "" {
			continue
		}
		if o.Parent() != o.Pkg().Scope() {
			continue // a field or a method
		}
		off := d.s.fset.PositionFor(id.Pos(), false).Offset - t.at
		if off >= 0 && off < len(text) {
			uses = append(uses, use{off, o.Pkg()})
		}
	}
	slices.SortFunc(uses, func(a, b use) int { return a.off - b.off })
	at := 0
	var b strings.Builder
	for _, x := range uses {
		b.WriteString(text[at:x.off] + d.qualifier(x.pkg) + "." + d.here(t.off+t.valueAt+x.off))
		at = x.off
	}
	return b.String() + text[at:]
}

// pass is a checked source.
type pass struct {
	source  string
	file    *ast.File
	bodyAt  int // where the body's text begins in source
	info    *types.Info
	local   *types.Scope // the scope of Cell__
	pkg     *types.Package
	imports []string
	errors  []types.Error
	vars    map[string]types.Type
}

// check adds the imports that decls and body need and checks everything. report gets each error;
// without it they are collected.
func (d *draft) check(decls, body string, report func(types.Error)) *pass {
	p := &pass{info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses:   map[*ast.Ident]types.Object{},
		Scopes: map[ast.Node]*types.Scope{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	bare, err := parser.ParseFile(token.NewFileSet(), "", "package main\n"+decls+body, 0)
	if bare == nil {
		d.errs.syntax(err)
		return p
	}
	head := d.imports(bare, p)
	p.bodyAt = len(head) + len(decls)
	p.source = head + decls + body
	p.file, err = parser.ParseFile(d.s.fset, "gen.go", p.source, parser.SkipObjectResolution)
	if p.file == nil || err != nil && report != nil {
		d.errs.syntax(err)
		return p
	}
	if f := d.s.fset.File(p.file.FileStart); f != nil {
		d.s.scratch = append(d.s.scratch, f)
	}
	conf := types.Config{Importer: d.s, GoVersion: goVersion, Error: func(err error) {
		e := err.(types.Error)
		if strings.HasSuffix(e.Msg, "imported and not used") ||
			strings.Contains(e.Msg, "imported and not used as") ||
			strings.Contains(e.Msg, "imported as") && strings.Contains(e.Msg, "and not used") {
			return
		}
		if report != nil {
			report(e)
		} else {
			p.errors = append(p.errors, e)
		}
	}}
	p.pkg, _ = conf.Check(d.u.Path, d.s.fset, []*ast.File{p.file}, p.info)
	for _, x := range p.file.Decls {
		if f, ok := x.(*ast.FuncDecl); ok && f.Name.Name == "Cell__" {
			p.local = p.info.Scopes[f.Type]
		}
	}
	return p
}

// imports writes the clause and the imports of a source, for the names that it does not resolve
// itself.
func (d *draft) imports(f *ast.File, p *pass) string {
	used := map[string]bool{}
	for _, id := range f.Unresolved {
		used[id.Name] = true
	}
	selections := selected(f)
	cells := map[*Unit]bool{}
	var packages []string
	add := func(name, path string) {
		packages = append(packages, fmt.Sprintf("import %s %q\n", name, path))
		if path != "unsafe" && !strings.HasPrefix(path, "cells/") {
			p.imports = append(p.imports, path)
		}
	}
	for n := range used {
		cell := d.s.latest[n]
		i, ok := d.u.imports[n]
		if !ok {
			if i, ok = d.s.imports[n]; ok && cell != nil && cell.Seq > i.seq {
				ok = false
			}
		}
		path := cmp.Or(i.path, d.s.std[n])
		isSelected := len(selections.members[n]) > 0
		switch {
		case ok && isSelected:
			add(n, i.path)
		case cell != nil && isSelected && d.hidden(cell, n, path, selections):
			add(n, path)
		case cell != nil:
			cells[cell] = true
		case isSelected && d.s.std[n] != "" && types.Universe.Lookup(n) == nil:
			add(n, d.s.std[n])
		}
	}
	for _, path := range slices.Concat(d.s.dots, d.u.dots) {
		if pkg, err := d.s.packages.Import(path); err == nil && dotted(pkg, used) {
			add(".", path)
		}
	}
	for path, name := range d.extra {
		add(name, path)
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	slices.Sort(p.imports)
	p.imports = slices.Compact(p.imports)
	var b strings.Builder
	b.WriteString("package main\nimport . \"cells/0\"\n")
	for _, u := range d.s.order {
		if cells[u] {
			fmt.Fprintf(&b, "import . %q\n", u.Path)
		}
	}
	b.WriteString(strings.Join(packages, ""))
	return b.String()
}

// dotted reports whether a dot import of a package declares one of the names. The compiler rejects
// a dot import that declares none.
func dotted(pkg *types.Package, names map[string]bool) bool {
	for n := range names {
		if token.IsExported(n) && pkg.Scope().Lookup(n) != nil {
			return true
		}
	}
	return false
}

// isVoid reports whether the last expression has no value to show: a call without results, or a
// print function that returns a count.
func (p *pass) isVoid(t *step) bool {
	void := false
	ast.Inspect(p.file, func(n ast.Node) bool {
		st, ok := n.(*ast.ExprStmt)
		if !ok || p.offset(st) != t.at {
			return true
		}
		if p.info.Types[st.X].IsVoid() {
			void = true
		}
		if call, ok := ast.Unparen(st.X).(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				if f, ok := p.info.Uses[sel.Sel].(*types.Func); ok && f.Pkg() != nil &&
					f.Pkg().Path() == "fmt" &&
					(strings.HasPrefix(f.Name(), "Print") ||
						strings.HasPrefix(f.Name(), "Fprint")) {
					void = true
				}
			}
		}
		return false
	})
	return void
}

// offset returns the position of a node in the source.
func (p *pass) offset(n ast.Node) int { return int(n.Pos() - p.file.FileStart) }

// identifiers returns the names that a declaration uses.
func identifiers(n ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names[id.Name] = true
		}
		return true
	})
	return names
}

// receiver returns the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	if len(f.Recv.List) == 0 {
		return ""
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
