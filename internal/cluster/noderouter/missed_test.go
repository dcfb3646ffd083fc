package noderouter

import (
	"maps"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/session/listing"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestMissedMayHaveMoved: a record of Redis that is older than a session's last move names a node
// that does not know the session. The session is not lost: a client that tries again finds it. This
// also holds while the lease of the node that has it is missing in the older data.
func TestMissedMayHaveMoved(t *testing.T) {
	var dir lapsing
	f, all := startNodesSeen(
		t, func(l cluster.Lookup) cluster.Lookup { dir.Lookup = l; return &dir }, "a", "b",
	)
	ctx := within(t)
	const id = "s_moved"
	wantKind := func(when string, want fault.Kind) {
		t.Helper()
		if err := f.missed(ctx, alice, id, "a"); !fault.Is(err, want) {
			t.Errorf("%s: %v, want %s", when, err, want)
		}
	}
	wantKind("no node knows it", fault.SandboxLost)
	all[1].mu.Lock()
	all[1].sessions[id] = alice.Tenant
	all[1].mu.Unlock()
	wantKind("another node has it", fault.Unavailable)
	dir.gone.Store(all[1].id, true)
	testenv.Eventually(t, "the end of the lease", func() bool {
		nodes, err := f.placer.Nodes(ctx)
		return err == nil && len(nodes) == 1
	})
	wantKind("another node without a lease has it", fault.Unavailable)
}

// TestListsHaveJoined: a list has the sessions of a node that joined after the nodes were listed last.
func TestListsHaveJoined(t *testing.T) {
	var dir lapsing
	f, all := startNodesSeen(t, func(l cluster.Lookup) cluster.Lookup {
		dir.Lookup = l
		dir.gone.Store(cluster.NodeID("b"), true)
		return &dir
	}, "a", "b")
	ctx := within(t)
	id := all[1].make(t)
	for joined := range 2 {
		if joined == 1 {
			dir.gone.Delete(all[1].id)
		}
		var list protocol.SessionList
		if err := f.Call(ctx, alice, protocol.OpSessionList, struct{}{}, &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Sessions) != joined || joined == 1 && list.Sessions[0].ID != id {
			t.Errorf("%d joined: %+v", joined, list)
		}
	}
}

// TestListsHaveMoved: a session that moves from one node to another while a list is made is in the
// list, by the answer of the node that it has left. A session that had left before is not, because
// its end may be known.
func TestListsHaveMoved(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	all[0].onList = func() []listing.Left {
		return []listing.Left{
			{Session: protocol.Session{ID: "s_moved", State: "hibernated"}},
			{Session: protocol.Session{ID: "s_before"}, AgoMS: time.Hour.Milliseconds()},
			{Session: protocol.Session{ID: "s_there", State: "hibernated"}},
		}
	}
	all[1].mu.Lock()
	all[1].sessions["s_there"] = alice.Tenant
	all[1].mu.Unlock()
	var list protocol.SessionList
	if err := f.Call(ctx, alice, protocol.OpSessionList, struct{}{}, &list); err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, s := range list.Sessions {
		states[s.ID] = s.State
	}
	want := map[string]string{"s_moved": "hibernated", "s_there": ""}
	if !maps.Equal(states, want) || len(list.Sessions) != len(want) {
		t.Errorf("listed %+v", list.Sessions)
	}
}

// TestLostRecord: the record of a session without a copy is lost. Requests reach the node that has the
// session. A session that no node has is not found.
func TestLostRecord(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	a := all[0]
	id := a.make(t)
	a.keeper.Forget(ctx, cluster.SessionID(id))
	f.placer.Avoid("a") // b is asked to adopt it
	ref := protocol.SessionRef{Session: id}
	var answer struct{ Node string }
	if err := f.Call(ctx, alice, protocol.OpSessionGet, ref, &answer); err != nil ||
		answer.Node != "a" {
		t.Errorf("%+v %v", answer, err)
	}
	a.mu.Lock()
	delete(a.sessions, id)
	a.mu.Unlock()
	if err := f.Call(ctx, alice, protocol.OpSessionGet, ref, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a node that has it: %v", err)
	}
}

// TestLostRecordOfDurable: the record of a durable session is lost, and the store has a copy. Requests
// reach the node that has the session, and no other node takes it over.
func TestLostRecordOfDurable(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	a, b := all[0], all[1]
	id := a.make(t)
	a.mu.Lock()
	(*a.parked)[id] = alice.Tenant
	a.mu.Unlock()
	a.copyOf, b.copyOf = "a", "a"
	a.keeper.Forget(ctx, cluster.SessionID(id))
	f.placer.Avoid("a") // b is asked to adopt it
	var answer struct{ Node string }
	if err := f.Call(ctx, alice, protocol.OpSessionGet, protocol.SessionRef{Session: id},
		&answer); err != nil || answer.Node != "a" {
		t.Errorf("%+v %v", answer, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[id] != "" {
		t.Error("another node has taken the session over")
	}
}
