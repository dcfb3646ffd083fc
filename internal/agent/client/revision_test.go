package client

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestEarlierAgent refuses an addition that the agent of an earlier image would ignore, and sends
// everything else. The revision is kept with the state of the client.
func TestEarlierAgent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFake(t, nil)
	f.send(wire.Response{Event: "hello", Version: wire.Version})
	if err := f.WaitHello(ctx); err != nil {
		t.Fatal(err)
	}
	source := wire.StartProcess{Source: &wire.Source{Path: "x"}}
	_, err := f.StartProcess(ctx, 1, source)
	agenttest.WantKind(t, err, fault.Unsupported)
	done := make(chan error, 1)
	start := func(p wire.StartProcess) {
		go func() {
			_, err := f.StartProcess(ctx, 1, p)
			done <- err
		}()
		f.send(wire.Response{ID: f.next().ID, Result: json.RawMessage(`{"pid":7}`)})
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	start(wire.StartProcess{}) // the number is free
	f.send(wire.Response{Event: "exit", Channel: 1, Exit: &wire.Exit{}})
	f.send(wire.Response{Event: "hello", Version: wire.Version, Revision: wire.Revision})
	agenttest.Eventually(t, "the revision is known",
		func() bool { return f.Revision() == wire.Revision })
	start(source)
	f.mu.Lock()
	saved := f.saved(nil)
	f.mu.Unlock()
	c := Restore(saved, nil)
	defer c.End()
	if c.Revision() != wire.Revision {
		t.Errorf("restored with revision %d", c.Revision())
	}
}
