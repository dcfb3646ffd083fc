package gvisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"

	"github.com/sandgate/sandgate/protocol/fault"
)

// isDelta checks that the snapshot in dir has a link to the file base, and its own pages beside it.
func isDelta(t *testing.T, dir, base string) Manifest {
	t.Helper()
	m, err := ReadManifest(dir)
	fatal(t, err)
	if m.Base == nil {
		t.Fatal("the snapshot is complete")
	}
	want, err := os.Stat(base)
	fatal(t, err)
	got, err := os.Stat(m.Base.path(dir))
	fatal(t, err)
	if !os.SameFile(want, got) || m.Base.Bytes != want.Size() {
		t.Errorf("%+v describes another file than %s", m.Base, base)
	}
	return m
}

// withDelta makes a snapshot, restores it, changes the memory, and makes a delta. It returns the
// folders of both, and the hash of the delta's memory.
func withDelta(t *testing.T, r *Runtime) (base, delta, hash string) {
	t.Helper()
	base, _ = withMemory(t, r)
	g := shared(t, r, base, true)
	g.ask("change 1 20")
	hash = g.ask("hash")
	delta = filepath.Join(t.TempDir(), "delta")
	fatal(t, g.Checkpoint(t.Context(), delta))
	destroy(t, g.Sandbox)
	m := isDelta(t, delta, filepath.Join(base, checkpointfiles.PagesFileName))
	own, err := os.Stat(filepath.Join(delta, checkpointfiles.PagesFileName))
	fatal(t, err)
	if own.Size() > m.Base.Bytes/2 || m.Bytes > m.Base.Bytes {
		t.Errorf("the delta has %d bytes, with %d of pages, and its base %d", m.Bytes, own.Size(),
			m.Base.Bytes)
	}
	return base, delta, hash
}

// TestDeltaWithoutTemplate removes a template. Its delta has the base, and a sandbox whose base no
// folder has any more makes complete snapshots.
func TestDeltaWithoutTemplate(t *testing.T) {
	r := newRuntime(t)
	base, delta, hash := withDelta(t, r)
	fatal(t, os.RemoveAll(base))
	g := shared(t, r, delta, true)
	if got := g.ask("hash"); got != hash {
		t.Error("memory has changed after the template was removed")
	}
	second := filepath.Join(t.TempDir(), "second")
	fatal(t, g.Snapshot(t.Context(), second, SnapshotOptions{}))
	m := isDelta(t, second, filepath.Join(delta, "server-base.img"))
	fatal(t, os.RemoveAll(delta))
	fatal(t, os.RemoveAll(second))
	third := filepath.Join(t.TempDir(), "third")
	fatal(t, g.Checkpoint(t.Context(), third))
	destroy(t, g.Sandbox)
	if last, err := ReadManifest(third); err != nil || last.Base != nil ||
		last.Bytes < m.Base.Bytes/2 {
		t.Errorf("without its base, a snapshot is %+v, %v", last, err)
	}
	g = shared(t, r, third, false)
	if got := g.ask("hash"); got != hash {
		t.Error("memory has changed in a complete snapshot")
	}
	destroy(t, g.Sandbox)
}

// TestDeltaSwitch restores a delta with a copy of all memory. Its snapshots are complete.
func TestDeltaSwitch(t *testing.T) {
	r := newRuntime(t)
	_, delta, hash := withDelta(t, r)
	g := shared(t, r, delta, false)
	if got := g.ask("hash"); got != hash {
		t.Error("a copy of a delta differs")
	}
	complete := filepath.Join(t.TempDir(), "complete")
	fatal(t, g.Checkpoint(t.Context(), complete))
	destroy(t, g.Sandbox)
	if m, err := ReadManifest(complete); err != nil || m.Base != nil {
		t.Errorf("a snapshot of a sandbox with a copy is %+v, %v", m, err)
	}
	g = shared(t, r, complete, false)
	if got := g.ask("hash"); got != hash {
		t.Error("memory has changed")
	}
	destroy(t, g.Sandbox)
}

// TestDeltaBase refuses a delta whose base is missing, cut, longer, or another one. Nothing runs.
func TestDeltaBase(t *testing.T) {
	r := newRuntime(t)
	_, delta, _ := withDelta(t, r)
	name := filepath.Join(delta, "server-base.img")
	data, err := os.ReadFile(name)
	fatal(t, err)
	other := append([]byte(nil), data...)
	other[len(other)/2] ^= 1
	for what, content := range map[string][]byte{
		"missing": nil, "cut": data[:len(data)-4096], "longer": append(data, make([]byte, 4096)...),
		"another": other,
	} {
		fatal(t, os.Remove(name))
		if content != nil {
			fatal(t, os.WriteFile(name, content, 0o644))
		}
		g, err := r.Restore(t.Context(), delta, testSpec(), CheckAll)
		if err == nil {
			destroy(t, g)
		}
		if !fault.Is(err, fault.Malformed) || !strings.Contains(err.Error(), "base") {
			t.Errorf("the base is %s: %v", what, err)
		}
		if content == nil {
			fatal(t, os.WriteFile(name, data, 0o644))
		}
	}
}
