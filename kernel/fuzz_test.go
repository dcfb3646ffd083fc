package kernel

import (
	"testing"
)

// FuzzDeclared fails when a file in an image or in a template, which declares a language, makes the
// node panic.
func FuzzDeclared(f *testing.F) {
	f.Add([]byte(goodProgram))
	f.Add([]byte(`{"argv": ["iruby", "{connection_file}"], "language": "ruby", "display_name": "R"}`))
	f.Add([]byte(`{"argv": [], "language": "", "env": {"A": null}, "metadata": []}`))
	f.Add([]byte(`{"name": "x", "display_name": "X", "extensions": [".x"], "compile": [], "run": []}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = ParseManifest(text)
		_, _ = ParseProgram(text)
		for _, name := range []string{
			"usr/share/jupyter/kernels/x/kernel.json", "usr/share/sandgate/programs/toy.json",
		} {
			_, _ = DeclarationTool(name, text)
			Declared(map[string][]byte{name: text}, nil)
		}
	})
}
