package kernel

import (
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// An image and a template's files declare languages beside those of the node's image: Jupyter
// kernels with kernelspecs, compilers and interpreters with program files.

// IsDeclaration reports whether a path without a slash at the beginning names a file that
// DeclarationFiles would return.
func IsDeclaration(name string) bool { return IsKernelspec(name) || isProgramFile(name) }

// DeclarationFiles returns the files in a file system that declare languages, by their path.
func DeclarationFiles(root fs.FS) map[string][]byte {
	files := KernelspecFiles(root)
	maps.Copy(files, programFiles(root))
	return files
}

// DeclarationTool returns the program that a declared language needs. ok is false for a file that
// is no valid declaration, such as a logo.
func DeclarationTool(name string, text []byte) (tool string, ok bool) {
	if isProgramFile(name) {
		p, err := ParseProgram(text)
		if err != nil {
			return "", false
		}
		return p.Tool(), true
	}
	var spec struct {
		Argv []string `json:"argv"`
	}
	if path.Base(name) != "kernel.json" || json.Unmarshal(text, &spec) != nil ||
		len(spec.Argv) == 0 {
		return "", false
	}
	return spec.Argv[0], true
}

// Declared returns the languages that files declare, sorted by name. known are the other languages,
// which keep their names. A Jupyter kernel keeps its name before a program language.
func Declared(files map[string][]byte, known []Manifest) []Manifest {
	list := Kernelspecs(files, known)
	claims := map[string]bool{}
	for _, m := range slices.Concat(known, list) {
		for _, name := range slices.Concat([]string{m.Name}, m.Aliases, m.Extensions) {
			claims[name] = true
		}
	}
	list = append(list, programLanguages(files, claims)...)
	slices.SortFunc(list, func(a, b Manifest) int { return strings.Compare(a.Name, b.Name) })
	return list
}
