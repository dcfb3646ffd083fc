package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"slices"
	"strings"
)

// An edit changes one place of a function, or of a struct type, or each of several equal ones. A
// place is found in the syntax tree, so that neither line numbers nor the layout of the source
// matter.
type edit struct {
	// in names the function: F, T.F for a method; or a type.
	in string
	// at is an expression, a statement, or the head of a statement: the text
	// before its body's brace. Empty: the start of the function's body, or the
	// end of the struct's fields.
	at string
	// n is how many such places the function has; 0 means 1.
	n int
	// how defines where the text is inserted.
	how  how
	text string
}

type how int

const (
	instead how = iota // replaces the expression; $ in the text is the expression
	before             // before the statement
	after              // after the statement
	inside             // in the body of the statement, at its start
)

// or and and widen and narrow a condition.
func or(cond string) string  { return "($ || " + cond + ")" }
func and(cond string) string { return "($ && " + cond + ")" }

type insertion struct {
	from, to int
	text     string
}

// apply makes the edits of one file.
func apply(rel string, src []byte, list []edit) (text []byte, places int, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, rel, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	offset := func(p token.Pos) int { return fset.PositionFor(p, false).Offset }
	var changes []insertion
	for _, e := range list {
		scope := find(file, e.in)
		if scope == nil {
			return nil, 0, fmt.Errorf("%s: there is no longer a %s", rel, e.in)
		}
		found, err := e.places(scope)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %s: %w", rel, e.in, err)
		}
		if want := max(e.n, 1); len(found) != want {
			return nil, 0, fmt.Errorf("%s: %s has %d places %q, expected %d", rel, e.in, len(found),
				e.at, want)
		}
		for _, p := range found {
			from, to := offset(p[0]), offset(p[1])
			changes = append(changes,
				insertion{from, to, strings.ReplaceAll(e.text, "$", string(src[from:to]))})
		}
		places += len(found)
	}
	slices.SortStableFunc(changes, func(a, b insertion) int { return a.from - b.from })
	var b bytes.Buffer
	at := 0
	for _, c := range changes {
		if c.from < at {
			return nil, 0, fmt.Errorf("%s: two edits overlap at %q", rel, c.text)
		}
		b.Write(src[at:c.from])
		b.WriteString(c.text)
		at = c.to
	}
	b.Write(src[at:])
	if _, err := parser.ParseFile(token.NewFileSet(), rel, b.Bytes(), 0); err != nil {
		return nil, 0, fmt.Errorf("the result for %s is not valid Go: %w", rel, err)
	}
	return b.Bytes(), places, nil
}

// find returns the declaration of a function, method or struct type.
func find(file *ast.File, name string) ast.Node {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			full := d.Name.Name
			if d.Recv != nil && len(d.Recv.List) == 1 {
				t := d.Recv.List[0].Type
				if p, ok := t.(*ast.StarExpr); ok {
					t = p.X
				}
				if id, ok := t.(*ast.Ident); ok {
					full = id.Name + "." + full
				}
			}
			if full == name && d.Body != nil {
				return d
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok && t.Name.Name == name {
					if s, ok := t.Type.(*ast.StructType); ok {
						return s
					}
				}
			}
		}
	}
	return nil
}

// places returns the ranges of source that the edit replaces. They are empty if it inserts.
func (e edit) places(scope ast.Node) (found [][2]token.Pos, err error) {
	point := func(p token.Pos) { found = append(found, [2]token.Pos{p, p}) }
	if e.at == "" {
		switch s := scope.(type) {
		case *ast.FuncDecl:
			point(s.Body.Lbrace + 1)
		case *ast.StructType:
			point(s.Fields.Closing)
		}
		return found, nil
	}
	want := strings.Join(strings.Fields(e.at), " ")
	ast.Inspect(scope, func(n ast.Node) bool {
		switch x := n.(type) {
		case ast.Expr:
			if e.how == instead && text(x) == want {
				found = append(found, [2]token.Pos{x.Pos(), x.End()})
				return false
			}
		case ast.Stmt:
			head, body := headOf(x)
			if e.how == instead || head != want {
				break
			}
			switch e.how {
			case before:
				point(x.Pos())
			case after:
				point(x.End())
			case inside:
				if body == token.NoPos {
					err = fmt.Errorf("%q has no body", e.at)
				}
				point(body)
			}
		}
		return true
	})
	return found, err
}

// headOf returns a statement in one line, a compound one without its body, and
// where the body starts.
func headOf(s ast.Stmt) (string, token.Pos) {
	cut := func(b *ast.BlockStmt) (string, token.Pos) {
		whole := text(s)
		inner := text(b)
		at := strings.Index(whole, inner)
		if at < 0 {
			return whole, token.NoPos
		}
		return strings.TrimSpace(whole[:at]), b.Lbrace + 1
	}
	switch s := s.(type) {
	case *ast.IfStmt:
		return cut(s.Body)
	case *ast.ForStmt:
		return cut(s.Body)
	case *ast.RangeStmt:
		return cut(s.Body)
	case *ast.SwitchStmt:
		return cut(s.Body)
	case *ast.CaseClause:
		if s.List == nil {
			return "default:", s.Colon + 1
		}
		list := make([]string, len(s.List))
		for i, x := range s.List {
			list[i] = text(x)
		}
		return "case " + strings.Join(list, ", ") + ":", s.Colon + 1
	case *ast.BlockStmt:
		return "", token.NoPos
	}
	return text(s), token.NoPos
}

// text returns a node without comments, in one line.
func text(n ast.Node) string {
	if st, ok := n.(*ast.DeclStmt); ok {
		if g, ok := st.Decl.(*ast.GenDecl); ok && g.Doc != nil {
			bare := *g
			bare.Doc = nil
			n = &bare
		}
	}
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), n); err != nil {
		return ""
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
