package front

import (
	"fmt"
	"go/importer"
	"go/token"
	"strings"
	"testing"
)

const testSupport = `package main
func Result__(...any) {}
func Var__(string, any) {}
func Keep__(func()) {}
`

func newNotebook(t *testing.T) *Notebook {
	t.Helper()
	std := map[string]string{"fmt": "fmt", "strings": "strings", "math": "math"}
	files := token.NewFileSet()
	n, err := NewNotebook(importer.ForCompiler(files, "source", nil), files, std, testSupport)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cellsOf returns the cells of a notebook, and the offset of the mark ‸ in one of them.
func cellsOf(codes ...string) (c Cells, cursor int) {
	for i, code := range codes {
		if at := strings.Index(code, "‸"); at >= 0 {
			c.At, cursor = i, at
			code = strings.Replace(code, "‸", "", 1)
		}
		c.Codes = append(c.Codes, code)
	}
	return c, cursor
}

func TestNotebookProblems(t *testing.T) {
	n := newNotebook(t)
	for _, c := range []struct {
		want  string
		codes []string
	}{
		{"", []string{"a := 1", "b := a + 1‸\nb"}},
		{"1:9-10 undefined: x", []string{"a := 1‸ + x"}},
		{
			`2:18-21 cannot use "s" (untyped string constant) as int value in argument to area`,
			[]string{
				"func area(r int) int { return r * r }",
				"é := 1‸\nfmt.Print(é, area(\"s\"))",
			},
		},
		{"1:10-11 expected ';', found x", []string{"print(1‸, )x"}},
		{"", []string{"x := later()‸", "func later() int { return 1 }"}},
		{"", []string{"broken := oops", "y := broken‸"}},
		{"", []string{"x := 1", "x := \"text\"", "strings.ToUpper(x)‸"}},
		{"1:15-16 declared and not used: v", []string{"func f() {‸ var v int }"}},
		{"2:4-8 undefined: fmt.Prnt", []string{"‸f := 1\nfmt.Prnt(f)"}},
		{"", []string{"a := 1", "package main\n\nfunc main() {}‸"}},
		{
			"3:14-15 undefined: a",
			[]string{"a := 1", "package main\n\nfunc main() { a() }‸"},
		},
		{"", []string{
			"type P struct{ X int }", "func (p P) Twice() int { return 2 * p.X }",
			"P{3}.Twice()‸",
		}},
	} {
		cells, _ := cellsOf(c.codes...)
		var got []string
		for _, p := range n.Problems(cells, func(string) bool { return false }) {
			got = append(got, fmt.Sprintf("%d:%d-%d %s", p.Line, p.Column, p.End, p.Message))
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%q: got %q, wanted %q", c.codes, got, c.want)
		}
	}
	cells, _ := cellsOf("undefined.X()‸")
	if got := n.Problems(cells, func(name string) bool { return true }); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestNotebookKeepsWhatIsUnchanged(t *testing.T) {
	n := newNotebook(t)
	cells, _ := cellsOf("a := 1", "b := a", "c := b‸")
	cells.Earlier = []string{"old := 2", "a := 1"}
	n.Problems(cells, nil)
	first := n.chain[0]
	if len(n.chain) != 3 || first.code != "old := 2" {
		t.Fatalf("%d cells, first %q", len(n.chain), first.code)
	}
	second := n.chain[1]
	cells.Codes[1] = "b := a + old"
	if got := n.Problems(cells, nil); len(got) != 0 {
		t.Error(got)
	}
	if n.chain[0] != first || n.chain[1] != second || n.chain[2].code != "b := a + old" {
		t.Error("unchanged cells were checked again")
	}
	count := 0
	n.base.fset.Iterate(func(*token.File) bool { count++; return true })
	for range 50 {
		n.Problems(cells, nil)
	}
	again := 0
	n.base.fset.Iterate(func(*token.File) bool { again++; return true })
	if again > count {
		t.Errorf("%d files grew to %d", count, again)
	}
}

func TestNotebookNames(t *testing.T) {
	n := newNotebook(t)
	for _, c := range []struct {
		want, fails string
		codes       []string
	}{
		{"total 0:1:0 0:2:18 1:1:0 1:2:4 1:3:21", "", []string{
			"total := 0\nfunc add(n int) { total += n }",
			"total‸, other := 3, 4\nadd(total)\nfmt.Println(\"total\", total)",
		}},
		{"x 0:1:7 0:2:6 0:3:1 0:4:8", "", []string{
			"func f(x int) int {\n\ty := x\n\tx‸++\n\treturn x + y\n}\nx := f(1)",
		}},
		{"X 0:1:19 0:2:36 1:1:11 1:2:2", "", []string{
			"type Point struct{ X, Y int }\nfunc (p Point) Sum() int { return p.X + p.Y }",
			"p := Point{X: 1}\np.X‸ + p.Sum()",
		}},
		{"Point 0:1:5 1:1:8 2:1:0", "", []string{
			"type Point struct{ X, Y int }",
			"func (p Point) Sum() int { return p.X + p.Y }", "Point‸{X: 1}.Sum()",
		}},
		{"", "", []string{"fmt.Print‸ln()"}},
		{"x 0:2:7 0:4:11 0:6:11", "", []string{
			"var v any = 1\nswitch x := v.(type) {\ncase int:\n\tfmt.Print(x‸)\ncase string:\n\tfmt.Print(x)\n}",
		}},
		{"a 0:1:0", "fresh is already a name here", []string{"a‸ := 1\nfresh := 2"}},
		{"String 0:2:11 1:1:5", "with the name fresh the code has an error: ", []string{
			"type T int\nfunc (t T) String‸() string { return \"\" }",
			"T(1).String()\nvar s fmt.Stringer = T(1)",
		}},
	} {
		cells, cursor := cellsOf(c.codes...)
		name, places, err := n.Names(cells, cursor, "")
		got := name
		for _, p := range places {
			got += fmt.Sprintf(" %d:%d:%d", p.Cell, p.Line, p.Column)
		}
		if err != nil || got != c.want {
			t.Errorf("%q: got %q, %v, wanted %q", c.codes, got, err, c.want)
		}
		_, _, err = n.Names(cells, cursor, "fresh")
		if c.fails == "" && err != nil ||
			c.fails != "" && (err == nil || !strings.HasPrefix(err.Error(), c.fails)) {
			t.Errorf("%q: %v, wanted %q", c.codes, err, c.fails)
		}
	}
	cells, cursor := cellsOf("a‸ := 1")
	for _, fresh := range []string{"1a", "if", "a b", "_"} {
		if _, _, err := n.Names(cells, cursor, fresh); err == nil {
			t.Errorf("%q is a name", fresh)
		}
	}
}

func TestNotebookDefinition(t *testing.T) {
	n := newNotebook(t)
	for want, codes := range map[string][]string{
		"1:1:0 ": {"x := 1", "x := 2", "x‸", "x := 4"},
		"2:1:5 ": {"later‸()", "", "func later() {}"},
		"0:1:5 ": {"func f() { f() }", "f‸()"},
	} {
		cells, cursor := cellsOf(codes...)
		d, ok := n.Definition(cells, cursor, nil)
		if !ok || fmt.Sprintf("%d:%d:%d %s", *d.Cell, d.Line, *d.Column, d.File) != want {
			t.Errorf("%q: %v %+v, wanted %s", codes, ok, d, want)
		}
	}
	cells, cursor := cellsOf("fmt.Println‸()")
	if d, ok := n.Definition(cells, cursor, []string{"/"}); !ok || d.Cell != nil || d.Line < 200 ||
		!strings.HasSuffix(d.File, "src/fmt/print.go") {
		t.Errorf("%v %+v", ok, d)
	}
	cells, cursor = cellsOf("a‸ + 1", "\"text\"")
	if _, ok := n.Definition(cells, cursor, nil); ok {
		t.Error("an undefined name has a definition")
	}
}

func TestNotebookSignature(t *testing.T) {
	n := newNotebook(t)
	for _, c := range []struct {
		label, parameter, doc string
		codes                 []string
	}{
		{"func area(r int, name string) int", "name string", "Area is it.", []string{
			"// Area is it.\nfunc area(r int, name string) int { return r * r }", "area(1, ‸",
		}},
		{
			"func strings.Replace(s string, old string, new string, n int) string", "old string",
			"Replace returns a copy",
			[]string{"x := strings.Replace(\"𝒳(\", ‸\nfmt.Print(x)"},
		},
		{
			"func append(slice []Type, elems ...Type) []Type", "elems ...Type", "The append",
			[]string{"x := append(nil, 1, ‸)"},
		},
		{
			"func fmt.Printf(format string, a ...any) (n int, err error)", "a ...any", "Printf",
			[]string{"fmt.Printf(\"x\", 1, []int{1, 2}, ‸"},
		},
		{
			"func (*strings.Builder).WriteString(s string) (int, error)", "s string", "WriteString",
			[]string{"var b strings.Builder\nb.WriteString(‸"},
		},
		{"func(a int, b string)", "b string", "", []string{
			"g := func(a int, b string) {}", "func f() {\n\tif true {\n\t\tg(fmt.Sprint(1, 2) != \"\", ‸\n\t}\n}",
		}},
		{"", "", "", []string{"int(‸"}},
		{"", "", "", []string{"x := 1‸"}},
		{"", "", "", []string{"fmt.Print(func() {\n\tx := 1‸\n})"}},
	} {
		cells, cursor := cellsOf(c.codes...)
		s, ok := n.Signature(cells, cursor)
		parameter := ""
		if ok && s.Active < len(s.Parameters) {
			p := s.Parameters[s.Active]
			parameter = s.Label[p[0]:p[1]]
		}
		if ok != (c.label != "") || s.Label != c.label || parameter != c.parameter ||
			!strings.HasPrefix(s.Doc, c.doc) {
			t.Errorf("%q: %v %+v %q", c.codes, ok, s, parameter)
		}
	}
}

func TestNotebookCompletes(t *testing.T) {
	n := newNotebook(t)
	cells, cursor := cellsOf("type P struct{ Width int }\np := P{}", "p.W‸")
	list, start, end := n.Complete(cells, cursor)
	if len(list) != 1 || list[0].Text != "Width" || start != 2 || end != 3 {
		t.Error(list, start, end)
	}
	cells, cursor = cellsOf("// Area is it.\nfunc area(r int) int { return r }", "area‸(1)")
	if x, ok := n.Describe(cells, cursor); !ok || x.Signature != "func area(r int) int" || x.Doc != "Area is it." {
		t.Errorf("%v %+v", ok, x)
	}
	cells.Codes[0] = strings.Repeat("x", maxNotebook)
	if list, _, _ := n.Complete(cells, cursor); len(list) != 0 {
		t.Error("too much code was checked")
	}
}

func TestFormat(t *testing.T) {
	for code, want := range map[string]string{
		"a:=1;b:=2\nfunc  f( )int{return a}\n\n\n// c\nx:=f( )  // end\n\nx,b": "a := 1\nb := 2\nfunc f() int { return a }\n\n// c\nx := f() // end\n\nx,b",
		"import \"os\"\nimport \"fmt\"\n\nfmt.Println( os.Args )":              "import \"os\"\nimport \"fmt\"\n\nfmt.Println(os.Args)",
		"type T struct{\na int\nbcd string\n}\nt:=T{}\nvar q=1":                "type T struct {\n\ta   int\n\tbcd string\n}\nt := T{}\nvar q = 1",
		"": "", "// only": "// only",
		"package main\nfunc main() { }": "package main\n\nfunc main() {}",
		"if x   {\n  y()\n}":            "if x {\n\ty()\n}",
	} {
		out, err := Format(code)
		if err != nil || out != want {
			t.Errorf("%q: got %q, %v, wanted %q", code, out, err, want)
		}
		if again, err := Format(out); err != nil || again != out {
			t.Errorf("%q: formatted again: %q, %v", code, again, err)
		}
	}
	if _, err := Format("x := 1\n\nfunc f() {"); err == nil || err.Error() != "line 3: expected '}', found 'EOF'" {
		t.Error(err)
	}
}
