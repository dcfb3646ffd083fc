// Package front is the front end of a session of Go cells: it converts the text of a cell to the
// source of a package that the compiler accepts, checks it, and stores its declarations for later
// cells.
//
// A cell becomes one package, cells/N:
//
//	package main                    so that %T prints main.T
//	import . "cells/0" ...          the support package, and the earlier cells whose names it uses
//	import fmt "fmt" ...            packages, by use
//	type, const, func, method       as written
//	var x T                         top-level := and var, with the type that was found
//	func Cell__() { ... }           the statements in order; the last expression in Result__
//
// Identifiers stay unchanged, and line directives keep their positions, so that errors, panics and
// reflection show the user's code.
package front

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// goVersion is the language version of cells.
const goVersion = "go1.26"

// Session has the declarations of earlier cells. It is not safe for concurrent use.
type Session struct {
	fset     *token.FileSet
	scratch  []*token.File // files of fset that are being checked
	packages types.Importer
	std      map[string]string // package name to path
	imports  map[string]imported
	dots     []string         // paths of dot imports of packages
	units    map[string]*Unit // key: the path
	order    []*Unit
	latest   map[string]*Unit // the cell that declared a name last
	decls    map[string]*decl // types and functions, for cells that have to declare them again
	main     *Unit            // the cell that declared func main last
	// local has what errors say about variables that only their cell knows.
	local map[string]string
}

type imported struct {
	path string
	seq  int
}

// Unit is a translated cell.
type Unit struct {
	// Seq is its number in the session, and in its path.
	Seq int
	// File is its name in positions. Code is the user's text.
	File, Code string
	// Path is its import path. Source is the text for the compiler.
	Path, Source string
	// Imports are the paths of the packages that it imports, without cells.
	Imports []string

	// Tests reports whether a program has no main, and runs its tests.
	Tests bool

	pkg     *types.Package
	isMain  bool // it declares func main
	decls   []*decl
	methods []*decl
	imports map[string]imported
	dots    []string
	local   map[string]string // variables that only the cell knows, and the reasons
}

// decl is the source of a type, a function or a method.
type decl struct {
	name, recv string
	isType     bool
	text, doc  string // a type's text lacks the keyword
	mark       string // its position
	uses       map[string]bool
	methods    []*decl // the latest methods of a type, one for each name
}

// NewSession returns a session that finds packages with the importer. std maps the names of
// packages that need no import to their paths. support is the source of package cells/0.
func NewSession(packages types.Importer, std map[string]string, support string) (*Session, error) {
	s := &Session{
		fset: token.NewFileSet(), packages: packages, std: std,
		imports: map[string]imported{}, units: map[string]*Unit{}, latest: map[string]*Unit{},
		decls: map[string]*decl{}, local: map[string]string{},
	}
	u := &Unit{File: "support.go", Code: support, Path: Path(0), Source: support}
	f, err := parser.ParseFile(s.fset, u.File, support, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	conf := types.Config{Importer: s, GoVersion: goVersion}
	if u.pkg, err = conf.Check(u.Path, s.fset, []*ast.File{f}, nil); err != nil {
		return nil, err
	}
	for _, i := range f.Imports {
		u.Imports = append(u.Imports, strings.Trim(i.Path.Value, `"`))
	}
	s.units[u.Path] = u
	s.order = append(s.order, u)
	return s, nil
}

// Path returns the import path of a cell.
func Path(seq int) string { return fmt.Sprintf("cells/%d", seq) }

// Support returns the cell that all others import.
func (s *Session) Support() *Unit { return s.order[0] }

// Import implements types.Importer.
func (s *Session) Import(path string) (*types.Package, error) {
	if u := s.units[path]; u != nil {
		return u.pkg, nil
	}
	return s.packages.Import(path)
}

// Accept adds a cell to the session, once it has been loaded.
func (s *Session) Accept(u *Unit) {
	s.units[u.Path] = u
	s.order = append(s.order, u)
	if u.isMain {
		s.main = u
	}
	for name := range u.local {
		s.local[name] = kept(u.File, name, u.local)
		delete(s.latest, name)
	}
	for _, name := range u.names() {
		s.latest[name] = u
		delete(s.local, name)
		if d := s.decls[name]; d != nil && !slices.Contains(u.decls, d) {
			delete(s.decls, name)
		}
	}
	for _, d := range u.decls {
		s.decls[d.name] = d
	}
	for _, m := range u.methods {
		if t := s.decls[m.recv]; t != nil {
			t.methods = append(slices.DeleteFunc(t.methods,
				func(o *decl) bool { return o.name == m.name }), m)
		}
	}
	maps.Copy(s.imports, u.imports)
	for _, d := range u.dots {
		if !slices.Contains(s.dots, d) {
			s.dots = append(s.dots, d)
		}
	}
}

// names returns the names that the cell declares for others.
func (u *Unit) names() []string {
	return slices.DeleteFunc(u.pkg.Scope().Names(), func(n string) bool {
		return strings.HasSuffix(n, "__") || n == "main" || n == "init" || n == "_"
	})
}

// object returns the latest declaration of a name in the session, or nil.
func (s *Session) object(name string) types.Object {
	if u := s.latest[name]; u != nil {
		return u.pkg.Scope().Lookup(name)
	}
	return nil
}

// forget removes the positions of everything that was checked since the last call, except those of
// keep.
func (s *Session) forget(keep *token.File) {
	for _, f := range s.scratch {
		if f != keep {
			s.fset.RemoveFile(f)
		}
	}
	s.scratch = s.scratch[:0]
}

func lineText(code string, line int) (string, bool) {
	lines := strings.Split(code, "\n")
	if line < 1 || line > len(lines) {
		return "", false
	}
	return lines[line-1], true
}

// mentions reports whether a type contains a named type for which is returns true.
func mentions(t types.Type, is func(*types.TypeName) bool) bool {
	seen := map[types.Type]bool{}
	var walk func(types.Type) bool
	walk = func(t types.Type) bool {
		if t == nil || seen[t] {
			return false
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			return walk(types.Unalias(t))
		case *types.Named:
			if is(t.Obj()) {
				return true
			}
			for a := range t.TypeArgs().Types() {
				if walk(a) {
					return true
				}
			}
		case *types.Pointer:
			return walk(t.Elem())
		case *types.Slice:
			return walk(t.Elem())
		case *types.Array:
			return walk(t.Elem())
		case *types.Chan:
			return walk(t.Elem())
		case *types.Map:
			return walk(t.Key()) || walk(t.Elem())
		case *types.Signature:
			return walk(t.Params()) || walk(t.Results())
		case *types.Tuple:
			for v := range t.Variables() {
				if walk(v.Type()) {
					return true
				}
			}
		case *types.Struct:
			for f := range t.Fields() {
				if walk(f.Type()) {
					return true
				}
			}
		}
		return false
	}
	return walk(t)
}
