package front

import (
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// goSource is the folder with the source of the standard library in the image.
const goSource = "/usr/local/go/src"

// Subject describes a name.
type Subject struct {
	// Signature is its declaration in one line, Doc its comment. Source is its text, if a cell
	// declared it.
	Signature, Doc, Source string
	// Variable is the name of a variable of the session, whose value may be
	// shown.
	Variable string
}

// Inspect describes the name at the cursor, a byte offset.
func (s *Session) Inspect(code string, cursor int) (Subject, bool) {
	defer s.forget(nil)
	start, end := word(code, cursor)
	if start == end {
		return Subject{}, false
	}
	if p := s.sketch(code, end, ""); p != nil {
		line, col := lineOf(code, start), columnOf(code, start)
		var found types.Object
		ast.Inspect(p.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && found == nil && id.Name == code[start:end] {
				if at := s.fset.Position(id.Pos()); at.Line == line && at.Column == col &&
					at.Filename == "cell.go" {
					if found = p.info.Uses[id]; found == nil {
						found = p.info.Defs[id]
					}
				}
			}
			return true
		})
		if found != nil {
			return s.subject(found), true
		}
	}
	return s.byName(code[start:end])
}

// word returns the range of the name around an offset.
func word(code string, at int) (start, end int) {
	at = min(max(at, 0), len(code))
	in := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for start, end = at, at; start > 0; {
		r, n := utf8.DecodeLastRuneInString(code[:start])
		if !in(r) {
			break
		}
		start -= n
	}
	for end < len(code) {
		r, n := utf8.DecodeRuneInString(code[end:])
		if !in(r) {
			break
		}
		end += n
	}
	return start, end
}

// byName looks a name up in text that cannot be type-checked.
func (s *Session) byName(name string) (Subject, bool) {
	if o := s.object(name); o != nil {
		return s.subject(o), true
	}
	if o := s.order[0].pkg.Scope().Lookup(name); o != nil && !strings.HasSuffix(name, "__") {
		return s.subject(o), true
	}
	if path := s.std[name]; path != "" {
		return packageDoc(path), true
	}
	if o := types.Universe.Lookup(name); o != nil {
		return s.subject(o), true
	}
	return Subject{}, false
}

func (s *Session) subject(o types.Object) Subject {
	if p, ok := o.(*types.PkgName); ok {
		return packageDoc(p.Imported().Path())
	}
	x := Subject{Signature: s.plain(types.ObjectString(o, func(p *types.Package) string {
		if strings.HasPrefix(p.Path(), "cells/") {
			return ""
		}
		return p.Name()
	}))}
	switch {
	case o.Pkg() == nil:
		x.Doc = symbolDoc("builtin", "", o.Name())
	case strings.HasPrefix(o.Pkg().Path(), "cells/"):
		s.own(o, &x)
	default:
		recv := ""
		if f, ok := o.(*types.Func); ok {
			if r := f.Signature().Recv(); r != nil {
				t := r.Type()
				if p, ok := t.(*types.Pointer); ok {
					t = p.Elem()
				}
				if n, ok := t.(*types.Named); ok {
					recv = n.Obj().Name()
				}
			}
		}
		x.Doc = symbolDoc(o.Pkg().Path(), recv, o.Name())
	}
	return x
}

// own adds the data about a declaration of a cell.
func (s *Session) own(o types.Object, x *Subject) {
	if v, ok := o.(*types.Var); ok && s.object(o.Name()) == o {
		x.Variable = v.Name()
	}
	if o.Pkg() == s.order[0].pkg {
		x.Doc = supportDoc(s.order[0].Code, o)
		return
	}
	d := s.decls[o.Name()]
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		d = nil
		for _, t := range s.decls {
			for _, m := range t.methods {
				if m.name == o.Name() &&
					strings.Contains(types.TypeString(f.Signature().Recv().Type(), nil), "."+
						t.name) {
					d = m
				}
			}
		}
	}
	if d == nil {
		return
	}
	x.Doc, x.Source = plainComment(d.doc), d.text
	if d.isType {
		x.Source = "type " + d.text
		for _, m := range d.methods {
			head, _, _ := strings.Cut(m.text, "{")
			x.Source += "\n" + strings.TrimSpace(head)
		}
	}
}

// supportDoc returns the comment of a declaration of cell 0.
func supportDoc(code string, o types.Object) (text string) {
	f, err := parser.ParseFile(token.NewFileSet(), "", code,
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return ""
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == o.Name() {
				text = d.Doc.Text()
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && v.Names[0].Name == o.Name() {
					text = d.Doc.Text()
				}
			}
		}
	}
	return strings.TrimSpace(text)
}

// plainComment returns the text of a comment without its marks.
func plainComment(c string) string {
	var g ast.CommentGroup
	list, _ := scan(c, true)
	for _, l := range list {
		if l.tok == token.COMMENT {
			g.List = append(g.List, &ast.Comment{Text: l.lit})
		}
	}
	return strings.TrimSpace(g.Text())
}

// pages reads the documentation of a package of the standard library.
func pages(path string) *doc.Package {
	dir := filepath.Join(goSource, filepath.FromSlash(path))
	ctx := build.Default
	ctx.CgoEnabled = false
	var names []string
	if path == "builtin" {
		names = []string{"builtin.go"}
	} else if p, err := ctx.ImportDir(dir, 0); err == nil {
		names = p.GoFiles
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, n := range names {
		if f, err := parser.ParseFile(fset, filepath.Join(dir, n), nil,
			parser.ParseComments|parser.SkipObjectResolution); err == nil {
			files = append(files, f)
		}
	}
	mode := doc.Mode(0)
	if path == "builtin" {
		mode = doc.AllDecls
	}
	p, err := doc.NewFromFiles(fset, files, path, mode)
	if err != nil {
		return nil
	}
	return p
}

func packageDoc(path string) Subject {
	x := Subject{Signature: "package " + path}
	if p := pages(path); p != nil {
		x.Doc = strings.TrimSpace(p.Doc)
	}
	return x
}

// symbolDoc returns the comment of a declaration, or of a method of recv.
func symbolDoc(path, recv, name string) string {
	p := pages(path)
	if p == nil {
		return ""
	}
	values := p.Consts
	values = append(values, p.Vars...)
	funcs := p.Funcs
	for _, t := range p.Types {
		if recv == "" && t.Name == name {
			return strings.TrimSpace(t.Doc)
		}
		if recv == t.Name {
			for _, m := range t.Methods {
				if m.Name == name {
					return strings.TrimSpace(m.Doc)
				}
			}
		}
		values = append(append(values, t.Consts...), t.Vars...)
		funcs = append(funcs, t.Funcs...)
	}
	if recv != "" {
		return ""
	}
	for _, f := range funcs {
		if f.Name == name {
			return strings.TrimSpace(f.Doc)
		}
	}
	for _, v := range values {
		for _, n := range v.Names {
			if n == name {
				return strings.TrimSpace(v.Doc)
			}
		}
	}
	return ""
}
