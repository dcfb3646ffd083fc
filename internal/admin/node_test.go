package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// drainedNode has moved its sessions, and has snapshots and templates.
type drainedNode struct{ stayed int }

func (n drainedNode) ServeLink(_ context.Context, l *noderpc.Link) error {
	for {
		f, err := l.Next()
		if err != nil {
			return err
		}
		var r protocol.Request
		if err := json.Unmarshal(f.Body, &r); err != nil {
			return err
		}
		raw, err := json.Marshal(nodes.Moved{
			Parked: 2, Stayed: n.stayed, Snapshots: 3, Templates: 4, Editions: 5,
		})
		if err != nil {
			return err
		}
		body, err := json.Marshal(protocol.Reply{ID: r.ID, Result: raw})
		if err != nil {
			return err
		}
		if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
			return err
		}
	}
}

// TestDrainNamesWhatStays: a drain prints the sessions, snapshots and templates that stay on the node.
func TestDrainNamesWhatStays(t *testing.T) {
	for _, stayed := range []int{0, 1} {
		cfg := &config.Config{RunDir: t.TempDir()}
		ln, err := net.Listen("unix", cfg.NodeSocket())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- noderpc.Serve(ctx, ln, drainedNode{stayed}, nil) }()
		var out, said bytes.Buffer
		err = DrainNode(ctx, &console.Invocation{Out: &out, Err: &said}, cfg)
		if (err == nil) != (stayed == 0) || !strings.HasPrefix(out.String(), "moved 2 sessions; ") ||
			!strings.Contains(said.String(), "3 snapshots stay on this node") ||
			!strings.Contains(said.String(), "4 templates stay on this node") ||
			!strings.Contains(said.String(), "5 runtimes and images of sessions stay on") {
			t.Errorf("with %d sessions that stay: %q, %q, %v", stayed, out.String(), said.String(), err)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = os.Remove(cfg.NodeSocket())
	}
}
