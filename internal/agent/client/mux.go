package client

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// maxEarly bounds the exits that the client keeps while there is no sink.
const maxEarly = 4 * wire.MaxChannels

// mux carries requests, channels and transfers over one wire. It has three
// goroutines: read takes frames from the agent, sender.run writes what the pipe
// does not take at once, and sendAcks acknowledges output.
//
// Lock order: mux.mu, then transfer.mu or sender.mu. sinkMu is held alone.
type mux struct {
	in    *swapReader
	out   *sender
	hello chan struct{} // closed once the agent has said hello
	done  chan struct{} // closed at the end
	acks  chan struct{} // capacity 1: due is not empty
	// captures passes the state from read to Capture.
	captures chan Saved
	dropped  atomic.Uint64 // output that came while there was no sink, in bytes
	stray    atomic.Uint64 // frames for an unknown channel or request

	sinkMu sync.Mutex // guards sink and early, and is held while sink is called
	sink   Sink
	early  []func(Sink) // exits that came while there was no sink

	mu        sync.Mutex // guards all below
	err       error
	revision  int // the agent's wire.Revision
	nextID    uint64
	quiesceID uint64                        // the number of the last Quiesce's request
	waiting   map[uint64]chan wire.Response // capacity 1 each; closed at the end
	flows     map[uint32]*flow
	due       []uint32 // channels whose Ack is due
	rest      []byte   // the beginning of the frame that the end of the wire has cut
	transfers map[uint32]*transfer
	egress    func(wire.EgressTarget, *Conn) // takes connections to the outside
	// egressOpen counts those that are open.
	egressOpen int
}

func newMux(in *swapReader, out *sender, sink Sink) *mux {
	return &mux{
		in: in, out: out, sink: sink,
		hello: make(chan struct{}), done: make(chan struct{}), acks: make(chan struct{}, 1),
		captures: make(chan Saved, 1),
		waiting:  map[uint64]chan wire.Response{}, flows: map[uint32]*flow{},
		transfers: map[uint32]*transfer{},
	}
}

// start starts the goroutines.
func (m *mux) start() {
	go m.read(m.in)
	go m.out.run(m.done, m.fail)
	go m.sendAcks()
}

// ended returns the error that ended the wire, or nil.
func (m *mux) ended() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// startChannel registers a channel, so that its output passes, and sends the
// request that starts it. When ctx ends first, it closes the channel, because
// no caller would know of it.
func (m *mux) startChannel(ctx context.Context, op string, ch uint32, p, result any) error {
	f := &flow{}
	m.mu.Lock()
	if m.flows[ch] != nil {
		m.mu.Unlock()
		return fault.New(fault.Conflict, "agent."+op, "channel %d is in use", ch)
	}
	m.flows[ch] = f
	m.mu.Unlock()
	err := m.call(ctx, op, ch, p, result)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && fault.KindOf(err) == fault.KindOf(ctx.Err()) {
		// it fails only for a sandbox that does not read
		_ = m.out.post(requestFrame(0, wire.OpClose, ch, nil))
	}
	m.mu.Lock()
	if m.flows[ch] == f {
		delete(m.flows, ch)
	}
	m.mu.Unlock()
	return err
}

// read takes frames from the agent. It never waits for the wire to take
// something, so that the agent can always write.
func (m *mux) read(r io.Reader) {
	frames := frame.NewReader(r, 0)
	for {
		f, err := frames.Next()
		if errors.Is(err, errDrained) {
			frames = frame.NewReader(continued(m.captured(frames.Rest()), r), 0)
			continue
		}
		if err == nil {
			err = m.handle(f)
		}
		if err != nil {
			m.mu.Lock()
			m.rest = append(m.rest, frames.Rest()...)
			m.mu.Unlock()
			m.fail(err)
			return
		}
	}
}

// handle takes one frame. An error ends the wire.
func (m *mux) handle(f frame.Frame) error {
	switch f.Type {
	case frame.Stdout, frame.Stderr, frame.Message:
		m.handleOutput(f)
	case frame.Control:
		var r wire.Response
		if err := json.Unmarshal(f.Body, &r); err != nil {
			return fault.Wrap(fault.Malformed, "agent.read", err)
		}
		return m.handleResponse(r)
	case frame.Data:
		m.handleData(f)
	case frame.Ack:
		if len(f.Body) != 8 {
			return fault.New(fault.Malformed, "agent.read", "an Ack has 8 bytes")
		}
		m.handleAck(f.Channel, binary.BigEndian.Uint64(f.Body))
	default:
		return fault.New(fault.Malformed, "agent.read", "an agent sends no frame of type %d",
			f.Type)
	}
	return nil
}

// handleOutput gives output to the sink and counts it as delivered.
func (m *mux) handleOutput(f frame.Frame) {
	m.mu.Lock()
	w := m.flows[f.Channel]
	m.mu.Unlock()
	if w == nil {
		m.stray.Add(1)
		return
	}
	m.sinkMu.Lock()
	if m.sink != nil {
		m.sink.Output(f.Channel, f)
	} else {
		m.dropped.Add(uint64(len(f.Body)))
	}
	m.sinkMu.Unlock()
	m.mu.Lock()
	w.got += uint64(len(f.Body))
	m.markAck(f.Channel, w)
	m.mu.Unlock()
}

// handleData gives a part of a file or connection to its transfer.
func (m *mux) handleData(f frame.Frame) {
	m.mu.Lock()
	t := m.transfers[f.Channel]
	m.mu.Unlock()
	if t == nil || !t.receive(f) {
		m.stray.Add(1)
	}
	if t == nil && f.Flags&frame.FlagEnd == 0 {
		// The transfer belongs to an earlier client, or to the sandbox that this
		// one is a copy of. Nobody reads it.
		m.abortTransfer(f.Channel)
	}
}

// handleAck notes how many bytes the agent has passed on.
func (m *mux) handleAck(ch uint32, total uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.transfers[ch]; t != nil {
		t.setAcked(total)
	} else if f := m.flows[ch]; f != nil && total <= f.sent && total > f.read {
		f.read = total
	} else {
		m.stray.Add(1)
	}
}

// handleResponse takes a response or an event.
func (m *mux) handleResponse(r wire.Response) error {
	switch {
	case r.ID != 0:
		m.mu.Lock()
		wait := m.waiting[r.ID]
		delete(m.waiting, r.ID)
		for _, f := range m.flows {
			if f.asked == r.ID {
				f.asked = 0
			}
		}
		m.mu.Unlock()
		if wait != nil {
			wait <- r // it has room for one, and gets one
		} else {
			m.stray.Add(1)
		}
	case r.Event == "hello":
		if r.Version != wire.Version {
			return fault.New(fault.Unsupported, "agent.hello",
				"the agent speaks version %d of the wire, not %d", r.Version, wire.Version)
		}
		m.mu.Lock()
		m.revision = r.Revision
		m.mu.Unlock()
		select {
		case <-m.hello:
		default:
			close(m.hello)
		}
	case r.Event == "exit" && r.Exit != nil:
		m.handleExit(r.Channel, *r.Exit)
	case r.Event == "dial" && r.Dial != nil:
		m.openEgress(r.Channel, *r.Dial)
	default:
		m.stray.Add(1)
	}
	return nil
}

// handleExit forgets a channel and reports its end to the sink.
func (m *mux) handleExit(ch uint32, e wire.Exit) {
	m.mu.Lock()
	f := m.flows[ch]
	delete(m.flows, ch)
	m.due = slices.DeleteFunc(m.due, func(n uint32) bool { return n == ch })
	m.mu.Unlock()
	if f == nil {
		m.stray.Add(1)
		return
	}
	m.sinkMu.Lock()
	defer m.sinkMu.Unlock()
	if m.sink != nil {
		m.sink.Exit(ch, e)
	} else if len(m.early) < maxEarly {
		m.early = append(m.early, func(s Sink) { s.Exit(ch, e) })
	}
}

// fail ends the client: every waiting call returns a SandboxLost error.
func (m *mux) fail(err error) {
	m.mu.Lock()
	if m.err != nil {
		m.mu.Unlock()
		return
	}
	m.err = &fault.Error{
		Kind: fault.SandboxLost, Op: "agent.wire",
		Message: "the sandbox has ended", Err: err,
	}
	lost := m.err
	for _, wait := range m.waiting {
		close(wait)
	}
	m.waiting = map[uint64]chan wire.Response{}
	for _, t := range m.transfers {
		t.fail(lost)
	}
	m.mu.Unlock()
	m.out.fail(lost)
	close(m.done)
}
