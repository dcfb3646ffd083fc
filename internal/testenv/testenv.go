// Package testenv finds files of the repository for tests, at whatever depth
// the test's package lies.
package testenv

import (
	"os"
	"path/filepath"
)

// Path returns the absolute path of a file of the repository, whose path
// relative to the root is given in parts. It panics when the working directory
// is not below the root, which cannot be for a test that go test runs.
func Path(parts ...string) string {
	return filepath.Join(append([]string{root()}, parts...)...)
}

// root returns the first folder above the working directory that has the
// repository's go.mod and LICENSE. Nested modules have no LICENSE.
func root() string {
	dir, err := os.Getwd()
	if err != nil {
		panic("testenv: " + err.Error())
	}
	for {
		if exists(filepath.Join(dir, "go.mod")) && exists(filepath.Join(dir, "LICENSE")) {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			panic("testenv: no repository above the working directory")
		}
		dir = up
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
