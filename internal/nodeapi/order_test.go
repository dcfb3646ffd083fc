package nodeapi

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/internal/nodeapi/serial"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// orderRig is a server with the operations join, detach, wait and act. The operation wait holds
// back the requests of its channel until open is closed. The operation act reports to acted what
// it finds.
type orderRig struct {
	*harness
	open    chan struct{}
	waiting chan struct{}
	acted   chan error
	link    *linkHandler // the link that joined last
}

func newOrderRig(t *testing.T, outlasts bool) *orderRig {
	rig := &orderRig{
		open: make(chan struct{}), waiting: make(chan struct{}), acted: make(chan error, 1),
	}
	join := func(_ context.Context, c *call, _ none) (none, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		rig.link = c.linkHandler
		c.viewers[c.request.Ch] = &viewer{link: c.linkHandler, requests: serial.New(&c.work)}
		return none{}, nil
	}
	leave := func(_ context.Context, c *call, _ none) (none, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.viewers, c.request.Ch)
		return none{}, nil
	}
	wait := func(context.Context, *call, none) (none, error) {
		close(rig.waiting)
		<-rig.open
		return none{}, nil
	}
	act := func(ctx context.Context, c *call, _ none) (none, error) {
		_, err := c.viewer()
		if err == nil {
			err = ctx.Err()
		}
		rig.acted <- err
		return none{}, err
	}
	channel := protocol.Operation{
		Order: protocol.PerChannel, Channel: protocol.NamesChannel, Outlasts: outlasts,
	}
	named := func(name string) protocol.Operation { o := channel; o.Name = name; return o }
	all, err := newOperations([]protocol.Operation{
		{Name: "join", Order: protocol.Inline},
		{Name: "leave", Order: protocol.Inline},
		named("wait"), named("act"),
	}, []handler{
		handle("join", join), handle("leave", leave), handle("wait", wait), handle("act", act),
	})
	if err != nil {
		t.Fatal(err)
	}
	rig.harness = newHarness(t, func(_ *Config, s *Server) { s.operations = all })
	return rig
}

// post makes a request and does not wait for its reply.
func (l *link) post(op string, ch uint32) {
	l.h.t.Helper()
	l.next++
	body, err := json.Marshal(protocol.Request{ID: l.next, Op: op, Ch: ch})
	if err == nil {
		err = l.Send(frame.Frame{Type: frame.Control, Body: body})
	}
	if err != nil {
		l.h.t.Fatal(err)
	}
}

// TestRequestBeforeDetach: a request that waits for its turn on a channel is carried out although
// a later detach overtook it.
func TestRequestBeforeDetach(t *testing.T) {
	rig := newOrderRig(t, false)
	l := rig.harness.open(alice)
	l.ask("join", 1, nil)
	l.post("wait", 1)
	l.post("act", 1)
	<-rig.waiting
	if r := l.ask("leave", 1, nil); r.Error != nil {
		t.Fatal(r.Error)
	}
	close(rig.open)
	if err := <-rig.acted; err != nil {
		t.Errorf("the request before the detach: %v", err)
	}
}

// TestRequestBeforeClose: an operation that outlasts its link is carried out although the link
// closed right after the request.
func TestRequestBeforeClose(t *testing.T) {
	rig, done := newOrderRig(t, true).closedBeforeAct()
	close(rig.open)
	<-done
	select {
	case err := <-rig.acted:
		if err != nil {
			t.Errorf("the request before the close: %v", err)
		}
	default:
		t.Error("the request before the close was not carried out")
	}
}

// TestRequestsAfterCanceled: requests that wait for their turn when their link ends are not
// carried out. One before them may have been canceled, and the client repeats all in their order.
func TestRequestsAfterCanceled(t *testing.T) {
	rig, done := newOrderRig(t, false).closedBeforeAct()
	close(rig.open)
	<-done
	select {
	case err := <-rig.acted:
		t.Errorf("the request before the close was carried out: %v", err)
	default:
	}
}

// closedBeforeAct makes the request act, which waits for its turn behind wait, and then closes the
// link. The channel closes when all requests of the link are over.
func (rig *orderRig) closedBeforeAct() (_ *orderRig, done <-chan struct{}) {
	l := rig.harness.open(alice)
	l.ask("join", 1, nil)
	l.post("wait", 1)
	<-rig.waiting
	l.post("act", 1)
	l.ask("leave", 1, nil) // the server has read act
	_ = l.Close()
	<-rig.link.ctx.Done()
	over := make(chan struct{})
	go func() {
		rig.link.work.Wait()
		close(over)
	}()
	return rig, over
}
