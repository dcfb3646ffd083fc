package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goroot returns a toolchain with its source.
func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestPlacesAreThere applies every edit to this Go. If it fails after an upgrade, the message names
// the place to check.
func TestPlacesAreThere(t *testing.T) {
	out := t.TempDir()
	n, err := write(goroot(t), "../_src", out)
	if err != nil {
		t.Fatal(err)
	}
	if n < len(edits) {
		t.Errorf("%d places in %d files", n, len(edits))
	}
	if _, err := os.Stat(filepath.Join(out, "overlay.json")); err != nil {
		t.Error(err)
	}
}

// TestMovedPlacesAreTold edits the source as another version of Go might have it.
func TestMovedPlacesAreReported(t *testing.T) {
	for rel, list := range edits {
		src, err := os.ReadFile(filepath.Join(goroot(t), "src", rel))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			_, name, method := strings.Cut(e.in, ".")
			if !method {
				name = e.in
			}
			moved := strings.NewReplacer("func "+name+"(", "func moved"+name+"(", ") "+name+"(",
				") moved"+name+"(",
				"type "+name+" struct", "type moved"+name+" struct").Replace(string(src))
			if _, _, err := apply(rel, []byte(moved), list); err == nil ||
				!strings.Contains(err.Error(), "there is no") {
				t.Errorf("%s without %s: %v", rel, e.in, err)
			}
		}
	}
}

func TestApply(t *testing.T) {
	const src = `package p

// f is edited.
func (x *T) f(a int) {
	// A comment, which is not part of the statement.
	var b  int
	if a   ==
		1 && b == 2 {
		g(a)
	}
	switch a {
	case 1,
		2:
		g(b)
	}
}

type T struct { n int }
`
	cases := []struct {
		e       edit
		n       int
		want    string
		problem string
	}{
		{
			e: edit{in: "T.f", at: "a == 1", text: or("z")}, n: 1,
			want: "if (a   ==\n\t\t1 || z) && b == 2 {",
		},
		{
			e: edit{in: "T.f", at: "var b int", how: after, text: "; h()"}, n: 1,
			want: "var b  int; h()",
		},
		{
			e: edit{in: "T.f", at: "if a == 1 && b == 2", how: before, text: "h(); "}, n: 1,
			want: "h(); if a",
		},
		{
			e: edit{in: "T.f", at: "if a == 1 && b == 2", how: inside, text: " h();"}, n: 1,
			want: "2 { h();",
		},
		{e: edit{in: "T.f", at: "case 1, 2:", how: inside, text: " h();"}, n: 1, want: "2: h();"},
		{e: edit{in: "T.f", how: inside, text: " h();"}, n: 1, want: "f(a int) { h();"},
		{e: edit{in: "T", text: "; m int "}, n: 1, want: "n int ; m int }"},
		{e: edit{in: "T.f", at: "g", n: 2, text: "h"}, n: 2, want: "h(b)"},
		{e: edit{in: "T.f", at: "a == 2", text: "z"}, problem: "0 places"},
		{e: edit{in: "T.f", at: "g", text: "h"}, problem: "2 places"},
		{e: edit{in: "T.g", at: "a", text: "h"}, problem: "no longer a T.g"},
		{e: edit{in: "T.f", at: "a == 1", text: "{"}, problem: "is not valid Go"},
	}
	for _, c := range cases {
		got, n, err := apply("p.go", []byte(src), []edit{c.e})
		switch {
		case c.problem != "":
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%+v: %v, wanted %q", c.e, err, c.problem)
			}
		case err != nil:
			t.Errorf("%+v: %v", c.e, err)
		case n != c.n || !strings.Contains(string(got), c.want):
			t.Errorf("%+v: %d places, got %s", c.e, n, got)
		}
	}
}
