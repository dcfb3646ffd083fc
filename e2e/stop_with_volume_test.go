package e2e

import (
	"slices"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestStopWithVolume restarts a node that has a volume and a session with it, which stay there. No list
// is unavailable. While the node is away, lists name it. Afterwards they have the volume and the session.
func TestStopWithVolume(t *testing.T) {
	t.Parallel() // most of the time it waits for nodes
	a := newSeparateCluster(t, separateOptions{
		nodes: 2, gateways: 2, settings: "pool: {size: 1, spare: 0, languages: [python]}\n",
	})
	h := a.history()
	c := a.crowd(t, h, 0)
	front := a.server(a.front.address())
	cl := a.through(t, a.gateways[0])
	_, err := cl.CreateVolume(c.ctx, protocol.VolumeCreate{Name: "kept"})
	check(t, err)
	s := openAs(t, front, protocol.SessionCreate{
		Language: "python", Volumes: []protocol.Mount{{Name: "kept"}},
	})
	h.ledger.made(s.id)
	s.run("ok", "open('/volumes/kept/x', 'w').write('text')")
	n := a.owner(s.id)
	unlist := c.listed(front)
	check(t, n.stop(syscall.SIGTERM))
	missing := 0
	for _, g := range a.gateways {
		sessions, err := a.through(t, g).SelectSessions(c.ctx, protocol.SessionQuery{})
		check(t, err)
		if slices.Contains(sessions.Missing, n.name) {
			missing++
		}
	}
	if missing != len(a.gateways) {
		t.Errorf("of %d lists %d name the node that is away", len(a.gateways), missing)
	}
	check(t, n.start())
	check(t, n.warm())
	a.named(t, c.ctx)
	volumes, err := cl.Volumes(c.ctx)
	if check(t, err); len(volumes) != 1 {
		t.Errorf("afterwards the volumes are %+v", volumes)
	}
	s.run("ok", "assert open('/volumes/kept/x').read() == 'text'")
	unlist()
	h.mustHold(t)
	check(t, h.delete(c.ctx, cl, s.id))
	check(t, cl.DeleteVolume(c.ctx, "kept"))
	a.clean()
}
