package exec

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// node is a node with one link, which ends with the context that it was opened with. The node opens
// the channel c1 once the client has disconnected.
type node struct {
	ctx        context.Context
	disconnect func()
	frames     chan frame.Frame
	closed     chan string
}

func (n *node) Open(ctx context.Context, _ noderpc.Principal) (nodecall.Link, error) {
	n.ctx = ctx
	return n, nil
}

func (n *node) Call(_ context.Context, _ noderpc.Principal, op string, params, _ any) error {
	if ref, ok := params.(protocol.ChannelRef); ok && op == protocol.OpChannelClose {
		n.closed <- ref.Channel
	}
	return nil
}

func (n *node) Next() (frame.Frame, error) {
	if n.ctx.Err() != nil {
		return frame.Frame{}, io.EOF
	}
	return <-n.frames, nil
}

func (n *node) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		var req protocol.Request
		if err := json.Unmarshal(f.Body, &req); err != nil {
			return err
		}
		result := "{}"
		if req.Op == protocol.OpChannelOpen {
			n.disconnect()
			result = `{"id":"c1"}`
		}
		body, err := json.Marshal(protocol.Reply{ID: req.ID, Result: json.RawMessage(result)})
		if err != nil {
			return err
		}
		n.frames <- frame.Frame{Type: frame.Control, Body: body}
	}
	return nil
}

func (n *node) Close() error { return nil }

// TestDisconnectAtStart checks that a command ends whose client disconnects while it starts.
func TestDisconnectAtStart(t *testing.T) {
	ctx, disconnect := context.WithCancel(context.Background())
	n := &node{
		disconnect: disconnect, frames: make(chan frame.Frame, 8), closed: make(chan string, 1),
	}
	s := New(Config{
		Node: n, Base: context.Background(), Call: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	no := false
	p := protocol.ExecRequest{Session: "s", Cmd: "sleep 1", Files: &no}
	if err := check(&p); err != nil {
		t.Fatal(err)
	}
	c, err := s.start(ctx, noderpc.Principal{}, p)
	if err != nil {
		t.Fatal("the command is lost: ", err)
	}
	c.abandon()
	if channel := <-n.closed; channel != "c1" {
		t.Error("closed ", channel)
	}
}
