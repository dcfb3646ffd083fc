package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// snapshot checkpoints a sandbox whose counter is at n and whose /tmp/file and
// /data/file hold "kept".
func snapshot(tb testing.TB, r *Runtime, n int) string {
	tb.Helper()
	g := boot(tb, r, testSpec())
	for range n {
		g.ask("count")
	}
	g.ask("write /tmp/file kept")
	g.ask("write /data/file kept")
	dir := filepath.Join(tb.TempDir(), "snapshot")
	if err := g.Checkpoint(tb.Context(), dir); err != nil {
		tb.Fatal(err)
	}
	if e := g.Exit(); e.Reason != Checkpointed || e.Lost() {
		tb.Errorf("Exit after Checkpoint is %v", e)
	}
	destroy(tb, g.Sandbox)
	return dir
}

func restore(tb testing.TB, r *Runtime, dir string, spec Spec) guest {
	tb.Helper()
	s, err := r.Restore(tb.Context(), dir, spec, CheckAll)
	if err != nil {
		tb.Fatal(err)
	}
	return talk(tb, s)
}

func TestSnapshotTwice(t *testing.T) {
	r := newRuntime(t)
	dir := snapshot(t, r, 3)
	m, err := ReadManifest(dir)
	if err != nil || m.BuildID != r.buildID || m.Bytes < 256*kiB || m.Created.IsZero() {
		t.Errorf("the manifest is %+v, %v", m, err)
	}
	if left, _ := filepath.Glob(dir + ".*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	// Two at a time, with another environment, name and outer limits.
	spec := testSpec()
	spec.Env = []string{"CLAIM=one"}
	spec.Hostname = "claimed"
	spec.Limits.MemoryBytes *= 2
	spec.Limits.CPUs = 2
	a, b := restore(t, r, dir, spec), restore(t, r, dir, testSpec())
	for i, want := range []string{"4", "5"} {
		if got := a.ask("count"); got != want {
			t.Errorf("count %d of the first is %s, want %s", i, got, want)
		}
	}
	if got := b.ask("count"); got != "4" {
		t.Errorf("the second shares its counter with the first: %s", got)
	}
	if got := a.ask("newenv"); got != "CLAIM=one; <nil>" {
		t.Errorf("the new environment is %q", got)
	}
	for _, path := range []string{"/tmp/file", "/data/file"} {
		if got := a.ask("cat %s", path); got != `"kept" <nil>` {
			t.Errorf("%s is %s", path, got)
		}
		if got := a.ask("write %s changed", path); got != "<nil>" {
			t.Errorf("writing %s: %s", path, got)
		}
		if got := b.ask("cat %s", path); got != `"kept" <nil>` {
			t.Errorf("%s of the second is %s", path, got)
		}
	}
	for _, g := range []guest{a, b} {
		<-g.Loaded()
		if g.State() != Running {
			t.Errorf("state %v: %v", g.State(), g.Exit())
		}
	}

	// A restored sandbox can be paused and checkpointed like any other.
	if err := a.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "again")
	if err := a.Checkpoint(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	c := restore(t, r, again, testSpec())
	if got := c.ask("count"); got != "6" {
		t.Errorf("after a second checkpoint, of a paused sandbox, the count is %s", got)
	}
	// The snapshot can be removed once it is loaded.
	<-c.Loaded()
	if err := os.RemoveAll(again); err != nil {
		t.Fatal(err)
	}
	if got := c.ask("count"); got != "7" {
		t.Errorf("without its snapshot the count is %s", got)
	}
}

// TestRestoreBlank restores into a sandbox that was created in advance.
func TestRestoreBlank(t *testing.T) {
	r := newRuntime(t)
	dir := snapshot(t, r, 1)
	s, err := r.Create(t.Context(), testSpec())
	if err != nil {
		t.Fatal(err)
	}
	if s.State() != Created {
		t.Errorf("state %v", s.State())
	}
	if err := s.Pause(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("Pause of a blank: %v", err)
	}
	if err := s.Restore(t.Context(), dir+"x", CheckAll); !fault.Is(err, fault.NotFound) {
		t.Errorf("Restore of nothing: %v", err)
	}
	if err := s.Restore(t.Context(), dir, CheckQuick); err != nil {
		t.Fatal(err)
	}
	if got := talk(t, s).ask("count"); got != "2" {
		t.Errorf("count is %s", got)
	}
	if err := s.Restore(t.Context(), dir, CheckQuick); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second Restore: %v", err)
	}
}

// change changes a byte in the middle of a file, which keeps its size.
func change(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	b[len(b)/2] ^= 0xff
	return os.WriteFile(name, b, 0o600)
}

func TestRestoreRefuses(t *testing.T) {
	r := newRuntime(t)
	dir := snapshot(t, r, 1)
	manifest := filepath.Join(dir, manifestName)
	whole := readFile(t, manifest)
	m, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		harm func(spec *Spec) error
		want fault.Kind
	}{
		{"another build", func(*Spec) error {
			return os.WriteFile(manifest, []byte(strings.ReplaceAll(whole, m.BuildID, "0123")),
				0o600)
		}, fault.Conflict},
		{"another image", func(*Spec) error {
			return os.WriteFile(manifest, []byte(strings.ReplaceAll(whole, m.ImageID, "0123")),
				0o600)
		}, fault.Conflict},
		{
			"garbage", func(*Spec) error { return os.WriteFile(manifest, []byte("{"), 0o600) },
			fault.Malformed,
		},
		{"no manifest", func(*Spec) error { return os.Remove(manifest) }, fault.NotFound},
		{"another overlay", func(s *Spec) error {
			s.Limits.OverlayBytes *= 2
			return os.WriteFile(manifest, []byte(whole), 0o600)
		}, fault.Conflict},
		{"changed pages", func(*Spec) error {
			// gVisor would restore them.
			return change(filepath.Join(dir, "pages.img"))
		}, fault.Malformed},
		{"half a state file, on which the sentry crashes", func(*Spec) error {
			if err := os.Truncate(filepath.Join(dir, "checkpoint.img"), 100); err != nil {
				return err
			}
			return os.WriteFile(manifest, []byte(whole), 0o600)
		}, fault.Malformed},
		{"the same without checksums", func(*Spec) error {
			old := m
			old.Checksums = nil
			data, err := json.Marshal(old)
			return errors.Join(err, os.WriteFile(manifest, data, 0o600))
		}, fault.SandboxLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := testSpec()
			if err := test.harm(&spec); err != nil {
				t.Fatal(err)
			}
			s, err := r.Restore(t.Context(), dir, spec, CheckAll)
			if err == nil {
				destroy(t, s)
			}
			if !fault.Is(err, test.want) {
				t.Errorf("Restore: %v (%v), want %v", err, fault.KindOf(err), test.want)
			}
		})
	}
	if n := r.Live(); n != 0 {
		t.Errorf("%d sandboxes live", n)
	}
}

// TestCheckpointToFullDisk fails when the sandbox ends or files are left behind.
func TestCheckpointToFullDisk(t *testing.T) {
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(small, 0); err != nil {
			t.Error(err)
		}
	})
	r := newRuntime(t)
	g := boot(t, r, testSpec())
	g.ask("count")
	err := g.Checkpoint(t.Context(), filepath.Join(small, "snapshot"))
	if !fault.Is(err, fault.DiskFull) {
		t.Errorf("Checkpoint: %v (%v), want disk_full", err, fault.KindOf(err))
	}
	if left, _ := os.ReadDir(small); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if got := g.ask("count"); got != "2" {
		t.Errorf("after the failed checkpoint the count is %s", got)
	}
	dir := filepath.Join(t.TempDir(), "snapshot")
	if err := g.Checkpoint(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := g.Checkpoint(t.Context(), dir); !fault.Is(err, fault.Conflict) {
		t.Errorf("a checkpoint to a directory that exists: %v", err)
	}
}

// TestCheckpointLoop repeats the round trip of hibernation: the answer to the call must not get
// lost when the sentry ends.
func TestCheckpointLoop(t *testing.T) {
	r := newRuntime(t)
	dir := snapshot(t, r, 0)
	for i := range 10 {
		g := restore(t, r, dir, testSpec())
		if got, want := g.ask("count"), fmt.Sprint(i+1); got != want {
			t.Fatalf("round %d: count %s, want %s", i, got, want)
		}
		dir = filepath.Join(t.TempDir(), "snapshot")
		if err := g.Checkpoint(t.Context(), dir); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		destroy(t, g.Sandbox)
	}
}

// TestSnapshotGoesOn copies a sandbox: both continue from the same moment.
func TestSnapshotGoesOn(t *testing.T) {
	r := newRuntime(t)
	g := boot(t, r, testSpec())
	g.ask("count")
	dir := filepath.Join(t.TempDir(), "branch")
	var told []string
	err := g.Snapshot(t.Context(), dir, SnapshotOptions{
		Paused: func() error {
			told = append(told, "still")
			// A request that is sent now is answered when the sandbox continues, and only by that
			// sandbox.
			g.write("count")
			if err := g.Stdout().SetReadDeadline(
				time.Now().Add(50 * time.Millisecond)); err != nil {
				return err
			}
			if _, err := g.Stdout().Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it is not still: %v", err)
			}
			return g.Stdout().SetReadDeadline(time.Time{})
		},
		Resumed: func() {
			told = append(told, "resumed")
			if exists(dir) {
				t.Error("it is resumed behind the disk")
			}
			if got := g.read(); got != "2" {
				t.Errorf("asked while it stood still: %s", got)
			}
		},
	})
	if err != nil || strings.Join(told, " ") != "still resumed" {
		t.Fatal(err, told)
	}
	bad := errors.New("as asked")
	if err := g.Snapshot(t.Context(), dir+"3",
		SnapshotOptions{Paused: func() error { return bad }}); !errors.Is(err, bad) {
		t.Errorf("a failure while it stood still: %v", err)
	}
	if left, _ := filepath.Glob(dir + "3*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if g.State() != Running {
		t.Errorf("state %v", g.State())
	}
	h := restore(t, r, dir, testSpec())
	if got := g.ask("count"); got != "3" {
		t.Errorf("count %s", got)
	}
	if got := h.ask("count"); got != "2" {
		t.Errorf("the branch counts %s", got)
	}
	if err := g.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Snapshot(t.Context(), dir+"2", SnapshotOptions{}); err != nil ||
		g.State() != Paused {
		t.Fatalf("Snapshot of a paused sandbox: %v, state %v", err, g.State())
	}
	if err := g.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := g.ask("count"); got != "4" {
		t.Errorf("count %s", got)
	}
}

// TestClones restores one snapshot into eight sandboxes at once.
func TestClones(t *testing.T) {
	r := newRuntime(t)
	dir := snapshot(t, r, 1)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := r.Restore(t.Context(), dir, testSpec(), CheckAll)
			if err != nil {
				t.Error(err)
				return
			}
			if got := talk(t, s).ask("count"); got != "2" {
				t.Errorf("count is %s", got)
			}
		})
	}
	wg.Wait()
}
