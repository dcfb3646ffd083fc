package noderouter

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// TestPlaceByMemory: a session that asks for more memory than a node has is created on another node.
// A session that asks for little is created on the node with fewer sessions.
func TestPlaceByMemory(t *testing.T) {
	f, _ := startNodes(t, "small", "large")
	create := func(memory int64) string {
		t.Helper()
		var s protocol.Session
		p := protocol.SessionCreate{Limits: &protocol.Limits{MemoryBytes: memory}}
		if err := f.Call(within(t), alice, protocol.OpSessionCreate, p, &s); err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	for i := range 8 {
		if id := create(2 << 30); !strings.HasPrefix(id, "s_large_") {
			t.Errorf("session %d is %s", i, id)
		}
	}
	if id := create(256 << 20); !strings.HasPrefix(id, "s_small_") {
		t.Errorf("with a node that has nothing: %s", id)
	}
}

// TestAdoptByImage: a parked session is adopted by a node with the image that its memory is for, if
// there is one, on a request and without one.
func TestAdoptByImage(t *testing.T) {
	f, all := startNodes(t, "a", "b", "c", "d")
	images := []cluster.NodeID{"b", "c", "b", "d", "b", "other"}
	var ids []string
	for range images {
		ids = append(ids, all[0].make(t))
	}
	for i, want := range images {
		id := ids[i]
		all[0].mu.Lock()
		(*all[0].parked)[id] = alice.Tenant
		if i%2 == 1 {
			(*all[0].parked)[id] = noderpc.GatewayTenant
		}
		delete(all[0].sessions, id)
		all[0].mu.Unlock()
		as := cluster.ReleaseInfo{Busy: true, Memory: 1 << 30, Image: "image-of-" + string(want)}
		if err := all[0].keeper.Release(within(t), cluster.SessionID(id), as); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			f.Adopt(within(t), cluster.SessionID(id))
		} else if err := f.Call(within(t), alice, protocol.OpSessionGet,
			protocol.SessionRef{Session: id}, nil); err != nil {
			t.Fatal(err)
		}
		o, err := f.resolver.Find(within(t), cluster.SessionID(id))
		if err != nil || o.Node != want && want != "other" || o.Node == "" {
			t.Errorf("session %d is on %q, want %s: %v", i, o.Node, want, err)
		}
	}
}

// TestDrainedNodesDecline: the directory does not report yet that a node is being drained. A session
// is created, and a parked one continues, on the other node without an error.
func TestDrainedNodesDecline(t *testing.T) {
	for _, op := range []string{protocol.OpSessionGet, protocol.OpSessionCreate} {
		f, all := startNodes(t, "a", "b")
		ctx := within(t)
		id := all[1].make(t)
		if err := all[1].keeper.Release(ctx, cluster.SessionID(id),
			cluster.ReleaseInfo{}); err != nil {
			t.Fatal(err)
		}
		var declines atomic.Int32
		declines.Store(1)
		for _, n := range all {
			n.mu.Lock()
			n.declines = &declines
			(*n.parked)[id] = alice.Tenant
			n.mu.Unlock()
		}
		err := f.Call(ctx, alice, op, protocol.SessionRef{Session: id}, nil)
		if err != nil || declines.Load() >= 0 {
			t.Errorf("%s: %v, and %d nodes still decline", op, err, declines.Load())
		}
	}
}
