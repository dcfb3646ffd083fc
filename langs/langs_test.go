// Package langs_test checks the manifests in the folders of langs.
package langs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/kernel"
)

// home is the path of this folder in the image.
const home = "/opt/sandgate/langs/"

// TestManifests loads every language: Load rejects invalid JSON, and names, aliases or extensions
// of two languages. Every file of a driver that a manifest names must be in the repository, unless
// it is built.
func TestManifests(t *testing.T) {
	list, err := kernel.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("there is no language")
	}
	for _, m := range list {
		if _, err := os.Stat(filepath.Join(m.Name, "README.md")); err != nil {
			t.Errorf("%s has no README.md", m.Name)
		}
		if m.Editor == nil || m.Editor.Jupyter == "" || m.Editor.Short == "" {
			t.Errorf("%s does not say how editors show it", m.Name)
		}
		if m.Packages != nil && m.Packages.Script == "" {
			t.Errorf("%s has no installer %s", m.Name, m.Packages.Install)
		}
		if m.Warm == "" {
			t.Errorf("%s warms nothing up", m.Name)
		}
		for _, arg := range m.Argv {
			file, ours := strings.CutPrefix(arg, home+m.Name+"/")
			if !ours || filepath.Ext(file) == "" || filepath.Ext(file) == ".jar" {
				continue
			}
			if _, err := os.Stat(filepath.Join(m.Name, file)); err != nil {
				t.Errorf("%s starts %s, which is not there", m.Name, arg)
			}
		}
	}
	if m, err := kernel.Find(list, "py"); err != nil || m.Name != "python" {
		t.Errorf("py is %q, %v", m.Name, err)
	}
}
