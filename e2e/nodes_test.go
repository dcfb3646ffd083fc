package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sandgate/sandgate/protocol/nodes"
)

// TestDrainOverHTTP drains a node through the gateway of another: its session continues there. Then
// the node takes sessions again.
func TestDrainOverHTTP(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	c := newCluster(t, 2)
	s := open(t, c.Servers[0])
	s.run("ok", "kept = 42")
	from := c.owner(s.id)
	other := c.Servers[1-from]
	list := func() (l nodes.NodeList) {
		code, err := other.Get(s.ctx, "/v1/nodes", &l)
		check(t, err)
		if code != http.StatusOK || len(l.Nodes) != 2 {
			t.Fatalf("%d %+v", code, l)
		}
		return l
	}
	eventually(t, "the gateway knows both nodes", func() bool {
		var l nodes.NodeList
		_, err := other.Get(s.ctx, "/v1/nodes", &l)
		return err == nil && len(l.Nodes) == 2
	})
	n := list().Nodes[from]
	if n.Name != fmt.Sprintf("n%d", from) || n.State != nodes.Ready || !n.Movable ||
		n.Sessions != 1 || n.Places == 0 || n.Version == "" || n.Address == "" || n.StartedMS == 0 {
		t.Errorf("%+v", n)
	}
	change := func(name string, draining bool, want int) (n nodes.NodeInfo) {
		t.Helper()
		body := map[string]bool{"draining": draining}
		code, err := other.JSON(s.ctx, http.MethodPatch, "/v1/nodes/"+name, body, &n)
		check(t, err)
		if code != want {
			t.Errorf("%s: %d %+v", name, code, n)
		}
		return n
	}
	change("n9", true, http.StatusNotFound)
	change(n.Name, true, http.StatusOK)
	eventually(t, "the node is drained", func() bool {
		n = list().Nodes[from]
		return n.State == nodes.Drained
	})
	if n.Moved == nil || n.Moved.Parked != 1 || n.Moved.Stayed != 0 || n.Sessions != 0 {
		t.Errorf("drained: %+v", n)
	}
	// A new directory refuses adoptions for the time of a lease.
	eventually(t, "the other node takes the session", func() bool {
		code, err := other.Get(s.ctx, "/v1/sessions/"+s.id, nil)
		return err == nil && code == http.StatusOK
	})
	if got := s.on(other).run("ok", "kept").result(t); got != "42" {
		t.Errorf("the session has %s", got)
	}
	if c.owner(s.id) == from {
		t.Error("the session is still on the drained node")
	}
	if n = change(n.Name, false, http.StatusOK); n.State != nodes.Ready || n.Moved != nil {
		t.Errorf("it takes sessions again: %+v", n)
	}
	change(list().Nodes[1-from].Name, true, http.StatusOK)
	eventually(t, "the session is back", func() bool { return c.owner(s.id) == from })
}
