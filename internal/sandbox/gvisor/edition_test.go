package gvisor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/protocol/fault"
)

// marked writes a copy of a file that differs in a marker. A program ignores what follows it. An
// image has the marker in the first kilobyte, which its file system does not use.
func marked(t *testing.T, name, to string, at int64) string {
	t.Helper()
	text := []byte(readFile(t, name))
	if at < 0 {
		text = append(text, "another build"...)
	} else {
		copy(text[at:], "another build")
	}
	fatal(t, os.WriteFile(to, text, 0o755))
	return to
}

// backendOf opens a node's backend with a runtime and an image, as the node does at its start.
func backendOf(t *testing.T, runsc, image, store string, o edition.Options) *Backend {
	t.Helper()
	cfg := testConfig(t)
	o.Dir, o.Log = store, cfg.Log
	s, err := edition.Open(runsc, image, o)
	fatal(t, err)
	cfg.Runsc = s.Current().Runsc
	r, err := NewRuntime(cfg)
	fatal(t, err)
	spec := testSpec()
	spec.Image = s.Current().Image
	t.Cleanup(func() { fatal(t, r.Close(t.Context())) })
	return &Backend{Runtime: r, Spec: spec, Editions: s}
}

// TestEditions saves a sandbox with one runtime and image, replaces both, and restores the sandbox
// with the first ones, while new sandboxes have the second ones. After the window it is a Conflict.
func TestEditions(t *testing.T) {
	dir, err := os.MkdirTemp(testDir, "editions")
	fatal(t, err)
	fatal(t, os.Chmod(dir, 0o755))
	store := filepath.Join(dir, "store")
	o := edition.Options{Window: time.Hour, Keep: 2}
	b := backendOf(t, testRunsc, testImage, store, o)
	first := b.Editions.Current()
	m, err := b.Boot(t.Context(), sandbox.Spec{})
	fatal(t, err)
	g := talk(t, m.(*Sandbox))
	g.read()
	g.ask("count")
	if m.Edition() != first.String() {
		t.Errorf("the sandbox is of %s, not %s", m.Edition(), first)
	}
	saved := filepath.Join(dir, "saved")
	fatal(t, m.Checkpoint(t.Context(), saved))
	fatal(t, b.Runtime.Close(t.Context()))

	b = backendOf(t, marked(t, testRunsc, filepath.Join(dir, "runsc"), -1),
		marked(t, testImage, filepath.Join(dir, "image.erofs"), 0), store, o)
	second := b.Editions.Current()
	if second.Runtime == first.Runtime || second.ID.Image == first.ID.Image {
		t.Fatalf("%s is like %s", second, first)
	}
	for _, what := range []string{"the first", "again"} {
		m, err = b.Restore(t.Context(), saved, sandbox.Spec{}, sandbox.RestoreOptions{Urgent: true})
		fatal(t, err)
		g = talk(t, m.(*Sandbox))
		if got := g.ask("count"); got != "2" || m.Edition() != first.String() {
			t.Errorf("%s: count is %s, with %s", what, got, m.Edition())
		}
		// It is saved by the edition that it runs with.
		next := saved + " " + what
		fatal(t, m.Checkpoint(t.Context(), next))
		fatal(t, m.Destroy(t.Context()))
		if of, err := b.Edition(next); err != nil || of != first.String() {
			t.Errorf("%s: the snapshot is of %s %v", what, of, err)
		}
	}
	fatal(t, b.Restorable(t.Context(), first.String()))
	m, err = b.Boot(t.Context(), sandbox.Spec{})
	fatal(t, err)
	g = talk(t, m.(*Sandbox))
	if g.read(); m.Edition() != second.String() {
		t.Errorf("a new sandbox is of %s, not %s", m.Edition(), second)
	}
	fatal(t, m.Destroy(t.Context()))

	// A store that has never had the edition knows only that it may come.
	for name, want := range map[string]fault.Kind{"other": fault.Unavailable, "": fault.Conflict} {
		dir, o := filepath.Join(dir, name+"store"), o
		if name == "" {
			o.Window = 0
		}
		b.Editions, err = edition.Open(filepath.Join(filepath.Dir(store), "runsc"),
			filepath.Join(filepath.Dir(store), "image.erofs"),
			edition.Options{Dir: dir, Window: o.Window, Keep: 2, Log: b.Runtime.cfg.Log})
		fatal(t, err)
		if _, err := b.Restore(t.Context(), saved, sandbox.Spec{},
			sandbox.RestoreOptions{}); fault.KindOf(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if err := b.Restorable(t.Context(), first.String()); fault.KindOf(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
