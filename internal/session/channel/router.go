package channel

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// target is the owner of a number on the agent's wire: a process, or one generation of a kernel.
type target struct {
	channel *Channel
	// driver is set for kernels.
	driver *driver
}

// Router appends the output of a sandbox to the logs of its channels. It implements client.Sink.
// One goroutine, which reads the agent's wire, calls Output and Exit, so that output, exits and
// replies keep the agent's order.
type Router struct {
	stats *stats.Stats
	// warm is the number of the kernel that runs before a session has the sandbox.
	warm uint32
	// limiter limits the output rate of channels; nil means no limit.
	limiter *outputLimiter

	mu      sync.RWMutex // guards all below
	targets map[uint32]target
	// early is the end of the warm kernel, if it has ended before set was called for it.
	early *wire.Exit
	next  uint32
}

// NewRouter returns the router of a sandbox. Warm is the wire number of the sandbox's warm kernel.
// The router discards its output until a channel has the kernel. Next is the first number that
// Number returns.
func NewRouter(s *stats.Stats, warm, next uint32) *Router {
	return &Router{stats: s, warm: warm, targets: map[uint32]target{}, next: next}
}

// Number returns a number that was never used on this wire.
func (r *Router) Number() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.next
	r.next++
	return n
}

func (r *Router) set(n uint32, t target) {
	r.mu.Lock()
	r.targets[n] = t
	early := r.early
	if n != r.warm {
		early = nil
	}
	r.mu.Unlock()
	if early != nil {
		r.Exit(n, *early)
	}
}

func (r *Router) get(n uint32) (target, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.targets[n]
	return t, ok
}

func (r *Router) remove(n uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.targets, n)
}

// numbersOf returns the numbers of a channel.
func (r *Router) numbersOf(c *Channel) []uint32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []uint32
	for n, t := range r.targets {
		if t.channel == c {
			all = append(all, n)
		}
	}
	return all
}

// record returns the channel of each number, and the number that Number returns next.
func (r *Router) record() (channels map[uint32]string, next uint32) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	channels = map[uint32]string{}
	for n, t := range r.targets {
		channels[n] = t.channel.id
	}
	return channels, r.next
}

// Output appends a frame to its channel's log. It implements client.Sink.
func (r *Router) Output(n uint32, f frame.Frame) {
	t, ok := r.get(n)
	if !ok && n == r.warm {
		return // output of warm-up
	}
	if !ok {
		r.stats.OutputDropped.Add(int64(len(f.Body)))
		return
	}
	var kind frame.Kind
	switch f.Type {
	case frame.Stdout:
		kind = frame.KindStdout
	case frame.Stderr:
		kind = frame.KindStderr
	case frame.Message:
		kind = frame.KindMessage
		if q := t.channel.queue; q != nil {
			if f.Body = q.Observe(f.Cell, f.Body); f.Body == nil {
				return
			}
		}
	default:
		r.stats.OutputDropped.Add(int64(len(f.Body)))
		return
	}
	var err error
	if t.channel.terminal != nil {
		err = t.channel.terminal.append(t.channel.log, f.Body)
	} else {
		_, err = t.channel.log.Append(kind, f.Cell, f.Body)
	}
	if err != nil {
		r.stats.OutputDropped.Add(int64(len(f.Body)))
		if fault.Is(err, fault.TooLarge) {
			message := fault.PublicOf(err).Message
			note, _ := json.Marshal(map[string]any{
				"event": "dropped", "bytes": len(f.Body),
				"message": message,
			})
			// fails only when the log has ended
			_, _ = t.channel.log.Append(frame.KindEvent, f.Cell, note)
		}
		return
	}
	r.stats.OutputBytes.Add(int64(len(f.Body)))
	t.channel.countOutput(f.Cell, len(f.Body))
	if s := t.channel.service; s != nil {
		s.output.Store(time.Now().UnixNano())
	}
	if r.limiter != nil && r.limiter.count(n, f.Cell, len(f.Body)) {
		t.channel.NoteLimit(f.Cell, protocol.Reached{
			Limit: "output_bytes_per_second",
			Max:   r.limiter.rate,
		})
	}
}

// Exit ends the channel of a process, or a kernel's generation. It implements client.Sink.
func (r *Router) Exit(n uint32, e wire.Exit) {
	r.mu.Lock()
	t, ok := r.targets[n]
	delete(r.targets, n)
	if !ok && n == r.warm {
		r.early = &e
	}
	r.mu.Unlock()
	if !ok {
		return
	}
	if r.limiter != nil {
		r.limiter.forget(n)
	}
	if t.driver != nil {
		t.channel.queue.Died(t.driver, queue.Death{Reason: reasonOf(e), Message: describe(e)})
		return
	}
	exit := protocol.Exit{Code: e.Code, Signal: e.Signal, Reason: reasonOf(e)}
	if t.channel.service != nil {
		t.channel.serviceEnded(n, exit)
		return
	}
	t.channel.end(exit)
	t.channel.set.cfg.Session.Touch()
}

func reasonOf(e wire.Exit) string {
	if e.Reason == "" {
		return wire.ReasonExited
	}
	return e.Reason
}
