package front

import (
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tests are the functions of a cell or program that package testing runs.
type tests struct {
	tests, benchmarks []string
}

// add adds a function that is a test or a benchmark.
func (t *tests) add(f *ast.FuncDecl) {
	if f.Recv != nil || f.Type.TypeParams != nil || f.Type.Results != nil ||
		len(f.Type.Params.List) != 1 || len(f.Type.Params.List[0].Names) > 1 {
		return
	}
	star, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return
	}
	of, ok := star.X.(*ast.SelectorExpr)
	if !ok {
		return
	}
	if id, ok := of.X.(*ast.Ident); !ok || id.Name != "testing" {
		return
	}
	name := f.Name.Name
	switch {
	case of.Sel.Name == "T" && named(name, "Test") && name != "TestMain":
		t.tests = append(t.tests, name)
	case of.Sel.Name == "B" && named(name, "Benchmark"):
		t.benchmarks = append(t.benchmarks, name)
	}
}

// named reports whether a name is the prefix, or has no lower-case letter after it.
func named(name, prefix string) bool {
	after, ok := strings.CutPrefix(name, prefix)
	first, _ := utf8.DecodeRuneInString(after)
	return ok && !unicode.IsLower(first)
}

func (t *tests) none() bool { return len(t.tests)+len(t.benchmarks) == 0 }

// call returns the statement that runs them, as `go test` does with these flags.
func (t *tests) call() string {
	if t.none() {
		return ""
	}
	list := func(kind string, names []string) string {
		var b strings.Builder
		for _, n := range names {
			fmt.Fprintf(&b, "{%q, %s}, ", n, n)
		}
		return "[]testing.Internal" + kind + "{" + b.String() + "}"
	}
	return "testing.Main(func(_, _ string) (bool, error) { return true, nil }, " +
		list("Test", t.tests) + ", " + list("Benchmark", t.benchmarks) + ", nil)"
}

// settings returns the statement that sets the flags of package testing in a session.
func (t *tests) settings() string {
	if t.none() {
		return ""
	}
	return `testing.Init(); flag.Set("test.v", "true"); flag.Set("test.bench", "."); `
}

// mainFunc returns the declaration of main for a cell that does not declare it: a package main has
// one. If the cell calls main, it is that of the latest cell which declares it.
func (d *draft) mainFunc() string {
	list, _ := scan(d.u.Code, false)
	uses, call := false, -1
	for i, l := range list {
		if l.lit != "main" || i > 0 && list[i-1].tok == token.PERIOD {
			continue
		}
		uses = true
		declared := i > 0 && (list[i-1].tok == token.FUNC || list[i-1].tok == token.RPAREN)
		if call < 0 && !declared && i+1 < len(list) && list[i+1].tok == token.LPAREN {
			call = l.off
		}
	}
	switch {
	case !uses || d.local["main"] != "":
	case d.s.main != nil:
		return fmt.Sprintf("func main() { %s.Main__() }\n", d.qualifier(d.s.main.pkg))
	case call >= 0:
		d.errs.add(token.Position{
			Filename: d.u.File, Line: lineOf(d.u.Code, call), Column: columnOf(d.u.Code, call),
		}, "undefined: main"+d.s.local["main"])
	}
	return "func main() {}\n"
}

// embedErrors returns an error for each variable whose content go build would embed.
func embedErrors(file, code string) (errs scanner.ErrorList) {
	if !strings.Contains(code, "//go:embed ") {
		return nil
	}
	list, _ := scan(code, true)
	for _, l := range list {
		if l.tok == token.COMMENT && strings.HasPrefix(l.lit, "//go:embed ") {
			errs.Add(token.Position{
				Filename: file, Line: lineOf(code, l.off), Column: columnOf(code, l.off),
			}, "go:embed is not possible here, because no folder of a package is built; "+
				"read the file with os.ReadFile or os.DirFS")
		}
	}
	return errs
}
