package front

import (
	"go/ast"
	"go/parser"
	"go/types"
	"strings"
)

// noC is the error of code that needs cgo.
const noC = `import "C" is not possible in a cell, because it is compiled without a C compiler`

// Program checks a whole program, which is a cell with a package clause. The program neither uses
// nor changes the session.
func (s *Session) Program(seq int, file, code string) (*Unit, error) {
	u := &Unit{Seq: seq, File: file, Code: code, Path: Path(seq)}
	errs := &Errors{Name: "SyntaxError", Code: code}
	u.Source = "/*line " + file + ":1:1*/" + code
	f, err := parser.ParseFile(s.fset, "gen.go", u.Source,
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		errs.syntax(err)
		return nil, errs
	}
	errs.Name = "CompileError"
	if list := embedErrors(file, code); len(list) > 0 {
		errs.syntax(list)
		return nil, errs
	}
	for _, i := range f.Imports {
		if i.Path.Value == `"C"` {
			errs.add(s.fset.Position(i.Path.Pos()), noC)
			return nil, errs
		}
	}
	if found := testsOf(f); !hasMain(f) && !found.none() {
		// A file of tests, of any package, is a program that runs them.
		name := int(f.Name.Pos() - f.FileStart)
		u.Source = u.Source[:name] + "main" + u.Source[name+len(f.Name.Name):] +
			"\nfunc main() { " + found.call() + " }\n"
		if f, err = parser.ParseFile(s.fset, "gen.go", u.Source,
			parser.ParseComments|parser.SkipObjectResolution); err != nil {
			errs.syntax(err)
			return nil, errs
		}
		u.Tests = true
	}
	if f.Name.Name != "main" {
		errs.add(s.fset.Position(f.Name.Pos()), "a program is package main, not "+f.Name.Name)
		return nil, errs
	}
	if !hasMain(f) {
		errs.add(s.fset.Position(f.Name.Pos()), "function main is undeclared in the main package")
		return nil, errs
	}
	conf := types.Config{
		Importer: s, GoVersion: goVersion,
		Error: func(err error) {
			e := err.(types.Error)
			errs.add(s.fset.Position(e.Pos), s.plain(e.Msg))
		},
	}
	u.pkg, _ = conf.Check(u.Path, s.fset, []*ast.File{f}, nil)
	if len(errs.List) > 0 {
		return nil, errs
	}
	for _, i := range f.Imports {
		if path := strings.Trim(i.Path.Value, "`\""); path != "unsafe" {
			u.Imports = append(u.Imports, path)
		}
	}
	return u, nil
}

func hasMain(f *ast.File) bool {
	for _, d := range f.Decls {
		if x, ok := d.(*ast.FuncDecl); ok && x.Recv == nil && x.Name.Name == "main" {
			return true
		}
	}
	return false
}

// testsOf returns the tests of a file.
func testsOf(f *ast.File) (t tests) {
	for _, d := range f.Decls {
		if x, ok := d.(*ast.FuncDecl); ok {
			t.add(x)
		}
	}
	return t
}
