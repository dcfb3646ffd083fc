package client

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestHardening_EmptyFramesCostNothing: an agent that sends frames without data, or tiny ones, to a
// transfer that nobody reads does not make the node's memory grow.
func TestHardening_EmptyFramesCostNothing(t *testing.T) {
	held := func(tr *transfer) int {
		n := cap(tr.parts) * 24
		for _, p := range tr.parts {
			n += cap(p)
		}
		return n
	}
	new := func() *transfer {
		return &transfer{changed: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
	}
	empty := new()
	for range 600_000 {
		empty.receive(frame.Frame{Type: frame.Data})
	}
	if n := held(empty); n > 0 {
		t.Errorf("empty frames hold %d bytes", n)
	}
	tiny := new()
	for range 600_000 {
		tiny.receive(frame.Frame{Type: frame.Data, Body: []byte{1}})
	}
	if n := held(tiny); n > 5*wire.Window || tiny.size > 2*wire.Window {
		t.Errorf("frames of one byte hold %d bytes for %d", n, tiny.size)
	}
}

// TestHardening_NoDataForUploads: an agent that answers an upload with data does not fill the memory
// of the node.
func TestHardening_NoDataForUploads(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	body, more := io.Pipe()
	done := make(chan error, 1)
	go func() { _, err := f.Files.Write(ctx, 2, wire.FileWrite{Path: "x"}, body); done <- err }()
	f.next()
	go func() {
		for {
			if _, err := f.in.Next(); err != nil {
				return
			}
		}
	}()
	data := make([]byte, 1024)
	for i := range 50_000 {
		part := frame.Frame{Type: frame.Data, Channel: 2, Body: data[:i%2*1024]}
		if err := f.out.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	f.mux.mu.Lock()
	kept := f.mux.transfers[2]
	f.mux.mu.Unlock()
	kept.mu.Lock()
	if kept.size > 0 || len(kept.parts) > 0 {
		t.Errorf("the node keeps %d bytes in %d parts", kept.size, len(kept.parts))
	}
	kept.mu.Unlock()
	cancel()
	_ = more.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-done; err == nil {
		t.Error("the upload succeeded")
	}
}

// TestHardening_TooManyPorts: a list of ports that is too long is refused.
func TestHardening_TooManyPorts(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	for n, want := range map[int]fault.Kind{wire.MaxPorts: "", wire.MaxPorts + 1: fault.Malformed} {
		list, err := json.Marshal(wire.Ports{Ports: make([]wire.Port, n)})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			r := f.next()
			f.send(wire.Response{ID: r.ID, Result: list})
		}()
		got, err := f.Ports.List(t.Context())
		if want == "" && (err != nil || len(got) != n) || want != "" && !fault.Is(err, want) {
			t.Errorf("%d ports: %d, %v", n, len(got), err)
		}
	}
}
