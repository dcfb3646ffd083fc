package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// kernelNode is a node without a network whose links answer each request with an attached kernel.
type kernelNode struct{}

func (kernelNode) Open(context.Context, noderpc.Principal) (Link, error) {
	return &kernelLink{in: make(chan []byte, 4), closed: make(chan struct{})}, nil
}

func (kernelNode) Call(context.Context, noderpc.Principal, string, any, any) error { return nil }

type kernelLink struct {
	in     chan []byte
	closed chan struct{}
	once   sync.Once
}

func (l *kernelLink) Next() (frame.Frame, error) {
	select {
	case body := <-l.in:
		return frame.Frame{Type: frame.Control, Body: body}, nil
	case <-l.closed:
		return frame.Frame{}, io.EOF
	}
}

func (l *kernelLink) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		var q protocol.Request
		if f.Type != frame.Control || json.Unmarshal(f.Body, &q) != nil {
			continue
		}
		result, _ := json.Marshal(protocol.Attached{
			Epoch: 1, Channel: protocol.Channel{ID: "k1", Kind: "kernel", State: "idle"},
		})
		body, _ := json.Marshal(protocol.Reply{ID: q.ID, Result: result})
		l.in <- body
	}
	return nil
}

func (l *kernelLink) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// TestIdleJupyterMemory opens WebSockets of a Jupyter kernel that then send nothing.
func TestIdleJupyterMemory(t *testing.T) {
	const n = 250 // fewer than one principal may have
	w := idleWorld(t, kernelNode{})
	measure := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	open := func(i int) {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		fmt.Fprintf(c, "GET /jupyter/api/kernels/aaaaaaaa-aaaa-aaaa-aaaa-aaaaaa_k1/channels?session_id=s%d "+
			"HTTP/1.1\r\nHost: localhost\r\nAuthorization: token %s\r\nConnection: Upgrade\r\n"+
			"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", i, tokenAll)
		br := bufio.NewReader(c)
		if r, err := http.ReadResponse(br, nil); err != nil || r.StatusCode != 101 {
			t.Fatal(r, err)
		}
		readFrame(t, br) // a state of the kernel
	}
	open(0) // makes the parts that all of them share
	before := measure()
	for i := range n {
		open(i + 1)
	}
	per := int64(measure()-before) / n
	t.Logf("%d idle WebSockets of a kernel: %d bytes each, the test's own end included", n, per)
	if limit := int64(24 << 10); !raced && per > limit {
		t.Errorf("over %d bytes each", limit)
	}
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, "the gateway counts no connection",
		func() bool { return w.g.Stats().Connections == 0 })
}
