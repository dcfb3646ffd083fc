//go:build !race

// Under the race detector frames are larger; `make unit` runs this without it.

package noderpc

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// idler waits as a session does, with frames of the same size.
type idler struct{ waits chan struct{} }

//go:noinline
func (h idler) ServeLink(_ context.Context, l *Link) error {
	h.waits <- struct{}{}
	return wait(l)
}

//go:noinline
func wait(l *Link) error {
	for {
		l.Wait()
		if err := readOne(l); err != nil {
			return err
		}
	}
}

//go:noinline
func readOne(l *Link) error {
	_, err := l.Next()
	return err
}

// TestIdleStack: the goroutine of a link that has said hello and nothing more keeps the smallest
// possible stack. The test runs itself in a new process, because the initial size of stacks is set
// when a program starts.
func TestIdleStack(t *testing.T) {
	const setting = "adaptivestackstart=0"
	if os.Getenv("GODEBUG") != setting {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestIdleStack$",
			"-test.timeout=60s")
		cmd.Env = append(os.Environ(), "GODEBUG="+setting)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	const links = 1000
	path := filepath.Join(t.TempDir(), "node")
	h := idler{make(chan struct{}, links)}
	serve(t, path, h.ServeLink)
	c := client(t, path, ClientOptions{})
	stacks := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.StackInuse
	}
	before := stacks()
	for range links {
		l, err := c.Open(t.Context(), alice)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		<-h.waits
	}
	if per := int64(stacks()-before) / links; per > 2816 {
		t.Errorf("an idle link has %d bytes of stack", per)
	}
}
