// Package testenv finds files of the repository for tests, at any depth of the test's package.
package testenv

import (
	"os"
	"path/filepath"
)

// Path returns the absolute path of a file of the repository. parts is its path relative to the
// root. It panics when the working directory is not below the root, which cannot happen in go test.
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
