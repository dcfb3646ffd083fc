package kernel

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestKernelspecs finds kernelspecs in a file system. Languages of the image keep their names, and
// invalid ones are left out.
func TestKernelspecs(t *testing.T) {
	const python = `{"argv": ["python3", "-m", "x"], "display_name": "Python 3", "language": "python"}`
	files := fstest.MapFS{}
	add := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text)} }
	add("usr/share/jupyter/kernels/python3/kernel.json", python)
	add("usr/share/jupyter/kernels/ir/kernel.json",
		`{"argv": ["R"], "display_name": "R", "language": "R"}`)
	add("usr/share/jupyter/kernels/ir/logo-64x64.png", "small")
	add("usr/share/jupyter/kernels/ir/logo-svg.svg", strings.Repeat("x", maxLogo+1))
	add("home/user/.local/share/jupyter/kernels/ir/kernel.json",
		`{"argv": ["R", "mine"], "display_name": "My R", "language": "R"}`)
	add("usr/local/share/jupyter/kernels/Mine.1/kernel.json", `{"argv": ["mine"], "language": ""}`)
	add("usr/share/jupyter/kernels/none/kernel.json", `{"argv": [], "language": "none"}`)
	add("usr/share/jupyter/kernels/bad/kernel.json", `{`)
	known := []Manifest{{Name: "python", Aliases: []string{"python3"}, Extensions: []string{".py"}}}
	found := KernelspecFiles(files)
	for name := range found {
		if !IsKernelspec(name) {
			t.Errorf("%s is not taken from a template's files", name)
		}
	}
	for _, name := range []string{
		"usr/share/jupyter/kernels/kernel.json", "usr/share/jupyter/kernels/a/b/kernel.json",
		"usr/share/jupyter/kernels/a/kernel.js", "tmp/share/jupyter/kernels/a/kernel.json",
	} {
		if IsKernelspec(name) {
			t.Errorf("%s is taken as a kernelspec", name)
		}
	}
	list := Kernelspecs(found, known)
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, []string{"python3-jupyter", "r"}) {
		t.Fatalf("the languages are %q", names)
	}
	// The user's own kernelspec hides the system's, with its logo.
	r := list[1]
	if r.Display != "My R" || !slices.Equal(r.Aliases, []string{"ir"}) ||
		!slices.Equal(r.Extensions, []string{".r"}) || r.Editor.Logo != "" ||
		!slices.Equal(r.Argv, []string{
			JupyterDriver, "r", "/home/user/.local/share/jupyter/kernels/ir",
		}) || !slices.Equal(r.Run("a.r"), []string{"Rscript", "a.r"}) {
		t.Errorf("R is %+v", r)
	}
	delete(found, "home/user/.local/share/jupyter/kernels/ir/kernel.json")
	list = Kernelspecs(found, known)
	if logo := list[1].Editor.Logo; logo != "data:image/png;base64,c21hbGw=" {
		t.Errorf("its logo is %q", logo)
	}
	for _, m := range list {
		if m.Name == "r" {
			if err := m.check(); err != nil {
				t.Error(err)
			}
		}
	}
}
