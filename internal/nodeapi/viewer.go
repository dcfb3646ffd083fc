package nodeapi

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/nodeapi/serial"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// viewer is a link's end of a channel.Viewer, under a number that the client chose. One goroutine
// sends the log to the link. Requests and input have separate queues, so that a signal does not
// wait for input that the program does not read.
type viewer struct {
	*channel.Viewer
	session *session.Session
	link    *linkHandler
	ch      uint32
	pumped  chan struct{} // closed when the pump has ended

	requests, inputs *serial.Queue
	news             *serial.Queue // events of the session, in their order

	mu sync.Mutex // guards all below
	// stuck is set when an input was rejected: later input would leave a hole.
	stuck bool
}

// onlyReads reports whether the link's principal may read but not write. A principal that may do
// neither belongs to a run token, and the gateway lets it attach only to its run.
func (c *linkHandler) onlyReads() bool {
	return slices.Contains(c.principal.Scopes, string(protocol.ScopeRead)) &&
		!slices.Contains(c.principal.Scopes, string(protocol.ScopeWrite))
}

// eventError sends the event error.
func (c *linkHandler) eventError(ch uint32, err error) {
	c.event(protocol.EventError, ch, fault.PublicOf(err))
}

// attach makes the link a viewer of a channel. The records follow the reply.
func attach(_ context.Context, c *call, p protocol.Attach) (protocol.Attached, error) {
	var no protocol.Attached
	ch := c.request.Ch
	if err := c.checkAttach(&p); err != nil {
		return no, err
	}
	s, err := c.session(p.Session)
	if err != nil {
		return no, err
	}
	v := &viewer{
		session: s, link: c.linkHandler, ch: ch, pumped: make(chan struct{}),
		requests: serial.New(&c.work), inputs: serial.New(&c.work),
		news: serial.New(&c.work),
	}
	if v.Viewer, err = s.Channels().Attach(c.ctx, v, p); err != nil {
		return no, err
	}
	if err := c.addViewer(v); err != nil {
		v.Close()
		return no, err
	}
	result, err := v.Join()
	if err != nil {
		_ = c.detach(ch)
		return no, err
	}
	c.after = v.start
	return result, nil
}

// checkAttach checks an attach request, and makes it read-only for principals that cannot write.
func (c *call) checkAttach(p *protocol.Attach) error {
	const op = "link.attach"
	if c.onlyReads() && p.Writer == "" {
		p.ReadOnly = true
	}
	switch {
	case c.onlyReads() && p.Writer != "":
		// The viewer would take over another user's stream of input.
		return &fault.Error{
			Kind: fault.PermissionDenied, Op: op, Field: "writer",
			Message: "these credentials do not allow writing",
		}
	case c.request.Ch == 0:
		return fault.Invalid(op, "ch", "choose a number above 0")
	case p.Window < 0 || p.Window > protocol.MaxWindow:
		return fault.Invalid(op, "window", "a window has between 0 and %d bytes",
			protocol.MaxWindow)
	case len(p.Writer) > protocol.MaxWriter:
		return fault.Invalid(op, "writer", "a writer's name has at most %d bytes",
			protocol.MaxWriter)
	case p.ReadOnly && p.Writer != "":
		return fault.Invalid(op, "writer", "a read-only viewer cannot write")
	}
	return nil
}

// addViewer gives a viewer its number.
func (c *linkHandler) addViewer(v *viewer) error {
	const op = "link.attach"
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.viewers == nil:
		return fault.New(fault.Canceled, op, "the link has ended")
	case c.viewers[v.ch] != nil || c.watches[v.ch] != nil:
		return fault.Invalid(op, "ch", "%d is attached already", v.ch)
	case len(c.viewers) >= protocol.MaxAttached:
		return fault.New(fault.Exhausted, op, "a connection attaches at most %d channels",
			protocol.MaxAttached)
	}
	c.viewers[v.ch] = v
	return nil
}

// detach ends the viewer or the watch with the request's ch.
func detach(_ context.Context, c *call, _ none) (none, error) {
	return none{}, c.detach(c.request.Ch)
}

func (c *linkHandler) detach(ch uint32) error {
	c.mu.Lock()
	v := c.viewers[ch]
	delete(c.viewers, ch)
	c.mu.Unlock()
	if v == nil && c.unwatch(ch) {
		return nil
	}
	if v == nil {
		return fault.Invalid("link.detach", "ch", "nothing is attached as %d", ch)
	}
	v.Close()
	return nil
}

// follow makes a viewer keep up with the end of the log.
func follow(_ context.Context, c *call, p protocol.Follow) (none, error) {
	v, err := c.viewer()
	if err != nil {
		return none{}, err
	}
	return none{}, v.Follow(p)
}

// start begins to send the log. The reply to the attach has been sent.
func (v *viewer) start() {
	v.link.work.Go(v.pump)
	v.Start()
}

// pump sends the log to the link until the log or the viewer ends.
func (v *viewer) pump() {
	defer close(v.pumped)
	defer v.link.caught("link.pump", func(error) { v.Close() })
	v.Pump(v.sendRecords)
}

func (v *viewer) sendRecords(offset int64, records []byte) int {
	body := frame.GetBuffer()
	defer frame.PutBuffer(body)
	*body = frame.AppendRecords(*body, offset, records)
	v.link.send(frame.Frame{Type: frame.Records, Channel: v.ch, Body: *body})
	return len(*body)
}

// ack adds credit.
func (v *viewer) ack(offset int64) {
	if err := v.Ack(offset); err != nil {
		v.link.eventError(v.ch, err)
	}
}

// lostWait is how long the event of a loss waits until the last records are sent. A viewer without
// credit delays them.
const lostWait = 2 * time.Second

// Link implements channel.Client.
func (v *viewer) Link() channel.LinkID { return v.link.id }

// Notify implements channel.Client.
func (v *viewer) Notify(event string, params any) {
	// When too many events wait, the peer does not read.
	v.link.later(v.news, func() { v.link.event(event, v.ch, params) })
}

// NotifyLost implements channel.Client.
func (v *viewer) NotifyLost(lost protocol.Lost) {
	// The lock ensures that no goroutine starts after the link waits for all of them.
	v.link.mu.Lock()
	defer v.link.mu.Unlock()
	if v.link.viewers == nil {
		return
	}
	v.link.work.Go(func() {
		timer := time.NewTimer(lostWait)
		defer timer.Stop()
		select {
		case <-v.pumped:
		case <-timer.C:
		case <-v.Done():
			return // the viewer has ended
		}
		v.link.event(protocol.EventLost, v.ch, lost)
	})
}

// Disconnect implements channel.Client.
func (v *viewer) Disconnect() { _ = v.link.link.Close() }

// Go implements channel.Client.
func (v *viewer) Go(f func()) { v.link.background("link.viewer", f, func(error) {}) }

// input passes an Input frame to a process. Input that cannot be accepted is rejected with an error
// event, and so is all later input of this viewer, because input must not have holes.
func (c *linkHandler) input(f frame.Frame) {
	const op = "link.input"
	v := c.find(f.Channel)
	if v == nil {
		c.eventError(f.Channel, fault.Invalid(op, "ch", "nothing is attached as %d", f.Channel))
		return
	}
	terminal := v.Channel().IsTerminal()
	switch {
	case len(f.Body) < 8 || len(f.Body) > 8+protocol.MaxInput:
		c.eventError(f.Channel, fault.New(fault.TooLarge, op,
			"an Input frame has a sequence number of 8 bytes, followed by at most %d bytes",
			protocol.MaxInput))
		return
	case v.Channel().Queue() != nil:
		c.eventError(f.Channel,
			fault.New(fault.Unsupported, op, "a kernel takes input by the operation input"))
		return
	case v.ReadOnly():
		v.refuse(fault.New(fault.PermissionDenied, op, "this viewer is read-only").
			For(fault.CauseReadOnly))
		return
	case terminal && f.Flags&frame.FlagEnd != 0:
		v.refuse(fault.New(fault.Unsupported, op,
			"the input of a terminal has no end: send Ctrl-D"))
		return
	case !terminal && f.Flags&frame.FlagPaste != 0:
		v.refuse(fault.New(fault.Unsupported, op, "a paste is for a terminal"))
		return
	}
	in := channel.Input{
		Sequence: binary.BigEndian.Uint64(f.Body), Data: append([]byte(nil), f.Body[8:]...),
		End: f.Flags&frame.FlagEnd != 0, Paste: f.Flags&frame.FlagPaste != 0,
	}
	if !v.inputs.Enqueue(serial.Task{Size: len(in.Data), Run: func() { v.write(in) }}) {
		v.refuse(&fault.Error{
			Kind: fault.Exhausted, Op: op,
			Message: "the program does not read its input, and too much input waits",
		})
	}
}

func (v *viewer) refuse(err error) {
	v.mu.Lock()
	first := !v.stuck
	v.stuck = true
	v.mu.Unlock()
	v.link.server.metrics.inputRefused.Add(1)
	if first {
		v.link.eventError(v.ch, err)
	}
}

// write passes input to the program. A frame with a sequence number is acknowledged with that
// number.
func (v *viewer) write(in channel.Input) {
	v.mu.Lock()
	stuck := v.stuck
	v.mu.Unlock()
	if stuck {
		v.link.server.metrics.inputRefused.Add(1)
		return
	}
	var taken bool
	var err error
	if p := v.link.guard("link.input", func() { taken, err = v.Write(in) }); p != nil {
		err = p
	}
	if err != nil {
		v.refuse(err)
		return
	}
	if !taken {
		return
	}
	if in.Sequence != 0 {
		v.link.send(frame.Frame{
			Type: frame.Ack, Channel: v.ch,
			Body: binary.BigEndian.AppendUint64(nil, in.Sequence),
		})
	}
	v.Fit()
}
