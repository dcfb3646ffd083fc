package process

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// fakeNode is a node with one session in memory. Its processes do what the test does with them.
type fakeNode struct {
	t      *testing.T
	opened chan *fakeProcess // each process that was opened

	mu        sync.Mutex
	processes []*fakeProcess
	links     map[*fakeLink]bool
	fail      error // the error of Open
	attached  int
	full      int // how many starts are refused
}

type fakeProcess struct {
	n       *fakeNode
	open    protocol.ChannelOpen
	view    protocol.Channel
	records []frame.Record
	input   []byte
	signals []string
	size    protocol.Resize
	changed chan struct{} // gets a value with each input, signal and size
}

func newNode(t *testing.T) *fakeNode {
	return &fakeNode{t: t, opened: make(chan *fakeProcess, 300), links: map[*fakeLink]bool{}}
}

// Open returns a link.
func (n *fakeNode) Open(_ context.Context, who noderpc.Principal) (nodecall.Link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if who.Tenant != "tenant" {
		n.t.Errorf("the principal is %+v", who)
	}
	if n.fail != nil {
		return nil, n.fail
	}
	l := &fakeLink{n: n, wake: make(chan struct{}, 1), done: make(chan struct{})}
	n.links[l] = true
	return l, nil
}

// cut ends all links. Open fails with err from then on.
func (n *fakeNode) cut(err error) {
	n.mu.Lock()
	n.fail = err
	links := n.links
	n.links = map[*fakeLink]bool{}
	n.mu.Unlock()
	for l := range links {
		_ = l.Close()
	}
}

// heal lets Open work again.
func (n *fakeNode) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = nil
}

// next returns the process that was opened.
func (n *fakeNode) next() *fakeProcess { return <-n.opened }

func (p *fakeProcess) write(kind frame.Kind, text string) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	r := frame.Record{Kind: kind, Payload: []byte(text)}
	p.records = append(p.records, r)
	if kind != frame.KindGap {
		p.view.End += r.Size()
	}
	p.n.notify()
}

func (p *fakeProcess) exit(e protocol.Exit) {
	text, _ := json.Marshal(e)
	p.n.mu.Lock()
	p.view.State, p.view.Exit = "exited", &e
	p.n.mu.Unlock()
	p.write(frame.KindExit, string(text))
}

func (p *fakeProcess) wait() { <-p.changed }

// notify wakes all links. Preconditions: mu is held.
func (n *fakeNode) notify() {
	for l := range n.links {
		l.poke()
	}
}

// fakeLink is a link with at most one viewer.
type fakeLink struct {
	n    *fakeNode
	wake chan struct{}
	done chan struct{}
	once sync.Once

	// guarded by n.mu
	queue   []frame.Frame
	process *fakeProcess
	sent    int // records of the process
	offset  int64
}

func (l *fakeLink) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *fakeLink) Close() error {
	l.once.Do(func() { close(l.done) })
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	delete(l.n.links, l)
	return nil
}

func (l *fakeLink) Next() (frame.Frame, error) {
	for {
		select {
		case <-l.done: // a closed link delivers nothing
			return frame.Frame{}, io.EOF
		default:
		}
		l.n.mu.Lock()
		f, ok := l.pop()
		l.n.mu.Unlock()
		if ok {
			return f, nil
		}
		select {
		case <-l.wake:
		case <-l.done:
			return frame.Frame{}, io.EOF
		}
	}
}

// pop returns the next frame: a reply, or records that were not sent.
func (l *fakeLink) pop() (f frame.Frame, ok bool) {
	if len(l.queue) > 0 {
		f, l.queue = l.queue[0], l.queue[1:]
		return f, true
	}
	if l.process == nil || l.sent == len(l.process.records) {
		return f, false
	}
	body := binary.BigEndian.AppendUint64(nil, uint64(l.offset))
	for _, r := range l.process.records[l.sent:] {
		body = frame.AppendRecord(body, r)
		if r.Kind != frame.KindGap {
			l.offset += r.Size()
		}
	}
	l.sent = len(l.process.records)
	return frame.Frame{Type: frame.Records, Channel: 1, Body: body}, true
}

func (l *fakeLink) Send(frames ...frame.Frame) error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	defer l.poke()
	for _, f := range frames {
		switch f.Type {
		case frame.Input:
			l.input(f)
		case frame.Control:
			var req protocol.Request
			if err := json.Unmarshal(f.Body, &req); err != nil {
				return err
			}
			result, err := l.serve(req)
			reply := protocol.Reply{ID: req.ID}
			if err != nil {
				p := fault.PublicOf(err)
				reply.Error = &p
			} else {
				reply.Result, _ = json.Marshal(result)
			}
			body, _ := json.Marshal(reply)
			l.queue = append(l.queue, frame.Frame{Type: frame.Control, Body: body})
		}
	}
	return nil
}

func (l *fakeLink) input(f frame.Frame) {
	p := l.process
	p.input = append(p.input, f.Body[8:]...)
	p.view.InputEnded = p.view.InputEnded || f.Flags&frame.FlagEnd != 0
	l.queue = append(l.queue, frame.Frame{Type: frame.Ack, Channel: 1, Body: f.Body[:8]})
	p.changed <- struct{}{}
}

func (l *fakeLink) serve(req protocol.Request) (any, error) {
	switch req.Op {
	case protocol.OpChannelList:
		list := protocol.ChannelList{Channels: []protocol.Channel{{ID: "k1", Kind: "kernel"}}}
		for _, p := range l.n.processes {
			list.Channels = append(list.Channels, p.view)
		}
		return list, nil
	case protocol.OpChannelOpen:
		var open protocol.ChannelOpen
		_ = json.Unmarshal(req.Params, &open) // the client encodes it
		return l.open(open)
	case protocol.OpAttach:
		var a protocol.Attach
		_ = json.Unmarshal(req.Params, &a)
		return l.attach(a)
	case protocol.OpSignal:
		var s protocol.Signal
		_ = json.Unmarshal(req.Params, &s)
		if l.process.view.State != "running" {
			return nil, fault.New(fault.Conflict, "x", "ended").For(fault.CauseEnded)
		}
		l.process.signals = append(l.process.signals, s.Signal)
	case protocol.OpResize:
		_ = json.Unmarshal(req.Params, &l.process.size)
	}
	l.process.changed <- struct{}{}
	return struct{}{}, nil
}

func (l *fakeLink) open(open protocol.ChannelOpen) (any, error) {
	switch {
	case open.Argv[0] == "full":
		if l.n.full--; l.n.full >= 0 {
			return nil, fault.New(fault.Exhausted, "x", "there is no place")
		}
	case open.Cwd == "/missing":
		return nil, fault.Invalid("x", "cwd", "there is no such folder")
	case open.Argv[0] == "missing" || open.Argv[0] == "/bin/bash" && open.Env["NO_BASH"] != "":
		err := fault.New(fault.NotFound, "x", "there is no program")
		err.Field = "argv"
		return nil, err
	}
	n := len(l.n.processes) + 1
	p := &fakeProcess{
		n: l.n, open: open, changed: make(chan struct{}, 100),
		view: protocol.Channel{
			ID: "p" + strings.Repeat("1", n), Kind: open.Kind, Argv: open.Argv, Cwd: open.Cwd,
			Tag: open.Tag, PID: 100 + n, State: "running", Epoch: 1,
			InputEnded: !open.Stdin && open.Kind == "process",
		},
	}
	l.n.processes = append(l.n.processes, p)
	l.n.opened <- p
	return p.view, nil
}

func (l *fakeLink) attach(a protocol.Attach) (any, error) {
	for _, p := range l.n.processes {
		if p.view.ID != a.Channel {
			continue
		}
		l.process, l.n.attached = p, l.n.attached+1
		for at := int64(0); l.sent < len(p.records) && (at < a.Offset || a.Offset < 0); l.sent++ {
			at += p.records[l.sent].Size()
			l.offset = at
		}
		return protocol.Attached{Epoch: 1, Offset: l.offset, Channel: p.view}, nil
	}
	return nil, fault.New(fault.NotFound, "x", "there is no such channel")
}
