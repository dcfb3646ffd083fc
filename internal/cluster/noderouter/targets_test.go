package noderouter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// received returns the nodes that got an operation since the last call.
func received(all []*testNode, op string) (nodes []cluster.NodeID) {
	for _, k := range all {
		k.mu.Lock()
		if slices.Contains(k.requests, op) {
			nodes = append(nodes, k.id)
		}
		k.requests = nil
		k.mu.Unlock()
	}
	return nodes
}

// wantNodes checks which nodes got an operation.
func wantNodes(t *testing.T, row protocol.Operation, session cluster.NodeID, got []cluster.NodeID) {
	t.Helper()
	switch row.Target {
	case protocol.AllNodes, protocol.ResourceNode:
		if len(got) != 2 {
			t.Errorf("%s reached %v, not all nodes", row.Name, got)
		}
	case protocol.AnyNode, protocol.PlacedNode:
		if len(got) != 1 {
			t.Errorf("%s reached %v, not one node", row.Name, got)
		}
	case protocol.SessionNode, protocol.ChosenNode:
		if !slices.Equal(got, []cluster.NodeID{session}) {
			t.Errorf("%s reached %v, and its session is on %s", row.Name, got, session)
		}
	case protocol.NamedNode:
		// The router looks a name up and asks for the session by its id; TestEnsureOverNodes
		// checks that. Only the creation itself reaches a node.
		if len(got) > 1 {
			t.Errorf("%s reached %v, and at most one node creates a session", row.Name, got)
		}
	case protocol.DirectNode, protocol.AtGateway:
		if len(got) != 0 {
			t.Errorf("%s reached %v, and is never routed", row.Name, got)
		}
	default:
		t.Errorf("%s has the target %d, which is not routed", row.Name, row.Target)
	}
}

// TestEveryTargetIsRouted sends each operation of the table as a call and over a link,
// and checks which nodes get it.
func TestEveryTargetIsRouted(t *testing.T) {
	r, all := startNodes(t, "a", "b")
	session := all[1].make(t)
	params := map[string]any{
		"session": session, "name": "x", "snapshot": "x", "channel": "k1",
		"node": "b",
	}
	l, err := r.Open(within(t), alice)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	attach := protocol.Attach{Session: session, Channel: "k1"}
	if reply := l.roundTrip(t, 1, protocol.OpAttach, 1, attach); reply.Error != nil {
		t.Fatal(reply.Error)
	}
	received(all, "")
	for n, row := range protocol.Operations() {
		if row.Channel != protocol.NamesChannel {
			_ = r.Call(within(t), alice, row.Name, params, nil)
			wantNodes(t, row, "b", received(all, row.Name))
		}
		if row.Name == protocol.OpDetach {
			continue // it removes the number that the others name
		}
		ch := uint32(0)
		switch row.Channel {
		case protocol.NamesChannel:
			ch = 1
		case protocol.ChoosesChannel:
			ch = 2
		}
		l.roundTrip(t, uint64(n+2), row.Name, ch, params)
		wantNodes(t, row, "b", received(all, row.Name))
	}
	_, err = r.call(within(t), alice, "no.operation", nil)
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("an operation that is not in the table: %v", err)
	}
}

// TestTargetsAreComplete fails when an operation has no merge or placement, or one that
// its target does not use.
func TestTargetsAreComplete(t *testing.T) {
	m, p := merges(), placements()
	for _, row := range protocol.Operations() {
		if (m[row.Name] != nil) != (row.Target == protocol.AllNodes) {
			t.Errorf("%s: it has a merge: %t", row.Name, m[row.Name] != nil)
		}
		if (p[row.Name] != nil) != (row.Target == protocol.PlacedNode) {
			t.Errorf("%s: it has a placement: %t", row.Name, p[row.Name] != nil)
		}
		delete(m, row.Name)
		delete(p, row.Name)
	}
	if len(m)+len(p) > 0 {
		t.Errorf("%v and %v are for no operation", m, p)
	}
}

// createVolume creates a volume on the router's choice of node and returns that node.
func createVolume(t *testing.T, r *Router, all []*testNode, name string) *testNode {
	t.Helper()
	received(all, "")
	volume := protocol.VolumeCreate{Name: name}
	if err := r.Call(within(t), alice, protocol.OpVolumeCreate, volume, nil); err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if slices.Contains(received([]*testNode{k}, protocol.OpVolumeCreate), k.id) {
			return k
		}
	}
	t.Fatalf("no node created %s", name)
	return nil
}

// createSession creates a session with volumes and returns the name of its node.
func createSession(t *testing.T, r *Router, template string, volumes ...string) (string, error) {
	t.Helper()
	p := protocol.SessionCreate{Template: template}
	for _, name := range volumes {
		p.Volumes = append(p.Volumes, protocol.Mount{Name: name})
	}
	var s protocol.Session
	err := r.Call(within(t), alice, protocol.OpSessionCreate, p, &s)
	_, node, _ := strings.Cut(s.ID, "_")
	node, _, _ = strings.Cut(node, "_")
	return node, err
}

// TestVolumesOfCluster checks that operations on a volume reach the node that has it, and
// that sessions are placed there.
func TestVolumesOfCluster(t *testing.T) {
	r, all := startNodes(t, "a", "b", "c")
	on := map[cluster.NodeID][]string{}
	var names []string
	for n := 0; len(on) < 2 || n < 8; n++ {
		name := fmt.Sprint("volume", n)
		k := createVolume(t, r, all, name)
		names = append(names, name)
		on[k.id] = append(on[k.id], name)
	}
	slices.Sort(names)
	var list protocol.VolumeList
	if err := r.Call(within(t), alice, protocol.OpVolumeList, struct{}{}, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Volumes) != len(names) {
		t.Fatalf("listed %+v of %v", list.Volumes, names)
	}
	for i, v := range list.Volumes {
		if v.Name != names[i] {
			t.Errorf("entry %d is %s, want %s", i, v.Name, names[i])
		}
	}
	var apart []string
	for node, volumes := range on {
		apart = append(apart, volumes[0])
		for _, name := range volumes {
			for _, op := range []string{
				protocol.OpVolumeGet, protocol.OpVolumeLease, protocol.OpVolumeRelease,
			} {
				var v protocol.Volume
				err := r.Call(within(t), alice, op, protocol.VolumeRef{Name: name}, &v)
				if err != nil || v.CreatedMS != int64(node[0]) {
					t.Errorf("%s of %s on %s: %+v %v", op, name, node, v, err)
				}
			}
			err := r.Call(within(t), alice, protocol.OpVolumeCreate,
				protocol.VolumeCreate{Name: name}, nil)
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("a second volume of one name: %v", err)
			}
		}
		for range 4 { // the load alone would choose another node
			got, err := createSession(t, r, "", volumes...)
			if err != nil || got != string(node) {
				t.Errorf("a session with %v is on %s, want %s: %v", volumes, got, node, err)
			}
		}
	}
	_, err := createSession(t, r, "", apart...)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "different nodes") {
		t.Errorf("a session with volumes of several nodes: %v", err)
	}
	if err := r.Call(within(t), alice, protocol.OpVolumeDelete, protocol.VolumeRef{
		Name: names[0],
	}, nil); err != nil {
		t.Error(err)
	}
	err = r.Call(within(t), alice, protocol.OpVolumeGet, protocol.VolumeRef{Name: names[0]}, nil)
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted volume: %v", err)
	}
}

// TestVolumesOfTemplates checks that a volume is created on the node of the template that
// mounts it, and that a session has to be on the node of both.
func TestVolumesOfTemplates(t *testing.T) {
	r, all := startNodes(t, "a", "b", "c")
	all[1].template = protocol.Template{
		Name: "tpl", Spec: protocol.TemplateSpec{Volumes: []protocol.Mount{{Name: "shared"}}},
	}
	if k := createVolume(t, r, all, "shared"); k != all[1] {
		t.Errorf("the template's volume is on %s", k.id)
	}
	if got, err := createSession(t, r, "tpl"); err != nil || got != "b" {
		t.Errorf("a session of the template is on %s: %v", got, err)
	}
	all[0].mu.Lock()
	all[0].volumes["elsewhere"] = true
	all[0].mu.Unlock()
	if _, err := createSession(t, r, "tpl", "elsewhere"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a session of a template and a volume of different nodes: %v", err)
	}
}

// TestVolumeRace checks that one of several gateways that create a volume of one name at
// the same time succeeds.
func TestVolumeRace(t *testing.T) {
	r, _ := startNodes(t, "a", "b", "c")
	for round := range 5 {
		params := protocol.VolumeCreate{Name: fmt.Sprint("volume", round)}
		var made []error
		var mu sync.Mutex
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				err := r.Call(within(t), alice, protocol.OpVolumeCreate, params, nil)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					made = append(made, err)
				} else if !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			})
		}
		work.Wait()
		if len(made) != 1 {
			t.Errorf("%d volumes of one name were created", len(made))
		}
	}
}

// TestVolumeOfLiveNode checks that a node that cannot be reached does not keep the
// volumes of the others from their sessions.
func TestVolumeOfLiveNode(t *testing.T) {
	r, all := startNodes(t, "a", "b")
	all[0].mu.Lock()
	all[0].volumes["v"] = true
	all[0].mu.Unlock()
	if err := all[1].ln.Close(); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{protocol.OpVolumeLease} {
		if err := r.Call(within(t), alice, op, protocol.VolumeRef{Name: "v"}, nil); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
	if got, err := createSession(t, r, "", "v"); err != nil || got != "a" {
		t.Errorf("a session with the volume is on %s: %v", got, err)
	}
	for _, op := range []string{protocol.OpVolumeDelete, protocol.OpVolumeCreate} {
		err := r.Call(within(t), alice, op, protocol.VolumeRef{Name: "v"}, nil)
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s without a node: %v", op, err)
		}
	}
}

// TestOwnerOfEndedSession checks that the node which had a session is asked about its end, although
// the directory has forgotten the session.
func TestOwnerOfEndedSession(t *testing.T) {
	r, all := startNodes(t, "a", "b")
	session := all[1].make(t)
	all[1].mu.Lock()
	delete(all[1].sessions, session)
	all[1].ended = map[string]string{session: "deleted"}
	all[1].mu.Unlock()
	all[1].keeper.Forget(within(t), cluster.SessionID(session))
	ref := protocol.SessionRef{Session: session}
	var o nodes.SessionOwner
	if err := r.Call(within(t), alice, protocol.OpSessionOwner, ref, &o); err != nil ||
		o.Ended != "deleted" {
		t.Errorf("by a call: %+v, %v", o, err)
	}
	l, err := r.Open(within(t), alice)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	reply := l.roundTrip(t, 1, protocol.OpSessionOwner, 0, ref)
	if reply.Error != nil || !strings.Contains(string(reply.Result), `"ended":"deleted"`) {
		t.Errorf("over a link: %+v", reply)
	}
	ref.Session = "s_nobodys"
	err = r.Call(within(t), alice, protocol.OpSessionOwner, ref, nil)
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("a session that never was: %v", err)
	}
}
