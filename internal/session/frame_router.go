package session

import (
	"encoding/json"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// target is the owner of a channel number of the agent's wire: a process, or one
// generation of a kernel.
type target struct {
	channel *Channel
	// driver is set for kernels.
	driver *driver
}

// frameRouter is the agent's sink: it finds the channel of each frame. Its methods
// are called from the one goroutine that reads the agent's wire, so the order
// of output, exits and replies is the agent's.
type frameRouter struct {
	stats *stats.Stats
	// limiter limits the rate of the channels; nil means none.
	limiter *outputLimiter

	mu      sync.RWMutex // guards all below
	targets map[uint32]target
	// early holds the end of a warm kernel that nobody had claimed.
	early *wire.Exit
	next  uint32
}

func newFrameRouter(s *stats.Stats, first uint32) *frameRouter {
	return &frameRouter{stats: s, targets: map[uint32]target{}, next: first}
}

// Number returns a number that was never used on this wire.
func (r *frameRouter) Number() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.next
	r.next++
	return n
}

func (r *frameRouter) set(n uint32, t target) {
	r.mu.Lock()
	r.targets[n] = t
	early := r.early
	if n != warm.KernelChannel {
		early = nil
	}
	r.mu.Unlock()
	if early != nil {
		r.Exit(n, *early)
	}
}

func (r *frameRouter) get(n uint32) (target, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.targets[n]
	return t, ok
}

func (r *frameRouter) remove(n uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.targets, n)
}

// Output appends a frame to its channel's log.
func (r *frameRouter) Output(n uint32, f stream.Frame) {
	t, ok := r.get(n)
	if !ok && n == warm.KernelChannel {
		return // output of warm-up and priming is discarded
	}
	if !ok {
		r.stats.OutputDropped.Add(int64(len(f.Body)))
		return
	}
	var kind stream.Kind
	switch f.Type {
	case stream.Stdout:
		kind = stream.KindStdout
	case stream.Stderr:
		kind = stream.KindStderr
	case stream.Message:
		kind = stream.KindMessage
		if q := t.channel.queue; q != nil && !q.Observe(f.Cell, f.Body) {
			return
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
			note, _ := json.Marshal(map[string]any{"event": "dropped", "bytes": len(f.Body), "message": fault.PublicOf(err).Message})
			_, _ = t.channel.log.Append(stream.KindEvent, f.Cell, note) // it has ended: its readers know
		}
		return
	}
	r.stats.OutputBytes.Add(int64(len(f.Body)))
	t.channel.countOutput(f.Cell, len(f.Body))
	if r.limiter != nil && r.limiter.count(n, f.Cell, len(f.Body)) {
		t.channel.noteLimit(f.Cell, protocol.Reached{Limit: "output_bytes_per_second", Max: r.limiter.rate})
	}
}

// Exit ends the channel of a process, or a kernel's generation.
func (r *frameRouter) Exit(n uint32, e wire.Exit) {
	r.mu.Lock()
	t, ok := r.targets[n]
	delete(r.targets, n)
	if !ok && n == warm.KernelChannel {
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
	t.channel.end(protocol.Exit{Code: e.Code, Signal: e.Signal, Reason: reasonOf(e)})
	t.channel.session.Touch()
}

func reasonOf(e wire.Exit) string {
	if e.Reason == "" {
		return wire.ReasonExited
	}
	return e.Reason
}

// of returns the numbers of a channel.
func (r *frameRouter) of(c *Channel) []uint32 {
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
