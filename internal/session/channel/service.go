package channel

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// maxLine is how many bytes of a line Output passes.
	maxLine = 4096
	// maxTail is how many bytes of a log Tail returns at most.
	maxTail = 256
	// stableTime is how long a service must have run before its output counts as work.
	stableTime = protocol.ServiceStableTime * time.Second
)

// service is the part of a channel that belongs to a service. The channel has the output of all
// processes of the service, one after another. Each process has its own number on the agent's wire.
type service struct {
	name   string
	output atomic.Int64 // the time of the last output, in nanoseconds

	mu      sync.Mutex // guards all below; a leaf
	argv    []string
	running bool
	began   time.Time // the start, or the restore, of the process
	from    int64     // where its output begins in the log
	exited  func(protocol.Exit)
}

// restoreService returns the service of a channel that was saved.
func restoreService(v snapshot.Channel) *service {
	return &service{name: v.Service.Name, argv: v.Argv, from: v.Service.From}
}

// begin records the start of a process.
func (s *service) begin(argv []string, from int64, exited func(protocol.Exit)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.argv, s.from, s.exited, s.running, s.began = argv, from, exited, true, time.Now()
}

// rejoin records that the process runs in a restored sandbox.
func (s *service) rejoin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.began = true, time.Now()
}

// adopt sets the function that is called at the end of the process. It returns false if no process
// runs.
func (s *service) adopt(exited func(protocol.Exit)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exited = exited
	return s.running
}

// processGone records the end of the process, and returns the function to call.
func (s *service) processGone() func(protocol.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	return s.exited
}

// start returns where the output of the last process begins in the log.
func (s *service) start() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from
}

// view returns the arguments and the state as in protocol.Channel.
func (s *service) view() (argv []string, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return s.argv, "running"
	}
	return s.argv, "exited"
}

// record returns the arguments and the record.
func (s *service) record() ([]string, *snapshot.ServiceChannel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.argv, &snapshot.ServiceChannel{Name: s.name, From: s.from}
}

// working reports whether the service keeps its sandbox awake: it has run for a minute, and has
// printed after since. A service that only waits is not work, and neither is one that ends again
// and again.
func (s *service) working(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running && time.Since(s.began) >= stableTime && s.output.Load() > since.UnixNano()
}

// serviceEnded records the end of a process of a service. The log continues.
func (c *Channel) serviceEnded(number uint32, e protocol.Exit) {
	if c.wire.Load() != number {
		return
	}
	exited := c.service.processGone()
	c.Note(map[string]any{
		"event": "service_exit", "code": e.Code, "signal": e.Signal,
		"reason": e.Reason,
	})
	if exited != nil {
		exited(e)
	}
}

// Services opens and uses the channels of services.
type Services struct{ set *Set }

// ServicesOf returns the services of a session.
func ServicesOf(x *Set) Services { return Services{x} }

// find returns the channel of a service. Errors: NotFound before its first start.
func (v Services) find(op, name string) (*Channel, error) {
	v.set.mu.Lock()
	defer v.set.mu.Unlock()
	if c := v.set.keys[protocol.ServiceKey+name]; c != nil && c.service != nil {
		return c, nil
	}
	return nil, &fault.Error{
		Kind: fault.NotFound, Op: op, Field: "key",
		Message: "no service of that name has been started; only the server opens such channels",
	}
}

// Start starts a process of a service in the channel of the service, which it opens at the
// first start. It first ends what an earlier process has left. Exited is called once at the end of
// the process, and does not wait. Preconditions: the sandbox runs until Start returns.
func (v Services) Start(ctx context.Context, name string, r protocol.ChannelOpen,
	exited func(protocol.Exit),
) (channel string, err error) {
	const op = "service.start"
	r.Kind = "process"
	_, argv, err := v.set.cfg.Check(r)
	if err != nil {
		return "", err
	}
	c, unlock, err := v.lock(ctx, name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	defer unlock()
	if c == nil {
		if c, err = v.add(name, argv); err != nil {
			return "", err
		}
	} else if err := v.set.stopWire(ctx, c.wire.Load()); err != nil {
		return c.id, err
	}
	if err := ctx.Err(); err != nil { // it was stopped meanwhile
		return c.id, fault.Wrap(fault.KindOf(err), op, err)
	}
	number := v.set.cfg.Router.Number()
	c.wire.Store(number)
	c.service.begin(argv, c.log.Bounds().End, exited)
	v.set.cfg.Router.set(number, target{channel: c})
	c.Note(map[string]any{"event": "service_start"})
	p := wire.StartProcess{Argv: argv, Env: r.Env, Cwd: r.Cwd}
	started, err := v.set.cfg.Agent.StartProcess(ctx, number, p)
	if err != nil {
		v.set.cfg.Router.remove(number)
		c.service.processGone()
		c.Note(map[string]any{
			"event":   "service_not_started",
			"message": fault.PublicOf(err).Message,
		})
		return c.id, err
	}
	c.pid.Store(int64(started.PID))
	v.set.cfg.Stats.ProcessesStarted.Add(1)
	return c.id, nil
}

// lock locks the starts and stops of services, and finds the channel of one. The caller
// calls unlock also after NotFound.
func (v Services) lock(ctx context.Context, name string) (*Channel, func(), error) {
	const op = "service.start"
	if err := v.set.opening.Lock(ctx); err != nil {
		return nil, func() {}, fault.Wrap(fault.KindOf(err), op, err)
	}
	c, err := v.find(op, name)
	return c, v.set.opening.Unlock, err
}

// add opens the channel of a service.
func (v Services) add(name string, argv []string) (*Channel, error) {
	c, err := v.set.add(protocol.ChannelOpen{Kind: "process"}, "", argv)
	if err != nil {
		return nil, err
	}
	c.service = &service{name: name, argv: argv}
	c.inputEnded.Store(true)
	close(c.opened)
	v.set.mu.Lock()
	defer v.set.mu.Unlock()
	v.set.keys[protocol.ServiceKey+name] = c
	return c, nil
}

// Adopt sets the function that is called at the end of the process of a service. It returns
// the channel of the service, "" if there is none, and whether the process runs.
func (v Services) Adopt(name string, exited func(protocol.Exit)) (channel string, running bool) {
	c, err := v.find("service.adopt", name)
	if err != nil {
		return "", false
	}
	return c.id, c.service.adopt(exited)
}

// Stop ends all processes of a service. With remove, it also removes the channel.
// Preconditions: the sandbox runs until Stop returns.
func (v Services) Stop(ctx context.Context, name string, remove bool) error {
	c, unlock, err := v.lock(ctx, name)
	defer unlock()
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := v.set.stopWire(ctx, c.wire.Load()); err != nil {
		return err
	}
	if remove {
		c.end(protocol.Exit{Code: -1, Reason: "closed"})
		v.set.remove(c)
		c.retire()
	}
	return nil
}

// Output passes each line of the output of the last process of a service to match, up to
// 4,096 bytes of it, until match returns true. A line that is not complete is passed too, and again
// when more of it has come.
func (v Services) Output(ctx context.Context, name string, match func(line []byte) bool) error {
	const op = "service.output"
	c, err := v.find(op, name)
	if err != nil {
		return err
	}
	if !c.addReader() {
		return fault.New(fault.NotFound, op, "the service has been removed")
	}
	defer c.removeReader()
	defer c.finishReader()
	r := c.log.Reader(0, c.service.start(), 0)
	defer r.Close()
	lines := map[frame.Kind][]byte{}
	for {
		chunk, err := r.Next(ctx)
		if err != nil {
			return err
		}
		for rest := chunk.Records; len(rest) > 0; {
			var rec frame.Record
			if rec, rest, err = frame.ParseRecord(rest); err != nil {
				return err
			}
			if rec.Kind != frame.KindStdout && rec.Kind != frame.KindStderr {
				continue
			}
			var found bool
			if lines[rec.Kind], found = matchLines(lines[rec.Kind], rec.Payload, match); found {
				return nil
			}
		}
		if err := r.Ack(chunk.End()); err != nil {
			return err
		}
	}
}

// matchLines passes the lines of text, which continues the line begun, to match. It returns the
// beginning of the line that is not complete.
func matchLines(begun, text []byte, match func([]byte) bool) (rest []byte, found bool) {
	for {
		part, after, complete := bytes.Cut(text, []byte("\n"))
		begun = append(begun, part[:min(len(part), maxLine-len(begun))]...)
		if len(begun) > 0 && match(bytes.TrimSuffix(begun, []byte("\r"))) {
			return nil, true
		}
		if !complete {
			return begun, false
		}
		begun, text = begun[:0], after
	}
}

// Tail returns the last line that a service has printed, at most 256 bytes of it; "" if
// there is none.
func (v Services) Tail(ctx context.Context, name string) string {
	c, err := v.find("service.tail", name)
	if err != nil || !c.addReader() {
		return ""
	}
	defer c.removeReader()
	defer c.finishReader()
	end := c.log.Bounds().End
	r := c.log.Reader(0, -2*maxLine, 0)
	defer r.Close()
	last, at := "", int64(0)
	for at < end {
		chunk, err := r.Next(ctx)
		if err != nil {
			break
		}
		for rest := chunk.Records; len(rest) > 0; {
			var rec frame.Record
			if rec, rest, err = frame.ParseRecord(rest); err != nil {
				break
			}
			if rec.Kind == frame.KindStdout || rec.Kind == frame.KindStderr {
				lines := strings.Split(strings.TrimSpace(string(rec.Payload)), "\n")
				last = lines[len(lines)-1]
			}
		}
		if at = chunk.End(); r.Ack(at) != nil {
			break
		}
	}
	return strings.ToValidUTF8(last[:min(len(last), maxTail)], "")
}
