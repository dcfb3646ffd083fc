// Package client is the host's end of the protocol to the agent in a sandbox.
package client

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Sink takes output and exits from the agent. The one goroutine that reads the
// wire calls both methods, in the order of the wire. They must return soon and
// must not call a method of the Client that waits. For one channel, nothing
// comes after its Exit.
type Sink interface {
	// Output is a Stdout, Stderr or Message frame. Its body is valid during
	// the call. When the call returns, the bytes count as delivered.
	Output(channel uint32, f frame.Frame)
	// Exit is the end of a channel whose start had succeeded.
	Exit(channel uint32, e wire.Exit)
}

// Client is the host's end of the wire to one agent. It is safe for concurrent
// use. It does not trust the agent: its memory is bounded whatever the agent
// sends.
//
// A Client ends when its wire ends. The owner ends the wire by closing both
// pipes, or calls End while the client is quiesced.
//
// The methods of Client act on channels and on the wire as a whole. The fields
// group the other operations.
type Client struct {
	*mux

	Kernels   Kernels
	Files     Files
	Ports     Ports
	Processes Processes
	Egress    Egress
}

// New returns a client that reads frames from r and writes frames to w. sink
// may be nil until SetSink. Until then the client drops output and counts its
// bytes (see Dropped), and keeps exits.
func New(r io.Reader, w io.Writer, sink Sink) *Client {
	m := newMux(newSwapReader(r), newSender(w), sink)
	m.start()
	return newClient(m)
}

// Restore returns a client that is quiesced, in the state of the saved one.
// Reconnect gives it a wire.
func Restore(s Saved, sink Sink) *Client {
	in, out := newSwapReader(bytes.NewReader(nil)), newSender(nil)
	out.held, out.later = true, s.Later
	m := newMux(in, out, sink)
	m.restore(s)
	in.quiesce()
	m.start()
	return newClient(m)
}

func newClient(m *mux) *Client {
	return &Client{
		mux: m, Kernels: Kernels{m}, Files: Files{m}, Ports: Ports{m}, Processes: Processes{m},
		Egress: Egress{m},
	}
}

// SetSink replaces the sink. After it returns, the client no longer calls the
// old one. It must not be called from within a sink.
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

// Dropped returns how many bytes of output came while there was no sink.
func (c *Client) Dropped() uint64 { return c.dropped.Load() }

// Stray returns how many frames came for an unknown channel or request.
func (c *Client) Stray() uint64 { return c.stray.Load() }

// Done is closed when the wire has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns a SandboxLost error once the wire has ended, and nil before.
func (c *Client) Err() error { return c.ended() }

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

// StartProcess starts a process as channel ch.
func (c *Client) StartProcess(ctx context.Context, ch uint32,
	p wire.StartProcess,
) (wire.Started, error) {
	var s wire.Started
	return s, c.startChannel(ctx, wire.OpProcessStart, ch, p, &s)
}

// StartTerminal starts a program in a terminal as channel ch.
func (c *Client) StartTerminal(ctx context.Context, ch uint32,
	p wire.StartTerminal,
) (wire.Started, error) {
	var s wire.Started
	return s, c.startChannel(ctx, wire.OpTerminalStart, ch, p, &s)
}

// Resize changes the size of the terminal of channel ch.
func (c *Client) Resize(ctx context.Context, ch uint32, p wire.Resize) error {
	return c.call(ctx, wire.OpResize, ch, p, nil)
}

// Running returns how many processes channel ch has besides its first.
func (c *Client) Running(ctx context.Context, ch uint32) (int, error) {
	var r wire.Running
	err := c.call(ctx, wire.OpRunning, ch, nil, &r)
	return r.Processes, err
}

// Input writes to a process's standard input, and closes it after data if end
// is true. It does not wait: when the program is more than wire.Window bytes
// behind, it fails with Exhausted and writes nothing.
func (c *Client) Input(ch uint32, data []byte, end bool) error {
	const op = "agent.input"
	c.mu.Lock()
	defer c.mu.Unlock() // also while sending, so that input keeps its order
	f := c.flows[ch]
	switch {
	case c.err != nil:
		return c.err
	case f == nil:
		return fault.New(fault.NotFound, op, "channel %d does not run", ch)
	case f.sent-f.read+uint64(len(data)) > wire.Window && len(data) > 0:
		return fault.New(fault.Exhausted, op, "the program does not read its input: %d bytes wait",
			f.sent-f.read)
	}
	m := frame.Frame{Type: frame.Input, Channel: ch, Body: append(make([]byte, 8, 8+len(data)),
		data...)}
	if end {
		m.Flags = frame.FlagEnd
	}
	err := c.out.post(m)
	if err == nil {
		f.sent += uint64(len(data))
	}
	return err
}

// Interrupt interrupts the program of a channel.
func (c *Client) Interrupt(ctx context.Context, ch uint32) error {
	return c.call(ctx, wire.OpInterrupt, ch, nil, nil)
}

// Signal sends a signal, by its name, to the channel's process group.
func (c *Client) Signal(ctx context.Context, ch uint32, name string) error {
	return c.call(ctx, wire.OpSignal, ch, wire.Signal{Signal: name}, nil)
}

// Close ends the channel's whole process tree. When it returns, the sink has
// been given the Exit. Closing a channel that has already ended kills the
// processes that it left running.
func (c *Client) Close(ctx context.Context, ch uint32) error {
	return c.call(ctx, wire.OpClose, ch, nil, nil)
}

// Hold stops the Acks of a channel while on is true, so that the agent stops
// sending its output after wire.Window bytes. Other channels are unaffected.
func (c *Client) Hold(ch uint32, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flows[ch]; f != nil {
		f.held = on
		c.markAck(ch, f)
	}
}

// ExpectEcho limits the output that the agent sends ahead on a channel to
// echoWindow bytes for one second, because somebody waits for the answer to a
// key.
func (c *Client) ExpectEcho(ch uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flows[ch]; f != nil {
		f.echoUntil = time.Now().Add(echoTime)
	}
}

// Delivered returns how many bytes of a channel's output the sink has taken.
// Delivered and Attach carry a channel over a checkpoint.
func (c *Client) Delivered(ch uint32) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flows[ch]; f != nil {
		return f.got
	}
	return 0
}

// Revision returns the wire.Revision of the agent. An agent that was restored from a snapshot says no
// hello: SetRevision sets it.
func (c *Client) Revision() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

// SetRevision sets the wire.Revision of an agent that was restored from a snapshot.
func (c *Client) SetRevision(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision = n
}

// Attach registers a channel that was started before the sandbox was
// checkpointed. The client drops the channel's output until then. delivered is
// the value that the previous client's Delivered returned. Attach sends nothing.
func (c *Client) Attach(ch uint32, delivered uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flows[ch] == nil {
		c.flows[ch] = &flow{got: delivered, told: delivered}
	}
}

// Reseed gives a restored sandbox an identity of its own.
func (c *Client) Reseed(ctx context.Context, p wire.Reseed) error {
	return c.call(ctx, wire.OpReseed, 0, p, nil)
}

// Ping waits for an answer from the agent.
func (c *Client) Ping(ctx context.Context) error { return c.call(ctx, wire.OpPing, 0, nil, nil) }

// Stats returns the agent's counters.
func (c *Client) Stats(ctx context.Context) (wire.Stats, error) {
	var s wire.Stats
	return s, c.call(ctx, wire.OpStats, 0, nil, &s)
}
