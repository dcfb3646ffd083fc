package front

import (
	"go/ast"
	"go/parser"
	"go/types"
	"strings"
)

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
