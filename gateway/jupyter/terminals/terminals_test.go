package terminals

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// node is a link to a node with one terminal.
type node struct {
	frames chan frame.Frame
	sent   chan frame.Frame
	done   chan struct{}
}

func newNode(view protocol.Channel, offset int64) *node {
	n := &node{
		frames: make(chan frame.Frame, 64), sent: make(chan frame.Frame, 1024),
		done: make(chan struct{}),
	}
	n.control(protocol.Reply{ID: 1, Result: marshal(protocol.Attached{
		Epoch: 1, Offset: offset, Channel: view,
	})})
	return n
}

func marshal(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func (n *node) control(r protocol.Reply) {
	n.frames <- frame.Frame{Type: frame.Control, Body: marshal(r)}
}

func (n *node) records(offset int64, recs ...frame.Record) {
	var b []byte
	for _, r := range recs {
		b = frame.AppendRecord(b, r)
	}
	n.frames <- frame.Frame{
		Type: frame.Records, Channel: number, Body: frame.AppendRecords(nil, offset, b),
	}
}

func (n *node) ack(part uint64) {
	n.frames <- frame.Frame{
		Type: frame.Ack, Channel: number, Body: binary.BigEndian.AppendUint64(nil, part),
	}
}

func (n *node) Next() (frame.Frame, error) {
	select {
	case f := <-n.frames:
		return f, nil
	case <-n.done:
		return frame.Frame{}, io.EOF
	}
}

func (n *node) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		f.Body = append([]byte(nil), f.Body...)
		n.sent <- f
	}
	return nil
}

func (n *node) Close() error {
	select {
	case <-n.done:
	default:
		close(n.done)
	}
	return nil
}

// client is a WebSocket.
type client struct {
	in   chan string
	out  chan string
	pong []func()
}

func newClient() *client { return &client{in: make(chan string, 16), out: make(chan string, 64)} }

func (c *client) Read() ([]byte, bool, error) {
	text, ok := <-c.in
	if !ok {
		return nil, false, io.EOF
	}
	return []byte(text), false, nil
}

func (c *client) Write(data []byte, _ bool) error {
	c.out <- string(data)
	return nil
}

func (c *client) Confirm(got func()) { c.pong = append(c.pong, got) }

func stdout(text string) frame.Record {
	return frame.Record{Kind: frame.KindStdout, Payload: []byte(text)}
}

// expect compares the next messages to the client.
func (c *client) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := <-c.out; got != w {
			t.Errorf("got %s, want %s", got, w)
		}
	}
}

// TestOutput shows the replayed part after a reset, whole characters, and the exit.
func TestOutput(t *testing.T) {
	const end = 100
	n := newNode(protocol.Channel{Kind: "terminal", End: end}, 40)
	c, err := Attach(t.Context(), n, "s_x", "t1")
	if err != nil {
		t.Fatal(err)
	}
	<-n.sent
	ws := newClient()
	served := make(chan error)
	go func() { served <- c.Serve(ws) }()
	ws.expect(t, `["setup",{}]`)
	n.records(40, stdout("a\xe2\x82"))
	ws.expect(t, `["stdout","\u001bca"]`)
	n.records(end, stdout("\xac<&>"))
	ws.expect(t, `["stdout","€<&>"]`)
	if ack := <-n.sent; ack.Type != frame.Ack || len(ws.pong) != 1 {
		t.Errorf("%d replayed parts wait for the client, then %+v", len(ws.pong), ack)
	}
	ws.pong[0]()
	if ack := <-n.sent; binary.BigEndian.Uint64(ack.Body) != 40+frame.RecordHeaderSize+3 {
		t.Errorf("the replayed part is acknowledged by %v", ack.Body)
	}
	n.records(200, frame.Record{
		Kind: frame.KindRestore, Payload: marshal(frame.Restore{Data: []byte("R")}),
	})
	ws.expect(t, `["stdout","\u001bcR"]`)
	n.records(200, stdout("x\xe2"), frame.Record{
		Kind: frame.KindExit, Payload: []byte(`{"code":0}`),
	})
	ws.expect(t, `["stdout","x"]`, `["stdout","`+"\ufffd"+`"]`, `["disconnect",1]`)
	if err := <-served; !fault.Is(err, fault.KernelDied) {
		t.Errorf("the end is %v", err)
	}
	close(ws.in)
}

// TestInput sends input in parts, and no more than the program's side takes. Input waits for the
// size that was set before.
func TestInput(t *testing.T) {
	n := newNode(protocol.Channel{Kind: "terminal"}, 0)
	c, err := Attach(t.Context(), n, "s_x", "t1")
	if err != nil {
		t.Fatal(err)
	}
	<-n.sent
	ws := newClient()
	served := make(chan error)
	go func() { served <- c.Serve(ws) }()
	ws.in <- `["set_size", 10, 2000, 0, 0]`
	if f := <-n.sent; !strings.Contains(string(f.Body), `{"cols":1000,"rows":10}`) {
		t.Errorf("the size is %s", f.Body)
	}
	ws.in <- `["stdin", "y"]`
	ws.in <- `["unknown"]`
	for len(ws.in) > 1 {
		runtime.Gosched()
	}
	if len(ws.in) != 1 || len(n.sent) != 0 {
		t.Error("the input does not wait for the size")
	}
	n.control(protocol.Reply{ID: 2, Result: marshal(struct{}{})})
	if f := <-n.sent; f.Type != frame.Input || string(f.Body[8:]) != "y" {
		t.Errorf("the input is %d %q", f.Type, f.Body)
	}
	n.ack(1)
	ws.in <- `["set_size", 0, 80]`
	ws.in <- `["unknown"]`
	text := strings.Repeat("x", 2*maxUnconfirmed)
	ws.in <- string(marshal([]any{"stdin", text}))
	const parts = 4 // that may be unconfirmed
	for i := range 2 * parts {
		f := <-n.sent
		if f.Type != frame.Input || binary.BigEndian.Uint64(f.Body) != uint64(i+2) ||
			len(f.Body) != 8+maxUnconfirmed/4 {
			t.Fatalf("the part %d is %d %d", i, f.Type, len(f.Body))
		}
		if i >= parts-1 {
			if len(n.sent) != 0 {
				t.Fatalf("%d parts more were sent", len(n.sent))
			}
			n.ack(uint64(i - parts + 3))
		}
	}
	ws.in <- `{"no": "list"}`
	if err := <-served; !fault.Is(err, fault.Malformed) {
		t.Errorf("the end is %v", err)
	}
}

// TestNoTerminal refuses other channels, and terminals that have ended.
func TestNoTerminal(t *testing.T) {
	for _, view := range []protocol.Channel{
		{Kind: "kernel"}, {Kind: "terminal", State: "exited"},
	} {
		_, err := Attach(t.Context(), newNode(view, 0), "s_x", "t1")
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%+v: %v", view, err)
		}
	}
}
