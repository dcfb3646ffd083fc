package warm

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// slowBackend is a backend whose sandboxes never become ready.
type slowBackend struct{ checkpoint bool }

func (b slowBackend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Checkpoint: b.checkpoint}
}
func (slowBackend) Key(sandbox.Spec) (string, error) { return "key", nil }
func (slowBackend) Memory() int64                    { return 0 }

func (slowBackend) Edition(string) (string, error)           { return "", nil }
func (slowBackend) Restorable(context.Context, string) error { return nil }

func (slowBackend) Boot(ctx context.Context, _ sandbox.Spec) (sandbox.Machine, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (b slowBackend) Restore(ctx context.Context, _ string, spec sandbox.Spec,
	_ sandbox.RestoreOptions,
) (sandbox.Machine, error) {
	return b.Boot(ctx, spec)
}

// freeHost allows everything and counts nothing.
type freeHost struct{ short bool }

func (*freeHost) CheckSpec(string, *protocol.TemplateSpec) error { return nil }
func (*freeHost) MayStore(string, string) error                  { return nil }
func (h *freeHost) MemoryShort(int64) bool                       { return h.short }
func (*freeHost) NewSink() Sink                                  { return nil }
func (*freeHost) Claimed(string, string, time.Duration)          {}
func (*freeHost) Restored(bool)                                  {}
func (*freeHost) Booted()                                        {}
func (*freeHost) KernelStarted()                                 {}
func (*freeHost) Built(string, string, error)                    {}

func (*freeHost) OpenNetwork(context.Context, *client.Client, *TemplateDef) (*BuildNetwork, error) {
	return nil, errors.New("there is no network")
}

// newManager returns a manager that is checked and closed at the test's end.
func newManager(t *testing.T, change ...func(*Config)) *Manager {
	t.Helper()
	host := &freeHost{}
	cfg := Config{
		Backend: slowBackend{checkpoint: true}, DataDir: t.TempDir(), Host: host, Observer: host,
		Languages:       []kernel.Manifest{{Name: "test"}, {Name: "other"}},
		DefaultLanguage: "test", Parallel: 1, PoolMemory: 3 * SandboxBytes, ClaimWait: time.Minute,
		BootLimit: time.Minute, MaxTemplates: 2, TemplateBytes: 1 << 20,
		Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Start()
	t.Cleanup(func() {
		if err := m.ConsistencyCheck(); err != nil {
			t.Error(err)
		}
		m.Close()
		if err := m.ConsistencyCheck(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestPoolsFollowDemand fails when pools do not grow with recent claims, exceed
// the memory, or do not shrink without claims.
func TestPoolsFollowDemand(t *testing.T) {
	m := newManager(t)
	one, other := m.Language("test"), m.Language("other")
	one.mu.Lock()
	one.ready = true // as if its snapshot existed
	one.mu.Unlock()
	size := func(t *Template) int {
		if p := t.currentPool(); p != nil {
			return p.Stats().Size
		}
		return 0
	}
	claims := func(n int) {
		for range n {
			one.recordClaim()
			other.recordClaim()
		}
	}
	m.Resize(time.Now())
	if size(one) != 0 {
		t.Errorf("without demand there are %d", size(one))
	}
	claims(2)
	m.Resize(time.Now())
	if size(one) != 2 || size(other) != 0 {
		t.Errorf("after two claims there are %d, and %d without a snapshot", size(one), size(other))
	}
	claims(100)
	m.Resize(time.Now())
	if size(one) != 3 {
		t.Errorf("there are %d where the memory allows 3", size(one))
	}
	m.cfg.Host.(*freeHost).short = true
	m.Resize(time.Now())
	if size(one) != 0 {
		t.Errorf("there are %d while memory is short", size(one))
	}
	m.cfg.Host.(*freeHost).short = false
	m.Resize(time.Now().Add(20 * demandHalfLife))
	if size(one) != 0 {
		t.Errorf("long after the last claim there are %d", size(one))
	}
}

// TestMinimumOfPools fails when a pool does not have its configured size.
func TestMinimumOfPools(t *testing.T) {
	m := newManager(t, func(c *Config) { c.Pools = map[string]int{"test": 2} })
	if s := m.Stats(); s["test"].Size != 2 || s["other"].Size != 0 {
		t.Errorf("the pools are %+v", s)
	}
	m.SetPools(map[string]int{"test": 1, "other": 0, "none": 3})
	if s := m.Stats(); s["test"].Size != 1 || s["other"].Size != 0 {
		t.Errorf("the changed pools are %+v", s)
	}
	if ready := m.Ready(); len(ready) != 1 || ready["test"] != 0 {
		t.Errorf("ready are %v", ready)
	}
}

// TestNoCheckpoints fails when a backend without checkpoints is asked for a
// snapshot: its sandboxes boot cold.
func TestNoCheckpoints(t *testing.T) {
	m := newManager(t, func(c *Config) { c.Backend = slowBackend{} })
	dir, _, err := m.Language("test").snapshot(t.Context(), true)
	if dir != "" || err != nil {
		t.Errorf("the snapshot is %q, %v", dir, err)
	}
}

// TestClaimAfterClose fails when a closed manager gives out sandboxes.
func TestClaimAfterClose(t *testing.T) {
	m := newManager(t, func(c *Config) { c.Pools = map[string]int{"test": 1} })
	m.Close()
	if _, err := m.Claim(t.Context(), m.Language("test"), Sizing{}); !fault.Is(err,
		fault.Restarting) {
		t.Errorf("a claim of a closed manager: %v", err)
	}
	if _, err := m.Store(t.Context(), "t", "s", "x", strings.NewReader("")); err == nil {
		t.Error("a closed manager stored a template")
	}
}
