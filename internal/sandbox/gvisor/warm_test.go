package gvisor

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// awaitWarm waits until a blank warms up. The warm-up begins by unmounting /proc, and the kernel
// notifies processes that poll the list of mounts of that. A Restore waits until the warm-up is
// complete.
func awaitWarm(t *testing.T, s *Sandbox) {
	t.Helper()
	name := fmt.Sprintf("/proc/%d/mountinfo", s.process.pid)
	// Do not use os.File: its poller would consume the event, which is reported only once.
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	fatal(t, err)
	defer unix.Close(fd)
	for deadline := time.Now().Add(30 * time.Second); strings.Contains(readFile(t, name),
		" - proc "); {
		left := time.Until(deadline)
		if left <= 0 {
			t.Fatal("a blank that waits does not warm up")
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}},
			int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
	}
}

// TestRestoreWarm restores into a blank that has warmed up. The guest uses the blank's clocks,
// which show the host's time and need no new calibration. During a calibration, which takes
// seconds, each look at the time makes a system call.
func TestRestoreWarm(t *testing.T) {
	cfg := testConfig(t)
	cfg.DebugDir = t.TempDir()
	r, err := NewRuntime(cfg)
	fatal(t, err)
	dir := snapshot(t, r, 1)
	s, err := r.Create(t.Context(), testSpec())
	fatal(t, err)
	awaitWarm(t, s)
	fatal(t, s.Restore(t.Context(), dir, CheckNone))
	g := talk(t, s)
	if got := g.ask("count"); got != "2" {
		t.Errorf("count is %s", got)
	}
	const (
		slack       = 50 * time.Millisecond
		calibration = 3 * time.Second // new clocks take at least this long
	)
	var last int64
	for begin := time.Now(); time.Since(begin) < calibration; {
		var wall, since int64
		before := time.Now()
		answer := g.ask("clock")
		after := time.Now()
		if _, err := fmt.Sscan(answer, &wall, &since); err != nil {
			t.Fatalf("%q: %v", answer, err)
		}
		if now := time.Unix(0, wall); now.Before(before.Add(-slack)) ||
			now.After(after.Add(slack)) {
			t.Fatalf("%v after the restore the guest's clock is %v, at %v here", before.Sub(begin),
				now, before)
		}
		if since < last {
			t.Fatalf("the guest's time went back from %v to %v", time.Duration(last),
				time.Duration(since))
		}
		last = since
	}
	fatal(t, r.Close(t.Context()))
	const restored, ready = "Restore successful", "CalibratedClock(Monotonic): ready"
	restores := 0
	for _, name := range globs(filepath.Join(cfg.DebugDir, "*boot*")) {
		if _, after, ok := strings.Cut(readFile(t, name), restored); ok {
			restores++
			if strings.Contains(after, ready) {
				t.Error("the clocks were calibrated once more after the restore")
			}
		}
	}
	if restores != 1 {
		t.Errorf("the logs tell of %d restores", restores)
	}
}
