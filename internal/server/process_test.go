package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestProcessFile: a process that starts on the data of an earlier one gets its id. It does not on
// a copy of the data, whose original may be in use, and is refused while the data are in use.
func TestProcessFile(t *testing.T) {
	open := func(dir string) (processFile, string) {
		t.Helper()
		p, former, err := openProcessFile(&config.Config{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return p, former
	}
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	p, former := open(dir)
	if former != "" {
		t.Errorf("the first process replaces %q", former)
	}
	if err := p.write("one"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, _, err := openProcessFile(&config.Config{DataDir: dir})
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("a second process on the same data: %v", err)
	}
	if q, former := open(copied); former != "" {
		t.Errorf("a process on a copy replaces %q", former)
	} else if err := q.close(); err != nil {
		t.Fatal(err)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	p, former = open(dir)
	defer func() { _ = p.close() }()
	if former != "one" {
		t.Errorf("the next process replaces %q", former)
	}
	if _, err := os.Stat(filepath.Join(dir, "node", "process")); err != nil {
		t.Error(err)
	}
}
