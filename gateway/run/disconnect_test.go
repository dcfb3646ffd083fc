package run

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/nodecall/nodecalltest"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// node is a node with one link.
type node struct{ link *nodecalltest.Link }

func (n node) Open(context.Context, noderpc.Principal) (nodecall.Link, error) { return n.link, nil }

func (n node) Call(context.Context, noderpc.Principal, string, any, any) error { return nil }

func (n node) WriteFile(context.Context, noderpc.Principal, protocol.FileRef, string) error {
	return nil
}

// TestDisconnectAtStart checks that a cell is interrupted whose client disconnects while the cell is
// queued.
func TestDisconnectAtStart(t *testing.T) {
	ctx, disconnect := context.WithCancel(context.Background())
	interrupted := make(chan protocol.Interrupt, 1)
	var link *nodecalltest.Link
	link = nodecalltest.New(func(req protocol.Request) any {
		switch req.Op {
		case protocol.OpExecute:
			disconnect()
			select { // a link that ends with the request ends at once
			case <-link.Closed():
			case <-time.After(50 * time.Millisecond):
			}
			return protocol.Queued{Cell: 7}
		case protocol.OpInterrupt:
			var p protocol.Interrupt
			if err := json.Unmarshal(req.Params, &p); err != nil {
				t.Error(err)
			}
			interrupted <- p
			_ = link.Close()
		}
		return struct{}{}
	})
	r := &Runner{
		Node: node{link}, Base: context.Background(), Call: time.Minute,
		Log: slog.New(slog.DiscardHandler),
	}
	run, err := r.Start(ctx, Spec{
		Request: Request{Session: "s", Code: "1"}, NoFiles: true,
	})
	if err != nil {
		t.Fatal("the cell is lost: ", err)
	}
	run.Stop()
	run.Follow()
	if p := <-interrupted; p.Cell != 7 {
		t.Errorf("%+v", p)
	}
}
