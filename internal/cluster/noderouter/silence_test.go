package noderouter

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// TestSilence checks when a node counts as silent, and how often it is tried then.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = time.Minute
		away := fault.New(fault.Unavailable, "node.connect", "the node cannot be reached")
		var s silence
		state := func(when string, lasts, skip bool) {
			t.Helper()
			now := time.Now()
			if got := s.lasts(lease, now); got != lasts {
				t.Errorf("%s: silent for a lease: %t", when, got)
			}
			if got := s.skip(lease, now) != nil; got != skip {
				t.Errorf("%s: skipped: %t", when, got)
			}
		}
		state("at first", false, false)
		s.hear(away, time.Now())
		time.Sleep(2 * lease)
		state("after one attempt", false, false)
		s.hear(away, time.Now())
		state("after a lease", true, true)
		time.Sleep(probeEvery)
		state("at the next attempt", true, false)
		state("during this attempt", true, true)
		s.hear(fault.New(fault.NotFound, "session.get", "no"), time.Now())
		state("after an answer", false, false)
		s.hear(away, time.Now())
		state("after another attempt", false, false)
	})
}

// TestListsNameSilentNodes: a node that has a lease and cannot be reached makes lists unavailable for
// the time of a lease. Then they name it. A request for a resource that it
// may have stays unavailable.
func TestListsNameSilentNodes(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	id := all[0].make(t)
	all[1].make(t)
	if err := all[1].ln.Close(); err != nil {
		t.Fatal(err)
	}
	lists := map[string]func() ([]string, error){
		protocol.OpSessionList: func() ([]string, error) {
			var l protocol.SessionList
			err := f.Call(ctx, alice, protocol.OpSessionList, struct{}{}, &l)
			if err == nil && (len(l.Sessions) != 1 || l.Sessions[0].ID != id) {
				t.Errorf("listed %+v, want only %s", l.Sessions, id)
			}
			return l.Missing, err
		},
		protocol.OpVolumeList: func() ([]string, error) {
			var l protocol.VolumeList
			err := f.Call(ctx, alice, protocol.OpVolumeList, struct{}{}, &l)
			return l.Missing, err
		},
	}
	if _, err := lists[protocol.OpSessionList](); !fault.Is(err, fault.Unavailable) {
		t.Errorf("during the first lease: %v", err)
	}
	b, err := f.conn("b", all[1].ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b.lease = time.Millisecond
	for op, list := range lists {
		testenv.Eventually(t, op+" names the node", func() bool {
			missing, err := list()
			if err != nil && !fault.Is(err, fault.Unavailable) {
				t.Fatalf("%s: %v", op, err)
			}
			return err == nil && slices.Equal(missing, []string{"b"})
		})
	}
	err = f.Call(ctx, alice, protocol.OpVolumeGet, protocol.VolumeRef{Name: "v"}, nil)
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("a volume that the silent node may have: %v", err)
	}
}

// TestListsNameLeavingNodes: a node that is about to end and keeps something makes no list unavailable.
// Lists name it, also one that began before the node announced its end. A request for a resource that
// it may have is unavailable.
func TestListsNameLeavingNodes(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	ctx := within(t)
	id := all[0].make(t)
	all[1].make(t)
	var l protocol.SessionList
	if err := f.Call(ctx, alice, protocol.OpVolumeList, struct{}{}, nil); err != nil {
		t.Fatal(err) // the gateway knows both nodes now
	}
	all[1].silence()
	all[1].leaving.Store(true)
	all[1].keeper.Heartbeat(ctx)
	_ = all[1].ln.Close()
	_ = f.nodes["b"].client.Close()
	testenv.Eventually(t, "lists name the node", func() bool {
		var v protocol.VolumeList
		err := f.Call(ctx, alice, protocol.OpVolumeList, struct{}{}, &v)
		if err == nil {
			err = f.Call(ctx, alice, protocol.OpSessionList, struct{}{}, &l)
		}
		if err != nil {
			t.Fatal(err)
		}
		return slices.Equal(l.Missing, []string{"b"}) && slices.Equal(v.Missing, []string{"b"})
	})
	if len(l.Sessions) != 1 || l.Sessions[0].ID != id {
		t.Errorf("listed %+v, want only %s", l.Sessions, id)
	}
	err := f.Call(ctx, alice, protocol.OpVolumeGet, protocol.VolumeRef{Name: "v"}, nil)
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("a volume that the node may have: %v", err)
	}
	var nodes nodes.NodeList
	if err := f.Call(ctx, alice, protocol.OpNodeList, struct{}{}, &nodes); err != nil ||
		len(nodes.Nodes) != 2 {
		t.Errorf("the nodes are %+v, %v", nodes, err)
	}
}
