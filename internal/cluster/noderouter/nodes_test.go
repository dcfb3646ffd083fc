package noderouter

import (
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// TestNodes: all nodes are listed, also one that does not answer, and a change reaches the node that
// it names.
func TestNodes(t *testing.T) {
	r, all := startNodes(t, "b", "small", "a")
	var l nodes.NodeList
	if err := r.Call(within(t), alice, protocol.OpNodeList, struct{}{}, &l); err != nil ||
		len(l.Nodes) != 3 || l.Nodes[0].Name != "a" || l.Nodes[2].State != nodes.Ready {
		t.Fatalf("%+v: %v", l, err)
	}
	received(all, "")
	change := nodes.NodeUpdate{Node: "small", Draining: true}
	var info nodes.NodeInfo
	if err := r.Call(within(t), alice, protocol.OpNodeUpdate, change, &info); err != nil ||
		info.Name != "small" {
		t.Errorf("%+v: %v", info, err)
	}
	if got := received(all, protocol.OpNodeUpdate); len(got) != 1 || got[0] != "small" {
		t.Errorf("%v got the change", got)
	}
	change.Node = "c"
	if err := r.Call(within(t), alice, protocol.OpNodeUpdate, change, nil); !fault.Is(err,
		fault.NotFound) || fault.PublicOf(err).Field != "node" {
		t.Errorf("a node that does not exist: %v", err)
	}
	all[1].mu.Lock()
	all[1].mute = true
	all[1].mu.Unlock()
	l = nodes.NodeList{}
	if err := r.Call(within(t), alice, protocol.OpNodeList, struct{}{}, &l); err != nil ||
		len(l.Nodes) != 3 || l.Nodes[2].State != nodes.Unreachable || l.Nodes[2].Places != 100 ||
		l.Nodes[2].Memory != 1<<30 {
		t.Errorf("%+v: %v", l, err)
	}
}
