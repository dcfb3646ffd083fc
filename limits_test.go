package sandgate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The limits of the code's size, in lines and methods, without tests.
const (
	maxPackageLines  = 4000
	maxFileLines     = 600
	maxFunctionLines = 80
	maxTypeMethods   = 40
)

// oversized lists the code that may be over a limit, each with the reason. A key is a
// package's folder, a file, folder.Function, folder.Type.Method or folder.Type.
func oversized() map[string]string {
	return map[string]string{
		"bench.measureLanguage":           "a benchmark is read from top to bottom",
		"bench.measureTerminals":          "a benchmark is read from top to bottom",
		"client.Sandbox":                  "a method for each verb of a session, which users call on one value",
		"client/wire.Client":              "a method for each operation of the REST interface, which users call on one value",
		"client/clienttest.Server.do":     "one case for each operation of the scripted server",
		"internal/sandbox/gvisor.Sandbox": "the interface of a machine plus the steps of its life, which share one lock",

		"langs/golang/kernel/front/translate.go": "one pass over the syntax tree of a cell",
		"langs/golang/kernel/rich.tree.clean":    "one case for each kind of HTML node",
		"langs/golang/kernel/session.Session":    "the state of one kernel, used by a single goroutine",
	}
}

// size is what TestSizes counts of a package.
type size struct {
	lines   int
	methods map[string]int
}

// TestSizes fails when a package, file, function or type is over its limit without a reason, or when
// oversized has a reason for one that is within its limit.
func TestSizes(t *testing.T) {
	reasons := oversized()
	used := map[string]bool{}
	check := func(what string, n, limit int) {
		if n <= limit {
			return
		}
		if reasons[what] == "" {
			t.Errorf("%s has %d, the limit is %d: divide it, or state the reason in oversized",
				what, n, limit)
		}
		used[what] = true
	}
	packages := map[string]*size{}
	for _, f := range tracked(t, "*.go") {
		if strings.HasSuffix(f, "_test.go") || strings.Contains(f, "testdata/") ||
			strings.Contains(f, "/_") {
			continue
		}
		dir := filepath.Dir(f)
		p := packages[dir]
		if p == nil {
			p = &size{methods: map[string]int{}}
			packages[dir] = p
		}
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(src), "\n")
		p.lines += lines
		check(f, lines, maxFileLines)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, f, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := dir + "."
			if r := receiver(fn); r != "" {
				p.methods[r]++
				name += r + "."
			}
			check(name+fn.Name.Name, fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line+1,
				maxFunctionLines)
		}
	}
	for dir, p := range packages {
		check(dir, p.lines, maxPackageLines)
		for name, n := range p.methods {
			check(dir+"."+name, n, maxTypeMethods)
		}
	}
	for what := range reasons {
		if !used[what] {
			t.Errorf("%s is within its limit: remove its reason from oversized", what)
		}
	}
}

// receiver is the name of a method's type, without type parameters.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	x := fn.Recv.List[0].Type
	if p, ok := x.(*ast.StarExpr); ok {
		x = p.X
	}
	switch g := x.(type) {
	case *ast.IndexExpr:
		x = g.X
	case *ast.IndexListExpr:
		x = g.X
	}
	if id, ok := x.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
