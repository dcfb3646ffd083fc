package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sandgate/sandgate/kernel"
)

// manifests are the languages by name and by alias.
type manifests map[string]*kernel.Manifest

// readManifests reads all manifests. It leaves out a language whose manifest is
// invalid.
func readManifests(dir string) manifests {
	found := manifests{}
	paths, _ := filepath.Glob(filepath.Join(dir, "*", "manifest.json"))
	for _, p := range paths {
		var m kernel.Manifest
		if b, err := os.ReadFile(p); err != nil || json.Unmarshal(b, &m) != nil || m.Name == "" ||
			len(m.Argv) == 0 {
			continue
		}
		for _, a := range m.Aliases {
			if found[a] == nil {
				found[a] = &m
			}
		}
		found[m.Name] = &m
	}
	return found
}

// find returns the language with a name or alias, or nil. It looks for declared languages each time,
// because a template's files and packages may have brought some.
func (m manifests) find(name string) *kernel.Manifest {
	if found := m[name]; found != nil {
		return found
	}
	var known []kernel.Manifest
	for key, l := range m {
		if key == l.Name {
			known = append(known, *l)
		}
	}
	specs := kernel.Declared(kernel.DeclarationFiles(os.DirFS("/")), known)
	if found, err := kernel.Find(specs, name); err == nil {
		return &found
	}
	return nil
}

// deriveSeed returns a channel's seed, derived from the sandbox's seed.
func deriveSeed(seed string, channel uint32) string {
	sum := sha256.Sum256([]byte(seed + ":" + strconv.FormatUint(uint64(channel), 10)))
	return hex.EncodeToString(sum[:])
}
