package main

import (
	"context"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// goCorpus has the examples of Go's standard library. The body of an example is a cell, and its
// file's imports and declarations are a cell before it.
func goCorpus() corpus {
	return corpus{language: "golang", read: readGo, prepare: prepareGo}
}

func readGo(dir string) ([]*program, error) {
	files, err := find(dir, "_test.go")
	if err != nil {
		return nil, err
	}
	var list []*program
	for _, path := range files {
		if strings.Contains(path, "/testdata/") || strings.Contains(path, "/cmd/") ||
			strings.Contains(path, "/internal/") {
			continue
		}
		p, err := readExamples(dir, path)
		if err != nil {
			return nil, err
		}
		if len(p.cells) > 0 {
			list = append(list, p)
		}
	}
	return list, nil
}

// readExamples reads the examples of a file.
func readExamples(dir, path string) (*program, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &program{name: relative(dir, path), dir: filepath.Dir(path)}
	if match, err := build.Default.MatchFile(p.dir, filepath.Base(path)); err != nil || !match {
		return p, err // for another system, or an experiment
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	text := func(from, to token.Pos) string {
		return string(source[files.Position(from).Offset:files.Position(to).Offset])
	}
	examples := doc.Examples(f)
	if len(examples) == 0 || !strings.HasSuffix(f.Name.Name, "_test") {
		return p, nil
	}
	var setup strings.Builder
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Example") ||
			strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Benchmark")) {
			continue
		}
		setup.WriteString(text(d.Pos(), d.End()) + "\n")
	}
	p.setup = []string{setup.String()}
	others, err := othersOf(path, f.Name.Name)
	if err != nil {
		return nil, err
	}
	for _, e := range examples {
		body, ok := e.Code.(*ast.BlockStmt)
		if !ok {
			body = bodyOf(f, "Example"+e.Name)
		}
		c := &cell{name: "Example" + e.Name}
		c.check = func(o outcome) string { return checkExample(e, f.Name.Name, o) }
		p.cells = append(p.cells, c)
		switch {
		case e.Output == "" && !e.EmptyOutput:
			c.skip = "no output to compare with"
			continue
		case body == nil:
			c.skip = "no body"
			continue
		case usesAny(body, others):
			c.skip = "uses another file of its package"
			continue
		}
		c.code = text(body.Lbrace+1, body.Rbrace)
		if returns(body) {
			c.code = "func() {" + c.code + "}()"
		}
	}
	return p, nil
}

// othersOf returns the names that the other files of a package of tests declare.
func othersOf(path, name string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*_test.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, other := range files {
		f, err := parser.ParseFile(token.NewFileSet(), other, nil, 0)
		if err != nil || other == path || f.Name.Name != name {
			continue
		}
		for n := range f.Scope.Objects { //nolint:staticcheck // names are enough here
			names[n] = true
		}
	}
	return names, nil
}

// usesAny reports whether a body has one of the names.
func usesAny(body *ast.BlockStmt, names map[string]bool) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Obj == nil && names[id.Name] {
			found = true
		}
		return true
	})
	return found
}

// bodyOf returns the body of a function of a file.
func bodyOf(f *ast.File, name string) *ast.BlockStmt {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
			return fn.Body
		}
	}
	return nil
}

// returns reports whether the body has a return statement of its own function.
func returns(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			found = true
		}
		return true
	})
	return found
}

// checkExample compares as `go test` does.
// Types of the file's package are types of the package main in a kernel.
func checkExample(e *doc.Example, in string, o outcome) string {
	if o.failed {
		return o.name + ": " + o.value
	}
	got, want := strings.TrimSpace(o.stdout), strings.TrimSpace(e.Output)
	want = strings.ReplaceAll(want, in+".", "main.")
	if e.Unordered {
		sorted := func(s string) string {
			lines := strings.Split(s, "\n")
			slices.Sort(lines)
			return strings.Join(lines, "\n")
		}
		got, want = sorted(got), sorted(want)
	}
	if got != want {
		return wanted(want, got)
	}
	return ""
}

// prepareGo writes the files that the examples read.
func prepareGo(ctx context.Context, b *box, p *program) error {
	names := regexp.MustCompile(`testdata/[\w./-]+`)
	for _, c := range p.cells {
		for _, name := range names.FindAllString(c.code, -1) {
			data, err := os.ReadFile(filepath.Join(p.dir, name))
			if err != nil {
				continue // the example creates it
			}
			if err := b.write(ctx, name, string(data)); err != nil {
				return err
			}
		}
	}
	return nil
}

// goReasons explains examples that depend on their own file, or on the set-up of its tests.
func goReasons() []reason {
	return []reason{
		because("reads a file of its package", `example_test\.go`, `function not found|open example_test`),
		because("names a line of its own file", "", `wanted.*\w+_test\.go:\d+`),
		because("prints the name of its function", "", `Cell__`),
		because("has the time zone of the tests of package time", "", `PST`),
	}
}
