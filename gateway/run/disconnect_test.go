package run

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// node is a node with one link. Its kernel queues code as the cell 7 once the client has
// disconnected and the link had time to notice that.
type node struct {
	disconnect  func()
	frames      chan frame.Frame
	interrupted chan protocol.Interrupt
	once        sync.Once
	closed      chan struct{}
}

func (n *node) Open(context.Context, noderpc.Principal) (nodecall.Link, error) { return n, nil }

func (n *node) Call(context.Context, noderpc.Principal, string, any, any) error { return nil }

func (n *node) WriteFile(context.Context, noderpc.Principal, protocol.FileRef, string) error {
	return nil
}

func (n *node) Next() (frame.Frame, error) {
	select {
	case <-n.closed:
		return frame.Frame{}, io.EOF
	case f := <-n.frames:
		return f, nil
	}
}

func (n *node) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		var req protocol.Request
		if err := json.Unmarshal(f.Body, &req); err != nil {
			return err
		}
		result := "{}"
		switch req.Op {
		case protocol.OpExecute:
			n.disconnect()
			result = `{"cell":7}`
		case protocol.OpInterrupt:
			var p protocol.Interrupt
			if err := json.Unmarshal(req.Params, &p); err != nil {
				return err
			}
			n.interrupted <- p
			return n.Close()
		}
		body, err := json.Marshal(protocol.Reply{ID: req.ID, Result: json.RawMessage(result)})
		if err != nil {
			return err
		}
		n.frames <- frame.Frame{Type: frame.Control, Body: body}
	}
	return nil
}

func (n *node) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// TestDisconnectAtStart checks that a cell is interrupted whose client disconnects while the cell is
// queued.
func TestDisconnectAtStart(t *testing.T) {
	ctx, hangUp := context.WithCancel(context.Background())
	n := &node{
		frames: make(chan frame.Frame, 8), closed: make(chan struct{}),
		interrupted: make(chan protocol.Interrupt, 1),
	}
	n.disconnect = func() {
		hangUp()
		select { // a link that ends with the request ends at once
		case <-n.closed:
		case <-time.After(50 * time.Millisecond):
		}
	}
	r := &Runner{
		Node: n, Base: context.Background(), Call: time.Minute, Log: slog.New(slog.DiscardHandler),
	}
	run, err := r.Start(ctx, Spec{
		Request: Request{Session: "s", Code: "1"}, NoFiles: true,
	})
	if err != nil {
		t.Fatal("the cell is lost: ", err)
	}
	run.Stop()
	run.Follow()
	if p := <-n.interrupted; p.Cell != 7 {
		t.Errorf("%+v", p)
	}
}
