package cells

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Suite has the cells of one language.
type Suite struct {
	Language string
	Files    []SuiteFile
	// Not holds keys that the language does not prove, with the reason.
	Not map[string]string
}

// SuiteFile is one file of cases.
type SuiteFile struct {
	Name  string
	Cases []Case
	// Text is the content of the file.
	Text string
}

// OfImage reports whether the cases are about programs of the image, such as a language's libraries.
// Other cases are about the way of a cell through the server, too.
func (f SuiteFile) OfImage() bool {
	return slices.Contains([]string{
		"asynchronous", "expert", "help", "ipython", "language", "libraries", "packages", "php",
		"program", "programs", "result", "results", "science", "sql", "tools", "typescript", "whole",
	}, f.Name)
}

// notFile lists the keys that a language does not prove.
const notFile = "not.yaml"

// Load reads langs/<language>/cells. It fails with fs.ErrNotExist if the folder does not
// exist.
func Load(langs, language string) (*Suite, error) {
	dir := filepath.Join(langs, language, "cells")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Suite{Language: language, Not: map[string]string{}}
	seen := map[string]string{}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".yaml" {
			return nil, fmt.Errorf("%s: a folder of cells has files that end in .yaml",
				filepath.Join(dir, e.Name()))
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		name := filepath.Join(language, "cells", e.Name())
		if e.Name() == notFile {
			d := yaml.NewDecoder(bytes.NewReader(data))
			if err := d.Decode(&s.Not); err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		cases, err := Parse(name, data)
		if err != nil {
			return nil, err
		}
		for _, c := range cases {
			if other := seen[c.Name]; other != "" {
				return nil, fmt.Errorf("%s: there is a case %q at %s", c.At, c.Name, other)
			}
			seen[c.Name] = c.At
		}
		s.Files = append(s.Files, SuiteFile{
			Name: strings.TrimSuffix(e.Name(), ".yaml"), Cases: cases, Text: string(data),
		})
	}
	return s, nil
}

// Check reports the keys that the language neither proves nor gives a reason for, and
// invalid reasons.
func (s *Suite) Check() error {
	proved := map[string]bool{}
	for _, f := range s.Files {
		for _, c := range f.Cases {
			for _, k := range c.Proves {
				proved[k] = true
			}
		}
	}
	var missing []string
	var wrong error
	for _, k := range Keys() {
		reason, not := s.Not[k]
		switch {
		case not && proved[k]:
			wrong = errors.Join(wrong, fmt.Errorf("%s is proved, and %s says that it is not", k,
				notFile))
		case not && strings.TrimSpace(reason) == "":
			wrong = errors.Join(wrong, fmt.Errorf("%s: %s has no reason", notFile, k))
		case !not && !proved[k]:
			missing = append(missing, k)
		}
	}
	for k := range s.Not {
		if !slices.Contains(Keys(), k) {
			wrong = errors.Join(wrong, fmt.Errorf("%s: there is no key %q", notFile, k))
		}
	}
	if len(missing) > 0 {
		wrong = errors.Join(wrong, fmt.Errorf("no case proves, and %s gives no reason for: %s",
			notFile, strings.Join(missing, ", ")))
	}
	return wrong
}

// Cases returns the number of cases.
func (s *Suite) Cases() int {
	n := 0
	for _, f := range s.Files {
		n += len(f.Cases)
	}
	return n
}
