package exec

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/gateway/created"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The names of the streams of output.
const (
	stdout = "stdout"
	stderr = "stderr"
)

// endGrace is how long the end of a command that is being ended may take.
const endGrace = 20 * time.Second

// reasonMemory is the reason of a process that was killed because memory had run out.
const reasonMemory = "memory"

// Event is one event of a command.
type Event = protocol.ExecEvent

// command is a command that runs. One goroutine follows it. It sends batches of events on events,
// and closes events after the event done. It waits while nobody receives its events.
type command struct {
	s       *Surface
	who     noderpc.Principal
	request protocol.ExecRequest
	process *processclient.Client
	started time.Time
	text    map[string]*kernelclient.TextDecoder
	output  surface.Tally
	files   created.Watch
	link    created.Linker
	exit    *protocol.Exit

	events chan []Event
	stop   sync.Once
	quit   chan struct{} // closed by abandon

	mu      sync.Mutex // guards all below; a leaf
	expired bool       // the command got no more time
	ending  bool       // the command is being ended
	ended   chan struct{}
}

// start starts a command. Errors: those of channel.open. It completes even if the client disconnects:
// the gateway cannot end a command whose channel it does not know.
func (s *Surface) start(ctx context.Context, who noderpc.Principal,
	p protocol.ExecRequest,
) (*command, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Call)
	defer cancel()
	defer context.AfterFunc(s.cfg.Base, cancel)()
	c := &command{
		s: s, who: who, request: p,
		text: map[string]*kernelclient.TextDecoder{
			stdout: new(kernelclient.TextDecoder), stderr: new(kernelclient.TextDecoder),
		},
		output: surface.Tally{Limit: p.MaxOutputBytes},
		events: make(chan []Event), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	var input []byte
	if p.Stdin != nil {
		input = []byte(*p.Stdin)
	}
	begin := func(shell string) error {
		link, err := s.cfg.Node.Open(ctx, who)
		if err != nil {
			return err
		}
		if p.Files == nil || *p.Files {
			c.files = created.Begin(requester(ctx, link), p.Session)
		}
		c.started = time.Now()
		c.process, err = processclient.Start(ctx, link, open(p, shell), input)
		return err
	}
	err := begin("bash")
	if p.Cmd != "" && fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field == "argv" {
		err = begin("sh") // an image may have no bash
	}
	return c, err
}

// follow sends the command's output until it ends, and then closes events. It must be called once.
func (c *command) follow() {
	defer close(c.events)
	defer close(c.ended)
	defer c.process.Close()
	timeout := time.Duration(c.request.TimeoutMS) * time.Millisecond
	timer := time.AfterFunc(timeout, func() {
		c.mu.Lock()
		c.expired = true
		c.mu.Unlock()
		c.end()
	})
	defer timer.Stop()
	lost := time.AfterFunc(timeout+endGrace, c.process.Close)
	defer lost.Stop()
	defer context.AfterFunc(c.s.cfg.Base, c.shutDown)()
	if !c.emit(Event{
		Type: "start", Session: c.request.Session, Channel: c.process.Channel(),
	}) {
		return
	}
	for c.exit == nil {
		batch, err := c.process.Next()
		if err != nil {
			c.emit(append(c.tails(), c.failure(err))...)
			return
		}
		if !c.emit(c.translate(batch)...) {
			return
		}
		if c.exit == nil && c.process.Ack() != nil {
			continue // Next has the reason
		}
	}
	done := c.done()
	events := c.tails()
	if files, more := c.files.Files(c.process.Request); len(files) > 0 || more {
		created.Link(c.link, c.request.Session, files)
		events = append(events, Event{Type: "files", Files: files, FilesTruncated: more})
	}
	c.emit(append(events, done)...)
}

// requester returns a function that makes one request over a link. The end of ctx closes the link.
func requester(ctx context.Context, l nodecall.Link) created.Call {
	return func(op string, params, result any) error {
		defer context.AfterFunc(ctx, func() { _ = l.Close() })()
		return nodecall.Call(l, 1, op, 0, params, result, nil)
	}
}

// translate converts output to events.
func (c *command) translate(batch []processclient.Output) []Event {
	var events []Event
	for _, o := range batch {
		switch {
		case o.Gap > 0:
			c.output.Dropped += o.Gap
		case o.Exit != nil:
			c.exit = o.Exit
		case o.Stdout != nil:
			events = c.write(events, stdout, c.text[stdout].Decode(o.Stdout))
		default:
			events = c.write(events, stderr, c.text[stderr].Decode(o.Stderr))
		}
	}
	return events
}

// write appends the part of a text that is within the limit. Text of one stream becomes one event.
func (c *command) write(events []Event, name, text string) []Event {
	text = c.output.Text(text)
	if text == "" {
		return events
	}
	if n := len(events); n > 0 && events[n-1].Type == name {
		events[n-1].Text += text
		return events
	}
	return append(events, Event{Type: name, Text: text})
}

// tails returns the characters that never became complete.
func (c *command) tails() (events []Event) {
	for _, name := range []string{stdout, stderr} {
		events = c.write(events, name, c.text[name].End())
	}
	return events
}

// done returns the last event of a command that has ended.
func (c *command) done() Event {
	c.mu.Lock()
	expired := c.expired
	c.mu.Unlock()
	code := c.exit.Code
	e := Event{
		Type: "done", Status: "error", ExitCode: &code, Signal: c.exit.Signal,
		ElapsedMS: c.elapsed(), TruncatedBytes: c.output.Dropped,
	}
	if c.exit.Reason == reasonMemory {
		e.Reason = reasonMemory
	}
	switch {
	case expired:
		e.Status = "timeout"
	case code < 0 && c.exit.Reason != "closed":
		e.Status, e.ExitCode = "lost", nil
		p := surface.PublicOf(fault.New(fault.SandboxLost, "exec.follow", "the sandbox ended: %s",
			c.exit.Reason))
		e.Fault = &p
	case c.exit.Signal != "" || code < 0:
		e.Status = "killed"
	case code == 0:
		e.Status = "ok"
	}
	if code < 0 {
		e.ExitCode = nil
	}
	return e
}

// failure returns the last event of a command whose end the gateway does not see.
func (c *command) failure(err error) Event {
	c.mu.Lock()
	expired := c.expired
	c.mu.Unlock()
	e := Event{
		Type: "done", Status: "failed", ElapsedMS: c.elapsed(), TruncatedBytes: c.output.Dropped,
	}
	switch {
	case c.s.cfg.Base.Err() != nil:
		err = fault.New(fault.Restarting, "exec.follow", "the server is restarting")
	case expired:
		e.Status = "timeout"
		err = fault.New(fault.DeadlineExceeded, "exec.follow",
			"the command could not be ended in time")
	case fault.Is(err, fault.SandboxLost):
		e.Status = "lost"
	}
	p := surface.PublicOf(err)
	e.Fault = &p
	return e
}

func (c *command) elapsed() float64 {
	return float64(time.Since(c.started).Microseconds()) / 1000
}

// emit sends events and reports whether they were received.
func (c *command) emit(events ...Event) bool {
	if len(events) == 0 {
		return true
	}
	select {
	case c.events <- events:
		return true
	case <-c.quit:
		return false
	}
}

// end ends the command and everything that it started: the node sends SIGTERM, and after two
// seconds SIGKILL. Its channel is removed. The log has the output until then.
func (c *command) end() {
	c.mu.Lock()
	first := !c.ending
	c.ending = true
	c.mu.Unlock()
	if !first {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endGrace)
	defer cancel()
	err := c.s.cfg.Node.Call(ctx, c.who, protocol.OpChannelClose,
		protocol.ChannelRef{Session: c.request.Session, Channel: c.process.Channel()}, nil)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.SandboxLost) {
		c.s.cfg.Log.Warn("a command could not be ended", "session", c.request.Session,
			"channel", c.process.Channel(), "error", err)
	}
}

// abandon gives a command up whose client has disconnected: it ends the command, or lets it
// continue, as the request says. It has no effect on a command that has ended.
func (c *command) abandon() {
	c.stop.Do(func() {
		close(c.quit)
		select {
		case <-c.ended:
			if c.exit != nil {
				return
			}
		default:
		}
		if c.request.OnDisconnect == protocol.DisconnectCancel {
			c.end()
		}
		c.process.Close()
	})
}

// shutDown gives up a command because the gateway ends.
func (c *command) shutDown() {
	if c.request.OnDisconnect == protocol.DisconnectCancel {
		c.end()
	}
	c.process.Close()
}

// collector makes one object of the events of a command.
type collector struct {
	result         protocol.ExecResult
	stdout, stderr strings.Builder
	texts          []*strings.Builder // the texts of result.Output
}

func (x *collector) add(e Event) {
	r := &x.result
	switch e.Type {
	case "start":
		r.Session, r.Channel = e.Session, e.Channel
	case stdout:
		x.stdout.WriteString(e.Text)
		x.append(e)
	case stderr:
		x.stderr.WriteString(e.Text)
		x.append(e)
	case "files":
		r.Files, r.FilesTruncated = e.Files, e.FilesTruncated
	case "done":
		r.Status, r.ExitCode, r.Signal, r.Reason = e.Status, e.ExitCode, e.Signal, e.Reason
		r.ElapsedMS, r.TruncatedBytes, r.Fault = e.ElapsedMS, e.TruncatedBytes, e.Fault
		r.Stdout, r.Stderr = x.stdout.String(), x.stderr.String()
		for i := range x.texts {
			r.Output[i].Text = x.texts[i].String()
		}
	}
}

// append adds output to the list in order. Adjacent output of one stream is one element.
func (x *collector) append(e Event) {
	out := &x.result.Output
	if n := len(*out); n == 0 || (*out)[n-1].Stream != e.Type {
		*out = append(*out, protocol.ExecOutput{Stream: e.Type})
		x.texts = append(x.texts, new(strings.Builder))
	}
	x.texts[len(x.texts)-1].WriteString(e.Text)
}
