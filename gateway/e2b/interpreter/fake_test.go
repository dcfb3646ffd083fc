package interpreter

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// fakeNode is a node with one session, whose kernels run a script.
type fakeNode struct {
	mu       sync.Mutex
	kernels  []protocol.Channel
	asked    []string
	executed []protocol.Execute
	opened   []protocol.ChannelOpen
	acks     int
	cells    uint32
	refuse   map[string]error // by operation
	files    map[string]bool  // is it a folder
	// run writes the output of a cell.
	run func(l *fakeLink, cell uint32, p protocol.Execute)
	// interrupt is called for each interrupt.
	interrupt func(l *fakeLink, p protocol.Interrupt)
}

// Open implements surface.Node.
func (n *fakeNode) Open(context.Context, noderpc.Principal) (nodecall.Link, error) {
	if err := n.refuse["open"]; err != nil {
		return nil, err
	}
	return &fakeLink{
		node: n, frames: make(chan frame.Frame, 256), closed: make(chan struct{}),
	}, nil
}

// fakeLink is a link to a fakeNode.
type fakeLink struct {
	node   *fakeNode
	frames chan frame.Frame
	closed chan struct{}
	once   sync.Once
}

func (l *fakeLink) Next() (frame.Frame, error) {
	select {
	case f := <-l.frames:
		return f, nil
	default:
	}
	select {
	case f := <-l.frames:
		return f, nil
	case <-l.closed:
		return frame.Frame{}, io.EOF
	}
}

func (l *fakeLink) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *fakeLink) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		if f.Type == frame.Ack {
			l.node.mu.Lock()
			l.node.acks++
			l.node.mu.Unlock()
			continue
		}
		var q protocol.Request
		if err := json.Unmarshal(f.Body, &q); err != nil {
			return err
		}
		if err := l.answer(q); err != nil {
			return err
		}
	}
	return nil
}

func (l *fakeLink) answer(q protocol.Request) error {
	n := l.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, q.Op)
	if err := n.refuse[q.Op]; err != nil {
		p := fault.PublicOf(err)
		l.control(protocol.Reply{ID: q.ID, Error: &p})
		return nil
	}
	switch q.Op {
	case protocol.OpChannelOpen:
		var p protocol.ChannelOpen
		_ = json.Unmarshal(q.Params, &p)
		n.opened = append(n.opened, p)
		l.reply(q.ID, n.open(p))
	case protocol.OpFileStat:
		var p protocol.FileRef
		_ = json.Unmarshal(q.Params, &p)
		if dir, ok := n.files[p.Path]; ok {
			l.reply(q.ID, protocol.File{Dir: dir})
			return nil
		}
		none := fault.PublicOf(&fault.Error{Kind: fault.NotFound, Op: "op", Field: "path"})
		l.control(protocol.Reply{ID: q.ID, Error: &none})
	case protocol.OpChannelList:
		l.reply(q.ID, protocol.ChannelList{Channels: n.kernels})
	case protocol.OpChannelClose:
		var p protocol.ChannelRef
		_ = json.Unmarshal(q.Params, &p)
		n.kernels = slices.DeleteFunc(n.kernels,
			func(c protocol.Channel) bool { return c.ID == p.Channel })
		l.reply(q.ID, struct{}{})
	case protocol.OpExecute:
		var p protocol.Execute
		_ = json.Unmarshal(q.Params, &p)
		n.executed = append(n.executed, p)
		n.cells++
		l.reply(q.ID, protocol.Queued{Cell: n.cells})
		if n.run != nil {
			n.run(l, n.cells, p)
		}
	case protocol.OpInterrupt:
		var p protocol.Interrupt
		_ = json.Unmarshal(q.Params, &p)
		if n.interrupt != nil {
			n.interrupt(l, p)
		}
	default:
		l.reply(q.ID, struct{}{})
	}
	return nil
}

// open returns the default kernel of a language, or a new one.
func (n *fakeNode) open(p protocol.ChannelOpen) protocol.Channel {
	for _, c := range n.kernels {
		if p.Key == "" && c.Language == p.Language && !c.Separate {
			return c
		}
	}
	c := protocol.Channel{
		ID: "k" + string(rune('1'+len(n.kernels))), Kind: "kernel", Language: p.Language, Cwd: p.Cwd,
		Separate: p.Key != "",
	}
	n.kernels = append(n.kernels, c)
	return c
}

func (l *fakeLink) control(r protocol.Reply) {
	body, _ := json.Marshal(r)
	l.frames <- frame.Frame{Type: frame.Control, Body: body}
}

func (l *fakeLink) reply(id uint64, result any) {
	if id != 0 {
		raw, _ := json.Marshal(result)
		l.control(protocol.Reply{ID: id, Result: raw})
	}
}

// records sends output.
func (l *fakeLink) records(recs ...frame.Record) {
	body := binary.BigEndian.AppendUint64(nil, 0)
	for _, r := range recs {
		body = frame.AppendRecord(body, r)
	}
	l.frames <- frame.Frame{Type: frame.Records, Channel: 1, Body: body}
}

func printed(cell uint32, kind frame.Kind, text string) frame.Record {
	return frame.Record{Kind: kind, Cell: cell, Payload: []byte(text)}
}

func said(cell uint32, typ string, content any) frame.Record {
	raw, _ := json.Marshal(content)
	body, _ := json.Marshal(message.Message{Type: typ, Content: raw})
	return frame.Record{Kind: frame.KindMessage, Cell: cell, Payload: body}
}

func began(cell uint32) frame.Record {
	return said(cell, message.ExecuteInputType, message.ExecuteInput{Count: int(cell)})
}

// resulted is the record of the result of a cell.
func resulted(cell uint32) frame.Record {
	return said(cell, message.ExecuteResultType, message.Bundle{
		Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"1"`)},
	})
}

func ended(cell uint32, status string) frame.Record {
	return said(cell, message.ExecuteReplyType, message.ExecuteReply{Status: status})
}

// rig is a handler with its node.
type rig struct {
	node    *fakeNode
	handler http.Handler
	stop    func()
	done    sync.WaitGroup
}

func newRig(t *testing.T, n *fakeNode) *rig {
	t.Helper()
	base, stop := context.WithCancel(context.Background())
	r := &rig{node: n, stop: stop}
	t.Cleanup(stop)
	r.handler = New(Config{
		Node: n, Log: slog.New(slog.DiscardHandler), Base: base, Call: time.Minute,
		Go: func(f func()) bool {
			if base.Err() != nil {
				return false
			}
			r.done.Go(f)
			return true
		},
	})
	return r
}

// do makes a request and returns the status and the body.
func (r *rig) do(method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	r.serve(context.Background(), w, method, path, body)
	return w.Code, w.Body.String()
}

func (r *rig) serve(ctx context.Context, w http.ResponseWriter, method, path, body string) {
	q := httptest.NewRequest(method, path, strings.NewReader(body))
	t := &sandbox.Target{ID: "iabc", Session: "s_abc", Port: sandbox.InterpreterPort}
	r.handler.ServeHTTP(w, q.WithContext(sandbox.WithTarget(ctx, t)))
}

// event is one line of a response.
type event map[string]any

// events decodes lines, which must be ASCII, and removes times.
func events(t *testing.T, body string) []event {
	t.Helper()
	var all []event
	for line := range strings.Lines(body) {
		if strings.ContainsFunc(line, func(c rune) bool { return c > 0x7e }) {
			t.Errorf("%q is not ASCII", line)
		}
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if stamp, ok := e["timestamp"]; ok {
			if _, err := time.Parse(time.RFC3339Nano, stamp.(string)); err != nil {
				t.Error(err)
			}
			delete(e, "timestamp")
		}
		all = append(all, e)
	}
	return all
}

// same compares lines with JSON.
func same(t *testing.T, got []event, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if clean, _ := json.Marshal(w); !bytes.Equal(text, clean) {
		t.Errorf("got\n%s\nwant\n%s", text, clean)
	}
}

// liveResponse is a response that a test reads while it is written.
type liveResponse struct {
	http.ResponseWriter
	lines   chan string
	flushes atomic.Int64
}

func newLiveResponse() *liveResponse {
	return &liveResponse{ResponseWriter: httptest.NewRecorder(), lines: make(chan string, 256)}
}

func (s *liveResponse) Write(p []byte) (int, error) { s.lines <- string(p); return len(p), nil }
func (s *liveResponse) Flush()                      { s.flushes.Add(1) }
func (s *liveResponse) WriteHeader(status int)      { s.lines <- http.StatusText(status) }
func (s *liveResponse) Started() bool               { return true }
