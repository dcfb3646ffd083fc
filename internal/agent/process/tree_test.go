package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
)

// exe is a copy of this binary that every user may execute.
var exe string

// TestMain also runs the program that starts and kills processes.
func TestMain(m *testing.M) {
	os.Exit(agenttest.Main(m, &exe, map[string]func() int{"spawner": spawnerMain}, nil))
}

// A child that is killed before it executes its program must not block the agent. If it were
// stopped instead, it would block a thread that the garbage collector waits for.
func TestKillWhileSpawning(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), "SANDGATE_TEST=spawner")
	// Use a file, because a pipe ends only when its last holder closes it, and a child that has not
	// executed its program yet also holds it.
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	said, _ := os.ReadFile(out.Name())
	if err != nil || !strings.Contains(string(said), "alive") {
		t.Fatalf("%v, the spawner said %q", err, said)
	}
}

// spawnerMain starts processes and kills them at the same time, while the garbage collector runs.
func spawnerMain() int {
	done := make(chan struct{})
	for range 2 {
		go func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("/bin/sleep", "60").Run()
				}
			}
		}()
	}
	list := func() []Info {
		runtime.GC()
		list := All()
		ours := Descendants(list, os.Getpid())
		return slices.DeleteFunc(list, func(p Info) bool { return p.Zombie || !ours[p.PID] })
	}
	for range 100 {
		killUntilGone(list, 20*time.Millisecond)
	}
	close(done)
	println("alive")
	return 0
}

// TestOwnNeedsAWholeList looks again while the list of processes is not whole and has none of them.
func TestOwnNeedsAWholeList(t *testing.T) {
	child := Info{PID: 1 << 30, PPID: os.Getpid()}
	scans := 0
	found, ended := own(func() ([]Info, int) {
		if scans++; scans < 3 {
			return nil, 1
		}
		return []Info{child}, 7
	}, false, func(p Info) bool { return p.PID == child.PID })
	if len(found) != 1 || ended != 7 || scans != 3 {
		t.Errorf("found %v, and %d that ended, in %d lists", found, ended, scans)
	}
	scans = 0
	found, _ = own(func() ([]Info, int) { scans++; return nil, 2 - scans }, false,
		func(Info) bool { return true })
	if len(found) != 0 || scans != 2 {
		t.Errorf("found %v in %d lists", found, scans)
	}
	if found, ended = own(func() ([]Info, int) { return nil, 1 }, false, nil); found != nil ||
		ended != 1 {
		t.Errorf("found %v, and %d that ended, in no whole list", found, ended)
	}
}

// TestOwnHasOrphans counts the processes of a fork bomb, whose parents end while the list is read.
func TestOwnHasOrphans(t *testing.T) {
	const gone = 1 << 30
	list := []Info{
		{PID: os.Getpid(), PPID: 0},
		{PID: gone + 1, PPID: os.Getpid()},
		{PID: gone + 2, PPID: gone},
		{PID: gone + 3, PPID: gone + 2},
		{PID: gone + 4, PPID: 0},
		{PID: gone + 5, PPID: gone + 4},
	}
	for marked, want := range map[bool]int{true: 3, false: 1} {
		found, _ := own(func() ([]Info, int) { return slices.Clone(list), 1 }, marked,
			func(p Info) bool { return p.PID > gone })
		if len(found) != want {
			t.Errorf("marked %t: found %v", marked, found)
		}
	}
}
