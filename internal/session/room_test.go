package session

import (
	"sync/atomic"
	"testing"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// heavy is a host whose machines hold more than they do.
type heavy struct {
	sandbox.Backend
	more *atomic.Int64
}

func (h heavy) Memory() int64 { return h.Backend.Memory() + h.more.Load() }

// TestGVisorRoomByMemory: when the sandboxes hold what they may together, those
// that are idle go to disk, for a new one and by themselves.
func TestGVisorRoomByMemory(t *testing.T) {
	var more atomic.Int64
	r := newGVisor(t, t.TempDir(), func(c *Config) {
		c.Pools, c.PoolMemory = map[string]int{}, -1
		c.Memory = warm.SandboxBytes + 5<<20 // beside one sandbox there is no room for a second
		c.Backend = heavy{c.Backend, &more}
	})
	create := func() (protocol.Session, error) {
		return call[protocol.Session](r, alice, protocol.OpSessionCreate, protocol.SessionCreate{Language: "bash"})
	}
	first, err := create()
	if err != nil {
		t.Fatal(err)
	}
	// Its pages are read while it runs already.
	eventually(t, "the first holds what leaves no room", func() bool { return r.m.cfg.Backend.Memory() >= 5<<20 })
	p := r.open()
	p.attach(1, first.ID, "k1")
	p.run(1, "x=kept")
	// It waits in bash itself: a signal between bash and the start of a
	// program may get lost, which is not what is looked at here.
	cell := p.execute(1, "exec 9< <(exec sleep 1000); echo on; read -u 9")
	p.printed(1, "on\n")
	if _, err := create(); !fault.Is(err, fault.Exhausted) {
		t.Errorf("beside one at work: %v", err)
	}
	p.must(protocol.OpInterrupt, 1, protocol.Interrupt{}, nil)
	p.reply(1, cell)
	var second protocol.Session
	eventually(t, "the first gives way", func() bool {
		if second, err = create(); err != nil && !fault.Is(err, fault.Exhausted) {
			t.Fatal(err)
		}
		return err == nil
	})
	if !r.session(first.ID).is(hibernated) || !r.session(second.ID).is(running) {
		t.Errorf("the first is %s, the second %s", r.session(first.ID).View().State, r.session(second.ID).View().State)
	}
	// Over the budget nobody has to ask.
	more.Store(1 << 40)
	eventually(t, "the second goes by itself", func() bool { return r.session(second.ID).is(hibernated) })
	more.Store(-1 << 40)
	if text, _ := p.run(1, "echo $x"); text != "kept\n" {
		t.Errorf("woken: %q", text)
	}
	if n := r.m.Status().Counters["gave_way"]; n < 2 {
		t.Errorf("%d gave way", n)
	}
}
