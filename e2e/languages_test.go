package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/e2e/cells"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/kernel"
)

// TestLanguages runs the conformance cells of every language, and interrupts cells
// at different moments. Each language has a server whose pool has it warm:
//
//	go test ./e2e -run TestLanguages/php/basics
//
// With SANDGATE_URL and SANDGATE_TOKEN it uses that server, which is fast: no
// server starts and no pool is filled.
//
// Cells about programs of the image do not run again after they have passed with the same runtime,
// image and checks. With SANDGATE_TEST_PASSES=off all run.
func TestLanguages(t *testing.T) {
	languages, err := kernel.Load("../langs")
	check(t, err)
	for _, m := range languages {
		suite, err := cells.Load("../langs", m.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			check(t, err)
			if err := suite.Check(); err != nil {
				t.Error(err)
			}
			c := languageServer(t, m.Name)
			rest, passed := unproved(t, suite)
			runSuite(t, c, rest, "", passed)
			t.Run("any moment", func(t *testing.T) { runInterrupts(t, c, m.Name, "") })
		})
	}
}

// languageServer returns a client of a server with the language.
func languageServer(t *testing.T, language string) *wire.Client {
	t.Helper()
	url, token := os.Getenv("SANDGATE_URL"), os.Getenv("SANDGATE_TOKEN")
	if url == "" {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		s, err := Start(
			ctx, fmt.Sprintf("pool: {size: 1, languages: [%s], memory: 0}\nlimits: {memory: 1GiB}",
				language))
		check(t, err)
		t.Cleanup(func() {
			for line := range strings.Lines(s.Log()) {
				if t.Failed() && !strings.Contains(line, "level=INFO") {
					t.Log(line)
				}
			}
			check(t, s.Stop())
		})
		url, token = s.URL, s.Token
	}
	c, err := wire.New(url, token, wire.Options{})
	check(t, err)
	return c
}

// unproved returns the suite without the files about the image that have passed with it, and a
// function that records a pass. A test of one file runs it always.
func unproved(t *testing.T, suite *cells.Suite) (*cells.Suite, func(cells.SuiteFile)) {
	t.Helper()
	oneFile := strings.Count(flag.Lookup("test.run").Value.String(), "/") > 1
	if os.Getenv("SANDGATE_URL") != "" || oneFile {
		return suite, func(cells.SuiteFile) {}
	}
	passes, err := testenv.OpenPasses()
	check(t, err)
	image, err := edition.ImageID(testenv.Path("bin", "image.erofs"))
	check(t, err)
	runtime, err := edition.RuntimeID(testenv.Path("bin", "runsc"))
	check(t, err)
	inputs := []string{"cells", image, runtime, suite.Language}
	checks, err := filepath.Glob("cells/*.go")
	check(t, err)
	for _, file := range checks {
		text, err := os.ReadFile(file)
		check(t, err)
		inputs = append(inputs, string(text))
	}
	rest := *suite
	rest.Files = slices.DeleteFunc(slices.Clone(suite.Files), func(f cells.SuiteFile) bool {
		known := f.OfImage() && passes.Has(append(slices.Clone(inputs), f.Text)...)
		if known {
			t.Logf("%s has passed with this image (cached)", f.Name)
		}
		return known
	})
	return &rest, func(f cells.SuiteFile) {
		if f.OfImage() {
			check(t, passes.Put(append(slices.Clone(inputs), f.Text)...))
		}
	}
}

// runSuite runs cells in sessions of a template, or of the server's image if it has no name. It calls
// passed for each file whose cases have all passed.
func runSuite(t *testing.T, c *wire.Client, suite *cells.Suite, template string,
	passed func(cells.SuiteFile),
) {
	for _, f := range suite.Files {
		t.Run(f.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
			defer cancel()
			s, err := cells.Open(ctx, c, suite.Language, template)
			check(t, err)
			defer func() { check(t, s.Close(ctx)) }()
			ran := 0
			for _, one := range f.Cases {
				t.Run(one.Name, func(t *testing.T) {
					ran++
					err := s.Run(ctx, one)
					if err == nil {
						return
					}
					t.Error(err)
					fails.add(t.Name(), err)
					if s.Lost(ctx) {
						t.Error("the sandbox was lost; the next case gets a new one")
						_ = s.Close(ctx)
						s, err = cells.Open(ctx, c, suite.Language, template)
						check(t, err)
					}
				})
			}
			if ran == len(f.Cases) && !t.Failed() {
				passed(f)
			}
		})
	}
}
