package gvisor

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"

	"github.com/sandgate/sandgate/protocol/fault"
)

// shared restores a snapshot so that its memory is shared, or copied.
func shared(tb testing.TB, r *Runtime, dir string, share bool) guest {
	tb.Helper()
	r.cfg.CopyMemory = !share
	fatal(tb, r.share(dir, true))
	spec := testSpec()
	spec.Limits.MemoryBytes *= 4
	g := restore(tb, r, dir, spec)
	<-g.Loaded()
	m, err := ReadManifest(dir)
	fatal(tb, err)
	n := ownMemory(tb, g)
	if m.Base != nil {
		own, err := os.Stat(filepath.Join(dir, checkpointfiles.PagesFileName))
		fatal(tb, err)
		if share && n > own.Size()+2*miB {
			tb.Fatalf("a delta with %d bytes of pages gave the sandbox %d of its own", own.Size(), n)
		}
	} else if share != (n < 8*miB) {
		tb.Fatalf("the sandbox shares its memory: %v, and it has %d bytes of its own", share, n)
	}
	return g
}

// ownMemory returns how much memory of processes is the sandbox's own.
func ownMemory(tb testing.TB, g guest) (n int64) {
	tb.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", g.process.pid)
	files, err := os.ReadDir(dir)
	fatal(tb, err)
	for _, f := range files {
		to, err := os.Readlink(dir + f.Name())
		if err != nil || !strings.Contains(to, "memfd:runsc-memory") {
			continue
		}
		var stat unix.Stat_t
		fatal(tb, unix.Stat(dir+f.Name(), &stat))
		n = max(n, stat.Blocks*512)
	}
	return n
}

// withMemory makes a snapshot of a sandbox with memory to work on, and returns its hash.
func withMemory(t *testing.T, r *Runtime) (dir, hash string) {
	t.Helper()
	spec := testSpec()
	spec.Limits.MemoryBytes *= 4
	g := boot(t, r, spec)
	hash = g.ask("memory")
	dir = filepath.Join(t.TempDir(), "snapshot")
	fatal(t, g.Checkpoint(t.Context(), dir))
	destroy(t, g.Sandbox)
	return dir, hash
}

// TestSharedMemory does random operations on memory in sandboxes that share the memory of their
// snapshot, and in one that has a copy, and compares hashes. In between, a sandbox is written to a
// delta, from which others are restored, and the next delta is of one of these.
func TestSharedMemory(t *testing.T) {
	const stages, rounds = 5, 150
	r := newRuntime(t)
	dir, hash := withMemory(t, r)
	pages := filepath.Join(dir, checkpointfiles.PagesFileName)
	sum, err := checksumOf(pages)
	fatal(t, err)
	seed := rand.Uint64()
	t.Log("seed", seed)

	idle := shared(t, r, dir, true)
	guests := []guest{
		shared(t, r, dir, false), shared(t, r, dir, true), shared(t, r, dir, true),
	}
	for stage := range stages {
		// The first of each stage has a copy of all memory, from the beginning.
		var want string
		for i, g := range guests {
			got := g.ask("change %d %d", seed+uint64(stage), rounds)
			if i == 0 {
				want = got
			} else if got != want {
				t.Errorf("in stage %d, memory of sandbox %d differs from a copy", stage, i)
			}
		}
		if got := idle.ask("hash"); got != hash {
			t.Fatalf("in stage %d, memory of a sandbox that does nothing has changed", stage)
		}
		if stage == stages-1 {
			break
		}
		last := len(guests) - 1
		again := filepath.Join(t.TempDir(), "again")
		if stage%2 == 0 { // the sandbox continues
			before := ownMemory(t, guests[last])
			fatal(t, guests[last].Snapshot(t.Context(), again, SnapshotOptions{}))
			if now := ownMemory(t, guests[last]); now > before+miB {
				t.Errorf("a snapshot made %d bytes of shared memory the sandbox's own", now-before)
			}
		} else {
			fatal(t, guests[last].Checkpoint(t.Context(), again))
			destroy(t, guests[last].Sandbox)
			guests = guests[:last]
		}
		isDelta(t, again, pages)
		for _, share := range []bool{false, true} {
			guests = append(guests, shared(t, r, again, share))
		}
		for len(guests) > 5 { // the first two have the longest lives
			destroy(t, guests[2].Sandbox)
			guests = append(guests[:2], guests[3:]...)
		}
	}
	if now, err := checksumOf(pages); err != nil || now != sum {
		t.Errorf("the snapshot has changed: %v", err)
	}
	// The sandbox that is left continues without the others, and without the snapshot's folder.
	for _, g := range guests {
		destroy(t, g.Sandbox)
	}
	fatal(t, os.RemoveAll(dir))
	if got := idle.ask("hash"); got != hash {
		t.Error("memory has changed after the snapshot was removed")
	}
}

// TestSharedMemoryCut refuses pages files that end too early, before anything runs.
func TestSharedMemoryCut(t *testing.T) {
	r := newRuntime(t)
	dir, _ := withMemory(t, r)
	pages := filepath.Join(dir, checkpointfiles.PagesFileName)
	fi, err := os.Stat(pages)
	fatal(t, err)
	fatal(t, r.share(dir, true))
	for _, missing := range []int64{1, 4 * kiB, fi.Size() / 8192 * 4 * kiB} {
		fatal(t, os.Truncate(pages, fi.Size()-missing))
		if _, err := r.Restore(t.Context(), dir, testSpec(), CheckNone); err == nil {
			t.Errorf("a snapshot was restored without %d bytes of its memory", missing)
		}
		if _, err := r.Restore(t.Context(), dir, testSpec(), CheckAll); err == nil ||
			fault.Is(err, fault.Conflict) {
			t.Errorf("a snapshot without %d bytes of its memory: %v", missing, err)
		}
	}
}

// TestSharedMemoryNoexec copies memory that processes could not execute from its file.
func TestSharedMemoryNoexec(t *testing.T) {
	r := newRuntime(t)
	dir, hash := withMemory(t, r)
	mounted := t.TempDir()
	fatal(t, unix.Mount("tmpfs", mounted, "tmpfs", unix.MS_NOEXEC, ""))
	defer func() {
		if err := unix.Unmount(mounted, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	copied := filepath.Join(mounted, "snapshot")
	fatal(t, os.CopyFS(copied, os.DirFS(dir)))
	fatal(t, r.share(copied, true))
	spec := testSpec()
	spec.Limits.MemoryBytes *= 4
	g := restore(t, r, copied, spec)
	<-g.Loaded()
	if n := ownMemory(t, g); n < 8*miB {
		t.Errorf("the sandbox has %d bytes of its own, and uses a file that cannot be executed", n)
	}
	if got := g.ask("hash"); got != hash {
		t.Error("the copy differs")
	}
	destroy(t, g.Sandbox)
}
