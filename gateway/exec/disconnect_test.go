package exec

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/nodecall/nodecalltest"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// node is a node with one link. It reports the channels that are closed.
type node struct {
	*nodecalltest.Link
	closed chan string
}

func (n *node) Open(context.Context, noderpc.Principal) (nodecall.Link, error) {
	return n.Link, nil
}

func (n *node) Call(_ context.Context, _ noderpc.Principal, op string, params, _ any) error {
	if ref, ok := params.(protocol.ChannelRef); ok && op == protocol.OpChannelClose {
		n.closed <- ref.Channel
	}
	return nil
}

// TestDisconnectAtStart checks that a command ends whose client disconnects while it starts.
func TestDisconnectAtStart(t *testing.T) {
	ctx, disconnect := context.WithCancel(context.Background())
	n := &node{closed: make(chan string, 1)}
	n.Link = nodecalltest.New(func(req protocol.Request) any {
		if req.Op == protocol.OpChannelOpen {
			disconnect()
			select { // a link that ends with the request ends at once
			case <-n.Closed():
			case <-time.After(50 * time.Millisecond):
			}
		}
		return protocol.Channel{ID: "c1"}
	})
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
