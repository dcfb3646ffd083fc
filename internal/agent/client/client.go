// Package client is the host's end of the protocol to the agent in a sandbox.
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
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/stream"
)

// Sink takes what the agent sends unasked. Both methods are called by the one
// goroutine that reads the wire, in the order of the wire: they must return
// soon, and must not call a method of the Client that waits. For one channel,
// nothing comes after its Exit.
type Sink interface {
	// Output is a Stdout, Stderr or Message frame. Its body is valid during
	// the call. When it returns, the bytes count as taken.
	Output(channel uint32, f stream.Frame)
	// Exit is the end of a channel whose start had succeeded.
	Exit(channel uint32, e wire.Exit)
}

// Client is the host's end of the wire to one agent. It is safe for concurrent
// use, and does not trust the agent: what it holds is bounded whatever comes.
//
// It ends when the wire does, which its owner brings about by closing both
// sides; there is no other way to end it, unless it is parked: see Park.
type Client struct {
	in    *swapReader
	out   *sender
	hello chan struct{} // closed once the agent has said hello
	done  chan struct{} // closed at the end
	acks  chan struct{} // capacity 1: there is something in due
	// stills gets what Still waits for, from the one who reads.
	captures chan Saved
	lost     atomic.Uint64 // output that came while there was no sink, in bytes
	stray    atomic.Uint64 // frames that belong to nothing

	sinkMu sync.Mutex // guards sink and early, and is held while sink is called
	sink   Sink
	early  []func(Sink) // exits that came while there was no sink

	mu      sync.Mutex // guards all below
	err     error
	nextID  uint64
	parkID  uint64                        // the number of the last Park's request
	waiting map[uint64]chan wire.Response // capacity 1 each; closed at the end
	flows   map[uint32]*flow
	due     []uint32 // channels whose Ack is due
	rest    []byte   // of the frame within which the wire has ended
	files   map[uint32]*file
	egress  func(wire.EgressTarget, *Conn) // takes connections to the outside
	// outbounds counts those that are open.
	egressOpen int
}

// flow counts what goes to and from a channel.
type flow struct {
	got  uint64 // bytes of output that the sink has taken
	told uint64 // of these, what the agent knows of
	due  bool   // it stands in Client.due
	held bool
	near time.Time // until when the agent is to be close behind
	next time.Time // until then no Ack is due, where near is later
	slow bool      // a timer looks at next
	sent uint64    // bytes of input
	took uint64    // of these, what went into the program
	// asked is the number of the execute that has no reply yet, or 0.
	asked uint64
}

// New returns a client that reads frames from r and writes frames to w.
// sink may be nil until SetSink; output that comes before is dropped and its
// bytes counted, see Dropped; exits that come before are kept for it.
func New(r io.Reader, w io.Writer, sink Sink) *Client {
	c := &Client{
		in: newSwapReader(r), out: newSender(w),
		hello: make(chan struct{}), done: make(chan struct{}), acks: make(chan struct{}, 1), captures: make(chan Saved, 1),
		sink:    sink,
		waiting: map[uint64]chan wire.Response{}, flows: map[uint32]*flow{}, files: map[uint32]*file{},
	}
	go c.read(c.in)
	go c.out.run(c.done, c.fail)
	go c.ack()
	return c
}

// SetSink replaces the sink. When it returns, the old one is not called any
// more. It must not be called from within a sink.
func (c *Client) SetSink(sink Sink) {
	c.sinkMu.Lock()
	defer c.sinkMu.Unlock()
	c.sink = sink
	if sink != nil {
		for _, f := range c.early {
			f(sink)
		}
		c.early = nil
	}
}

// Dropped is how many bytes of output came while there was no sink.
func (c *Client) Dropped() uint64 { return c.lost.Load() }

// Stray is how many frames came that belong to nothing known.
func (c *Client) Stray() uint64 { return c.stray.Load() }

// Done is closed when the wire has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the wire has ended: a SandboxLost error. It is nil before.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// WaitHello waits until the agent has said hello.
func (c *Client) WaitHello(ctx context.Context) error {
	select {
	case <-c.hello:
		return nil
	default:
	}
	select {
	case <-c.hello:
		return nil
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "agent.hello", ctx.Err())
	}
}

// StartKernel starts a kernel as channel ch and waits until it is ready.
func (c *Client) StartKernel(ctx context.Context, ch uint32, p wire.StartKernel) (kernel.Info, error) {
	var info kernel.Info
	return info, c.start(ctx, wire.OpKernelStart, ch, p, &info)
}

// StartProcess starts a process as channel ch.
func (c *Client) StartProcess(ctx context.Context, ch uint32, p wire.StartProcess) (wire.Started, error) {
	var s wire.Started
	return s, c.start(ctx, wire.OpProcessStart, ch, p, &s)
}

// StartTerminal starts a program in a terminal as channel ch.
func (c *Client) StartTerminal(ctx context.Context, ch uint32, p wire.StartTerminal) (wire.Started, error) {
	var s wire.Started
	return s, c.start(ctx, wire.OpTerminalStart, ch, p, &s)
}

// Resize gives the terminal of channel ch another size.
func (c *Client) Resize(ctx context.Context, ch uint32, p wire.Resize) error {
	return c.call(ctx, wire.OpResize, ch, p, nil)
}

// Running is how many processes channel ch has beside its first.
func (c *Client) Running(ctx context.Context, ch uint32) (int, error) {
	var r wire.Running
	err := c.call(ctx, wire.OpRunning, ch, nil, &r)
	return r.Processes, err
}

// start registers the channel, so that its output is let through. When ctx
// ends first, the channel is closed: nobody would know of it.
func (c *Client) start(ctx context.Context, op string, ch uint32, p, result any) error {
	f := &flow{}
	c.mu.Lock()
	if c.flows[ch] != nil {
		c.mu.Unlock()
		return fault.New(fault.Conflict, "agent."+op, "channel %d is in use", ch)
	}
	c.flows[ch] = f
	c.mu.Unlock()
	err := c.call(ctx, op, ch, p, result)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && fault.KindOf(err) == fault.KindOf(ctx.Err()) {
		c.out.post(requestFrame(0, wire.OpClose, ch, nil))
	}
	c.mu.Lock()
	if c.flows[ch] == f {
		delete(c.flows, ch)
	}
	c.mu.Unlock()
	return err
}

// Request asks a kernel something and waits for its reply. The reply's ID is
// the request's.
func (c *Client) Request(ctx context.Context, ch uint32, q kernel.Request) (kernel.Reply, error) {
	r := kernel.Reply{ID: q.ID}
	q.Timed = q.Took != nil
	wait, cancel, err := c.ask(ctx, wire.OpKernelRequest, ch, q)
	if err != nil {
		return r, err
	}
	defer cancel()
	if q.Sent != nil {
		q.Sent()
	}
	answer, err := c.await(ctx, wire.OpKernelRequest, wait)
	if err == nil {
		err = decode("agent."+wire.OpKernelRequest, answer, &r)
	}
	if q.Took != nil && answer.TookUS > 0 {
		q.Took(time.Duration(answer.TookUS) * time.Microsecond)
	}
	r.ID = q.ID
	return r, err
}

// Notify tells a kernel something that has no reply: input or comm. It does
// not wait.
func (c *Client) Notify(ch uint32, q kernel.Request) error {
	return c.out.post(requestFrame(0, wire.OpKernelRequest, ch, q))
}

// Input writes to a process's standard input, and closes it after data if end
// is true. It does not wait: when the program is more than Window bytes
// behind, it fails with Exhausted and nothing is written.
func (c *Client) Input(ch uint32, data []byte, end bool) error {
	const op = "agent.input"
	c.mu.Lock()
	defer c.mu.Unlock() // over the sending too, so that input keeps its order
	f := c.flows[ch]
	switch {
	case c.err != nil:
		return c.err
	case f == nil:
		return fault.New(fault.NotFound, op, "channel %d does not run", ch)
	case f.sent-f.took+uint64(len(data)) > wire.Window && len(data) > 0:
		return fault.New(fault.Exhausted, op, "the program does not read its input: %d bytes wait", f.sent-f.took)
	}
	m := stream.Frame{Type: stream.Input, Channel: ch, Body: append(make([]byte, 8, 8+len(data)), data...)}
	if end {
		m.Flags = stream.FlagEnd
	}
	err := c.out.post(m)
	if err == nil {
		f.sent += uint64(len(data))
	}
	return err
}

// Interrupt interrupts what the channel runs.
func (c *Client) Interrupt(ctx context.Context, ch uint32) error {
	return c.call(ctx, wire.OpInterrupt, ch, nil, nil)
}

// Signal sends a signal, by its name, to the channel's process group.
func (c *Client) Signal(ctx context.Context, ch uint32, name string) error {
	return c.call(ctx, wire.OpSignal, ch, wire.Signal{Signal: name}, nil)
}

// Close ends the channel's whole process tree. When it returns, its Exit has
// been delivered. A channel that has ended by itself may be closed too, which
// ends what it has left running.
func (c *Client) Close(ctx context.Context, ch uint32) error {
	return c.call(ctx, wire.OpClose, ch, nil, nil)
}

// Hold keeps back the Acks of a channel while on is true, so that the agent
// stops sending its output after Window bytes, without holding up any other.
func (c *Client) Hold(ch uint32, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flows[ch]; f != nil {
		f.held = on
		c.mark(ch, f)
	}
}

// While somebody types, what a flood has ahead of the echo is bounded: for
// nearTime after a key the agent may be nearWindow ahead, and is told of each
// nearEvery bytes, once in nearPause: 4 MiB a second, so that what answers the
// key finds a processor.
const (
	nearTime   = time.Second
	nearWindow = 96 << 10
	nearEvery  = 32 << 10
	nearPause  = 8 * time.Millisecond
)

// ExpectEcho has the agent send no more of a channel's output ahead than nearWindow
// bytes for a second, because its answer to input is looked for.
func (c *Client) ExpectEcho(ch uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flows[ch]; f != nil {
		f.near = time.Now().Add(nearTime)
	}
}

// tell is what the agent is to be told of as taken, 0 for nothing yet.
func (w *flow) tell(now time.Time) uint64 {
	total, every := w.got, uint64(wire.AckEvery)
	if now.Before(w.near) {
		total, every = total-min(total, wire.Window-nearWindow), nearEvery
	}
	if total < w.told+every {
		return 0
	}
	return total
}

// Processes lists all that run in the sandbox, whoever started them.
func (c *Client) Processes(ctx context.Context) ([]wire.Process, error) {
	var p wire.Processes
	err := c.call(ctx, wire.OpProcessList, 0, nil, &p)
	return p.Processes, err
}

// SignalProcess sends a signal to one process of the user's.
func (c *Client) SignalProcess(ctx context.Context, p wire.SignalProcess) error {
	return c.call(ctx, wire.OpProcessSignal, 0, p, nil)
}

// Reseed makes a restored sandbox a machine of its own.
func (c *Client) Reseed(ctx context.Context, p wire.Reseed) error {
	return c.call(ctx, wire.OpReseed, 0, p, nil)
}

// Ping asks the agent whether it is there.
func (c *Client) Ping(ctx context.Context) error { return c.call(ctx, wire.OpPing, 0, nil, nil) }

// Stats returns the agent's counters.
func (c *Client) Stats(ctx context.Context) (wire.Stats, error) {
	var s wire.Stats
	return s, c.call(ctx, wire.OpStats, 0, nil, &s)
}

// requestFrame encodes a request. A body that is nil cannot be sent.
func requestFrame(id uint64, op string, ch uint32, p any) stream.Frame {
	// The parameters are encoded together with the request, not before it:
	// a RawMessage would be read through once more.
	body, err := json.Marshal(struct {
		ID      uint64 `json:"id,omitempty"`
		Op      string `json:"op"`
		Channel uint32 `json:"channel,omitempty"`
		Params  any    `json:"params,omitempty"`
	}{id, op, ch, p})
	if err != nil {
		body = nil
	}
	return stream.Frame{Type: stream.Control, Body: body}
}

// call sends a request and waits for its response.
func (c *Client) call(ctx context.Context, op string, ch uint32, p, result any) error {
	wait, cancel, err := c.ask(ctx, op, ch, p)
	if err != nil {
		return err
	}
	defer cancel()
	return c.answer(ctx, op, wait, result)
}

// ask sends a request. The channel gets its response, or is closed when the
// wire ends.
func (c *Client) ask(ctx context.Context, op string, ch uint32, p any) (<-chan wire.Response, func(), error) {
	wait := make(chan wire.Response, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, nil, c.err
	}
	c.nextID++
	id := c.nextID
	c.waiting[id] = wait
	if q, ok := p.(kernel.Request); ok && q.Op == "execute" && c.flows[ch] != nil {
		c.flows[ch].asked = id
	}
	c.mu.Unlock()
	cancel := func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}
	f := requestFrame(id, op, ch, p)
	err := error(fault.Invalid("agent."+op, "params", "the parameters cannot be written as JSON"))
	if f.Body != nil {
		err = c.out.send(ctx, f)
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return wait, cancel, nil
}

// answer waits for a response and decodes it.
func (c *Client) answer(ctx context.Context, op string, wait <-chan wire.Response, result any) error {
	r, err := c.await(ctx, op, wait)
	if err != nil {
		return err
	}
	return decode("agent."+op, r, result)
}

// await waits for a response.
func (c *Client) await(ctx context.Context, op string, wait <-chan wire.Response) (r wire.Response, err error) {
	op = "agent." + op
	var ok bool
	select {
	case r, ok = <-wait:
	case <-ctx.Done():
		select {
		case r, ok = <-wait: // an answer that is there is not lost
		default:
			return r, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
	}
	if !ok {
		return r, c.Err()
	}
	return r, nil
}

func decode(op string, r wire.Response, result any) error {
	if len(r.Error) > 0 {
		var p fault.Public
		if err := json.Unmarshal(r.Error, &p); err != nil {
			return fault.Wrap(fault.Malformed, op, err)
		}
		return p.Err(op)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(r.Result, result); err != nil {
		return fault.Wrap(fault.Malformed, op, err)
	}
	return nil
}

// read takes what the agent sends. It never writes to the wire, so that the
// agent can always write, whatever it is sent.
func (c *Client) read(r io.Reader) {
	frames := stream.NewReader(r, 0)
	for {
		f, err := frames.Next()
		if errors.Is(err, errDrained) {
			frames = stream.NewReader(continued(c.captured(frames.Rest()), r), 0)
			continue
		}
		if err == nil {
			err = c.take(f)
		}
		if err != nil {
			c.mu.Lock()
			c.rest = append(c.rest, frames.Rest()...)
			c.mu.Unlock()
			c.fail(err)
			return
		}
	}
}

func (c *Client) take(f stream.Frame) error {
	switch f.Type {
	case stream.Stdout, stream.Stderr, stream.Message:
		c.output(f)
	case stream.Control:
		var r wire.Response
		if err := json.Unmarshal(f.Body, &r); err != nil {
			return fault.Wrap(fault.Malformed, "agent.read", err)
		}
		return c.response(r)
	case stream.Data:
		c.mu.Lock()
		d := c.files[f.Channel]
		c.mu.Unlock()
		if d == nil || !d.add(f) {
			c.stray.Add(1)
		}
		if d == nil && f.Flags&stream.FlagEnd == 0 {
			// Of a process before, or of what this is a copy of: nobody takes it.
			c.giveUp(f.Channel)
		}
	case stream.Ack:
		if len(f.Body) != 8 {
			return fault.New(fault.Malformed, "agent.read", "an Ack has 8 bytes")
		}
		total := binary.BigEndian.Uint64(f.Body)
		c.mu.Lock()
		if d := c.files[f.Channel]; d != nil {
			d.ack(total)
		} else if w := c.flows[f.Channel]; w != nil && total <= w.sent && total > w.took {
			w.took = total
		} else {
			c.stray.Add(1)
		}
		c.mu.Unlock()
	default:
		return fault.New(fault.Malformed, "agent.read", "an agent sends no frame of type %d", f.Type)
	}
	return nil
}

// output passes output on, and notes that it has been taken.
func (c *Client) output(f stream.Frame) {
	c.mu.Lock()
	w := c.flows[f.Channel]
	c.mu.Unlock()
	if w == nil {
		c.stray.Add(1)
		return
	}
	c.sinkMu.Lock()
	if c.sink != nil {
		c.sink.Output(f.Channel, f)
	} else {
		c.lost.Add(uint64(len(f.Body)))
	}
	c.sinkMu.Unlock()
	c.mu.Lock()
	w.got += uint64(len(f.Body))
	c.mark(f.Channel, w)
	c.mu.Unlock()
}

// mark notes that a channel's Ack is due, if it is. c.mu is held.
func (c *Client) mark(ch uint32, w *flow) {
	now := time.Now()
	if w.due || w.held || w.tell(now) == 0 {
		return
	}
	if now.Before(w.near) {
		if wait := w.next.Sub(now); wait > 0 {
			c.later(ch, w, wait)
			return
		}
		w.next = now.Add(nearPause)
	}
	w.due = true
	c.due = append(c.due, ch)
	select {
	case c.acks <- struct{}{}:
	default:
	}
}

// later marks a channel after a while. c.mu is held.
func (c *Client) later(ch uint32, w *flow, wait time.Duration) {
	if w.slow {
		return
	}
	w.slow = true
	time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		w.slow = false
		if c.flows[ch] == w {
			c.mark(ch, w)
		}
	})
}

// ack sends the Acks. It has a goroutine of its own because sending may wait,
// which the one that reads must not.
func (c *Client) ack() {
	for {
		select {
		case <-c.acks:
		case <-c.done:
			return
		}
		c.mu.Lock()
		due := c.due
		c.due = nil
		// Under the lock, so that an old channel's Ack cannot come after the
		// start of a new one with its number. It does not wait: should the
		// sandbox not read, the Ack comes with more output.
		for _, ch := range due {
			w := c.flows[ch]
			if w == nil || !w.due {
				continue
			}
			w.due = false
			total := w.tell(time.Now())
			if w.held || total == 0 {
				continue
			}
			var body [8]byte
			binary.BigEndian.PutUint64(body[:], total)
			if c.out.ack(stream.Frame{Type: stream.Ack, Channel: ch, Body: body[:]}) == nil {
				w.told = total
			}
		}
		c.mu.Unlock()
	}
}

// maxEarly bounds the exits that are kept while there is no sink.
const maxEarly = 4 * wire.MaxChannels

// response takes a response or an event.
func (c *Client) response(r wire.Response) error {
	switch {
	case r.ID != 0:
		c.mu.Lock()
		wait := c.waiting[r.ID]
		delete(c.waiting, r.ID)
		for _, w := range c.flows {
			if w.asked == r.ID {
				w.asked = 0
			}
		}
		c.mu.Unlock()
		if wait != nil {
			wait <- r // has room for one, and gets one
		} else {
			c.stray.Add(1)
		}
	case r.Event == "hello":
		if r.Version != wire.Version {
			return fault.New(fault.Unsupported, "agent.hello", "the agent speaks version %d of the wire, not %d", r.Version, wire.Version)
		}
		select {
		case <-c.hello:
		default:
			close(c.hello)
		}
	case r.Event == "exit" && r.Exit != nil:
		c.mu.Lock()
		w := c.flows[r.Channel]
		delete(c.flows, r.Channel)
		c.due = slices.DeleteFunc(c.due, func(ch uint32) bool { return ch == r.Channel })
		c.mu.Unlock()
		if w == nil {
			c.stray.Add(1)
			return nil
		}
		c.sinkMu.Lock()
		defer c.sinkMu.Unlock()
		if c.sink != nil {
			c.sink.Exit(r.Channel, *r.Exit)
		} else if len(c.early) < maxEarly {
			c.early = append(c.early, func(s Sink) { s.Exit(r.Channel, *r.Exit) })
		}
	case r.Event == "dial" && r.Dial != nil:
		c.openEgress(r.Channel, *r.Dial)
	default:
		c.stray.Add(1)
	}
	return nil
}

// fail ends the client: whoever waits is told.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = &fault.Error{Kind: fault.SandboxLost, Op: "agent.wire", Message: "the sandbox has ended", Err: err}
	lost := c.err
	for _, wait := range c.waiting {
		close(wait)
	}
	c.waiting = map[uint64]chan wire.Response{}
	for _, d := range c.files {
		d.fail(lost)
	}
	c.mu.Unlock()
	c.out.fail(lost)
	close(c.done)
}
