package e2e

import (
	"slices"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
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

// TestVolumeOfKilledNode kills a node with a volume for longer than its lease. Meanwhile the volume
// and sessions with it are unavailable, and no other volume gets its name. Then it is back.
func TestVolumeOfKilledNode(t *testing.T) {
	t.Parallel() // most of the time it waits for nodes
	a := newSeparateCluster(t, separateOptions{
		nodes: 2, gateways: 1, settings: "pool: {size: 1, spare: 0, languages: [python]}\n",
	})
	ctx := deadline(t)
	cl := a.through(t, a.gateways[0])
	create := func() error {
		_, err := cl.CreateVolume(ctx, protocol.VolumeCreate{Name: "kept"})
		return err
	}
	check(t, create())
	with := protocol.SessionCreate{
		Language: "python", Volumes: []protocol.Mount{{Name: "kept"}},
	}
	s := openAs(t, a.server(a.front.address()), with)
	s.run("ok", "open('/volumes/kept/x', 'w').write('text')")
	check(t, cl.DeleteSession(ctx, s.id))
	n := a.owner(s.id)
	check(t, n.stop(syscall.SIGKILL))
	a.named(t, ctx, n)
	if _, err := cl.Volume(ctx, "kept"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the volume of a node that is away: %v", err)
	}
	if _, err := cl.CreateSession(ctx, with); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a session with the volume: %v", err)
	}
	if err := create(); !fault.Is(err, fault.Conflict) {
		t.Errorf("another volume of the name: %v", err)
	}
	check(t, n.start())
	check(t, n.warm())
	a.named(t, ctx)
	s = openAs(t, a.server(a.front.address()), with)
	s.run("ok", "assert open('/volumes/kept/x').read() == 'text'")
	check(t, cl.DeleteSession(ctx, s.id))
	check(t, cl.DeleteVolume(ctx, "kept"))
	check(t, create())
	check(t, cl.DeleteVolume(ctx, "kept"))
	a.clean()
}
