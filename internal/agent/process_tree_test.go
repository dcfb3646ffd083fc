package agent

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
)

// A child that is killed before it has become a program must not take the
// agent with it: stopped, it would hold a thread that the garbage collector
// waits for.
func TestKillWhileSpawning(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.exe)
	cmd.Env = append(os.Environ(), "SANDGATE_TEST=spawner")
	// A file, since a pipe ends with the last who holds it: also a child that
	// is about to become a program does.
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
		list := readProcesses()
		ours := descendants(list, os.Getpid())
		return slices.DeleteFunc(list, func(p proc) bool { return p.zombie || !ours[p.pid] })
	}
	for range 100 {
		killUntilGone(list, 20*time.Millisecond)
	}
	close(done)
	println("alive")
	return 0
}
