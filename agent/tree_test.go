package agent

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A child that is killed before it has become a program must not take the
// agent with it: stopped, it would hold a thread that the garbage collector
// waits for.
func TestKillWhileSpawning(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.exe)
	cmd.Env = append(os.Environ(), "SANDGATE_TEST=spawner")
	cmd.WaitDelay = time.Second // what it started holds its output open
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "alive") {
		t.Fatalf("%v, the spawner said %q", err, out)
	}
}

// spawnerMain starts processes and kills them all at the same time, with the
// garbage collector at work.
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
	list := func() []proc {
		runtime.GC()
		list := processes()
		ours := descend(list, os.Getpid())
		return slices.DeleteFunc(list, func(p proc) bool { return p.zombie || !ours[p.pid] })
	}
	for range 100 {
		destroy(list, 20*time.Millisecond)
	}
	close(done)
	println("alive")
	return 0
}
