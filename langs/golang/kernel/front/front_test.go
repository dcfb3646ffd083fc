package front

import (
	"go/importer"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	cases := []struct {
		src  string
		want []string
	}{
		{"a := 1; b := 2\nc", []string{"a := 1", "b := 2", "c"}},
		{"for i := 0; i < 3; i++ { f(); g() }; h()", []string{
			"for i := 0; i < 3; i++ { f(); g() }",
			"h()",
		}},
		{"if v := f(func() { a; b }); v { c }", []string{"if v := f(func() { a; b }); v { c }"}},
		{"switch x := y; { case true: }\nz", []string{"switch x := y; { case true: }", "z"}},
		{"L:\nfor {\n}\n", []string{"L:\nfor {\n}"}},
		{"func f() {}\nfunc (t T) g() {}\nfunc() {}()", []string{
			"func f() {}", "func (t T) g() {}",
			"func() {}()",
		}},
		{"f(\n1,\n2,\n)", []string{"f(\n1,\n2,\n)"}},
		{"/* c */ a // d\n\n", []string{"a"}},
		{"s := `a;\nb`", []string{"s := `a;\nb`"}},
		{"s := `a\r\nb`\r\nt := 1\r\n", []string{"s := `a\r\nb`", "t := 1"}},
		{"00\x89\n0", []string{"00\x89", "0"}},
		{";;", nil},
		{"", nil},
	}
	for _, c := range cases {
		var got []string
		for _, p := range split(c.src) {
			got = append(got, p.text)
			if c.src[p.off:p.off+len(p.text)] != p.text {
				t.Errorf("%q: %q is not at %d", c.src, p.text, p.off)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, wanted %q", c.src, got, c.want)
		}
	}
	kinds := []kind{importDecl, typeDecl, constDecl, varDecl, function, method, statement}
	for i, p := range split(
		"import \"a\"\ntype t int\nconst c = 1\nvar v int\nfunc f() {}\nfunc (t) m() {}\nfunc(t) int { return 1 }(2)") {
		if p.kind != kinds[i] {
			t.Errorf("%q is of kind %d, wanted %d", p.text, p.kind, kinds[i])
		}
	}
}

func TestDocIsTheCommentBefore(t *testing.T) {
	p := split("// away\n\n// first\n// second\nfunc f() {}")
	if got := plainComment(p[0].doc); got != "first\nsecond" {
		t.Errorf("got %q", got)
	}
}

func TestIsComplete(t *testing.T) {
	for code, want := range map[string]string{
		"": "complete", "x := 1": "complete", "if x {": "incomplete", "f(1,": "incomplete",
		"`raw": "incomplete", "\"open": "invalid",
		"a b": "invalid", ")": "invalid", "x +": "incomplete", "x++": "complete",
		"/* c": "incomplete", "type T struct": "incomplete",
		"package main\nfunc main() {}": "complete", "package main\nfunc main() {": "incomplete",
		"return": "complete",
	} {
		if got, _ := IsComplete(code); got != want {
			t.Errorf("%q is %s, wanted %s", code, got, want)
		}
	}
}

func TestClosers(t *testing.T) {
	if got := closers("f(func() { a[g("); got != ")]\n})" {
		t.Errorf("got %q", got)
	}
}

// TestInstrument counts the checks and verifies that they move no position.
func TestInstrument(t *testing.T) {
	const src = `package main
/*line cell1.go:1:1*/func f() { for { g() } }
func leaf() int { return 1 }
func h() { L: goto L }
func k() { L: for range 3 { break L } }
`
	got, err := instrument(src)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(got, "Check__();"); n != 4 {
		t.Errorf("%d checks, wanted 4 (f, its loop, h's label, k's loop):\n%s", n, got)
	}
	if !strings.Contains(got, "{Check__();/*line cell1.go:1:17*/ g()") {
		t.Errorf("the position behind a check is lost:\n%s", got)
	}
}

// session returns a session with Go's own type checker, which does not see unexported names
// of other cells. TestBothLinkers tests features that need two cells.
func session(t *testing.T) *Session {
	t.Helper()
	s, err := NewSession(importer.ForCompiler(token.NewFileSet(), "source", nil),
		map[string]string{"fmt": "fmt", "strings": "strings", "io": "io"},
		"package main\nfunc Check__() {}\nfunc Result__(...any) {}\nfunc Var__(string, any) {}\nfunc Keep__(any) {}\nfunc main() {}\n")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTranslate(t *testing.T) {
	s := session(t)
	u, err := s.Translate(1, "cell1.go",
		"X := strings.Repeat(\"a\", 2)\nvar Y, Z = 1, []io.Reader{}\nX + fmt.Sprint(Y)")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"var X string\n", "var Y int\n", "var Z []io__.Reader\n", `Var__("X", &X)`,
		"/*line cell1.go:1:1*/X = /*line cell1.go:1:6*/strings.Repeat",
		"Result__(/*line cell1.go:3:1*/X + fmt.Sprint(Y))", "import io \"io\"", "package main",
	} {
		if !strings.Contains(u.Source, want) {
			t.Errorf("no %q in:\n%s", want, u.Source)
		}
	}
}

func TestTranslateErrors(t *testing.T) {
	s := session(t)
	for code, want := range map[string]string{
		"a := 1\nb := nosuch":            "CompileError cell.go:2:6: undefined: nosuch",
		"f(":                             "SyntaxError cell.go:1:3: ",
		"x, 1 := 1, 2":                   "SyntaxError cell.go:1:1: non-name on left side of :=",
		"import \"C\"":                   "CompileError cell.go:1:8: import \"C\" is not possible",
		"func f() { x := 1 }":            "CompileError cell.go:1:12: declared and not used: x",
		"var s string = 1":               "CompileError cell.go:1:16: cannot use 1",
		"\tfmt.Println(\n\t\tundefd,\n)": "CompileError cell.go:2:3: undefined: undefd",
	} {
		_, err := s.Translate(1, "cell.go", code)
		e, ok := err.(*Errors)
		if !ok {
			t.Errorf("%q gave %v", code, err)
		} else if got := e.Name + " " + e.Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%q gave %q, wanted %q", code, got, want)
		}
	}
}

// FuzzTranslate passes any text to the front end, which must return a unit or errors.
func FuzzTranslate(f *testing.F) {
	for _, seed := range []string{
		"x := 1", "func f() {", "}", "L: goto L", "import (", "var a, b",
		"type T[P any] struct{}", "package p", "a :=", ":= 1", "/*line x:1*/a", "func (",
		"x.y := 2", "00\x89\n0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, code string) {
		if len(code) > 1000 || strings.Contains(code, "import") {
			return
		}
		s, err := NewSession(importer.Default(), map[string]string{},
			"package main\nfunc Check__() {}\nfunc Result__(...any) {}\nfunc Var__(string, any) {}\nfunc Keep__(any) {}\nfunc main() {}\n")
		if err != nil {
			t.Fatal(err)
		}
		u, err := s.Translate(1, "cell1.go", code)
		if e, ok := err.(*Errors); err != nil && (!ok || len(e.List) == 0) {
			t.Errorf("%q: %v", code, err)
		}
		if err == nil && u.Source == "" {
			t.Errorf("%q gave no source", code)
		}
		s.Complete(code, len(code)/2)
		s.Inspect(code, len(code)/2)
		IsComplete(code)
	})
}
