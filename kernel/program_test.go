package kernel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandgate/sandgate/protocol/fault"
)

const goodProgram = `{"name": "toy", "display_name": "Toy", "aliases": ["ty"], "extensions": [".toy"],
"compile": ["toyc", "-o", "{program}", "{file}"], "run": ["{program}", "-x"], "version": ["toyc", "-v"]}`

func TestParseProgram(t *testing.T) {
	p, err := ParseProgram([]byte(goodProgram))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.CompileArgs("a.toy", "a"); !slices.Equal(got, []string{"toyc", "-o", "a", "a.toy"}) {
		t.Errorf("CompileArgs = %q", got)
	}
	if got := p.RunArgs("a.toy", "a", "{file}"); !slices.Equal(got, []string{"a", "-x", "{file}"}) {
		t.Errorf("RunArgs = %q", got)
	}
	for name, change := range map[string][2]string{
		"unknown key":     {`"aliases"`, `"alias"`},
		"no name":         {`"name": "toy"`, `"name": ""`},
		"no extension":    {`[".toy"]`, `[]`},
		"second object":   {`"-v"]}`, `"-v"]}{}`},
		"nothing made":    {`"-o", "{program}", `, ``},
		"nothing read":    {`, "{file}"]`, `]`},
		"no compiler":     {`["toyc", "-o"`, `["{file}", "-o"`},
		"another program": {`["{program}", "-x"]`, `["toy", "{file}"]`},
		"no command":      {`["{program}", "-x"]`, `[]`},
	} {
		bad := strings.Replace(goodProgram, change[0], change[1], 1)
		if bad == goodProgram {
			t.Fatalf("%s: nothing changed", name)
		}
		if _, err := ParseProgram([]byte(bad)); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := ParseProgram(make([]byte, maxManifest+1)); !fault.Is(err, fault.TooLarge) {
		t.Errorf("too large: got %v", err)
	}
}

// TestDeclared finds languages that a file system declares. Other languages and Jupyter kernels keep
// their names.
func TestDeclared(t *testing.T) {
	files := fstest.MapFS{}
	add := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text)} }
	add("usr/share/jupyter/kernels/iruby/kernel.json", `{"argv": ["iruby"], "language": "ruby"}`)
	add("usr/share/sandgate/programs/toy.json", goodProgram)
	add("usr/share/sandgate/programs/other.json", goodProgram) // its name is not the file's
	add("usr/share/sandgate/programs/broken.json", "{")
	for _, name := range []string{"ruby", "python"} {
		add("home/user/.local/share/sandgate/programs/"+name+".json", `{"name": "`+name+
			`", "display_name": "X", "extensions": [".py", ".x"], "run": ["x", "{file}"]}`)
	}
	known := []Manifest{{Name: "python", Aliases: []string{"ty"}, Extensions: []string{".py"}}}
	found := DeclarationFiles(files)
	for name := range found {
		if !IsDeclaration(name) {
			t.Errorf("%s is not taken from a template's files", name)
		}
	}
	list := Declared(found, known)
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, []string{"ruby", "toy"}) {
		t.Fatalf("the languages are %q", names)
	}
	at := "/usr/share/sandgate/programs/toy.json"
	toy := list[1]
	if len(toy.Aliases) != 0 || !slices.Equal(toy.Argv, []string{ProgramDriver, at}) ||
		!slices.Equal(toy.Run("a.toy", "b"), []string{ProgramDriver, "run", at, "a.toy", "b"}) {
		t.Errorf("toy is %+v", toy)
	}
	if tool, ok := DeclarationTool(at[1:], found[at[1:]]); !ok || tool != "toyc" {
		t.Errorf("toy needs %q, %v", tool, ok)
	}
}

// TestTemplatePrograms checks the program files of the template programs.
func TestTemplatePrograms(t *testing.T) {
	paths, err := filepath.Glob("../deploy/templates/programs/files/usr/share/sandgate/programs/*")
	if err != nil || len(paths) == 0 {
		t.Fatal("there are no program files", err)
	}
	files := map[string][]byte{}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseProgram(text); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		files["usr/share/sandgate/programs/"+filepath.Base(p)] = text
	}
	known, err := Load("../langs")
	if err != nil {
		t.Fatal(err)
	}
	if list := Declared(files, known); len(list) != len(paths) {
		t.Errorf("%d languages of %d files", len(list), len(paths))
	}
}
