package librechat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLanguages: each language of clients is one of the node, of the template programs, or a command.
func TestLanguages(t *testing.T) {
	names := map[string]bool{}
	manifests, _ := filepath.Glob("../../langs/*/manifest.json")
	for _, path := range manifests {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Name    string
			Aliases []string
		}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(path, err)
		}
		for _, name := range append(m.Aliases, m.Name) {
			names[name] = true
		}
	}
	programs, _ := filepath.Glob("../../deploy/templates/programs/files/usr/share/sandgate/programs/*")
	for _, path := range programs {
		names[strings.TrimSuffix(filepath.Base(path), ".json")] = true
	}
	for lang, l := range languages() {
		if !names[l.name] && l.command == nil {
			t.Errorf("%s is %s, which is no language", lang, l.name)
		}
	}
}
