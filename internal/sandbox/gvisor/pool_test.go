package gvisor

import (
	"context"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/internal/pool"
)

// TestPoolOfSandboxes uses real sandboxes: clones of a snapshot are claimed, and one of them is
// killed while it waits.
func TestPoolOfSandboxes(t *testing.T) {
	r := newRuntime(t)
	dir := snapshot(t, r, 1)
	var mu sync.Mutex
	var all []*Sandbox
	p := pool.New(func(ctx context.Context) (*Sandbox, error) {
		s, err := r.Restore(ctx, dir, testSpec(), CheckAll)
		if err == nil {
			mu.Lock()
			all = append(all, s)
			mu.Unlock()
		}
		return s, err
	}, func(s *Sandbox) { destroy(t, s) }, pool.Options{Size: 2})
	first, _, err := p.Claim(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if got := talk(t, first).ask("count"); got != "2" {
		t.Errorf("count is %s", got)
	}
	mu.Lock()
	victim := all[len(all)-1]
	mu.Unlock()
	if victim != first {
		victim.Kill("test")
		<-victim.Done()
	}
	for range 4 {
		s, _, err := p.Claim(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := talk(t, s).ask("count"); got != "2" {
			t.Errorf("count is %s", got)
		}
		destroy(t, s)
	}
	if err := p.ConsistencyCheck(); err != nil {
		t.Error(err)
	}
	p.Close()
	if n := r.Live(); n != 1 {
		t.Errorf("%d sandboxes live, want the first", n)
	}
}
