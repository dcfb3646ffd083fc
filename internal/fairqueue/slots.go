package fairqueue

import (
	"context"
	"errors"
	"sync"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Slots bounds how many pieces of work of one kind are done at a time. One tenant has at most half
// of the slots, so that another one finds a free slot. It is safe for concurrent use.
type Slots struct {
	slots, most int

	mu    sync.Mutex // guards all below
	line  Line[*request]
	held  map[string]int
	all   int
	stats Stats
}

// Stats are the counters of Slots, and its state.
type Stats struct {
	// Held is the number of slots that are in use. Waiting is the number of requests that wait.
	Held, Waiting int
	// Waits counts the requests that had to wait. Refused counts those that found too many waiting.
	Waits, Refused uint64
}

// request is a request that waits. given is closed when it has a slot.
type request struct{ given chan struct{} }

// New returns Slots of a number, which is at least 2. At most most requests wait; those of one
// tenant are at most half of them.
func New(slots, most int) *Slots {
	return &Slots{slots: max(2, slots), most: max(2, most), held: map[string]int{}}
}

// Acquire waits for a slot. The caller calls release exactly once. Errors: Exhausted if too many
// requests wait, and the cause of the end of ctx.
func (s *Slots) Acquire(ctx context.Context, op, tenant string) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, ended(ctx, op)
	}
	r := &request{make(chan struct{})}
	s.mu.Lock()
	if s.line.Len() >= s.most || s.line.LenOf(tenant) >= s.most/2 {
		s.stats.Refused++
		s.mu.Unlock()
		return nil, &fault.Error{
			Kind: fault.Exhausted, Op: op, RetryAfter: 5,
			Message: "too many sandboxes wait to be started or saved",
		}
	}
	s.line.Join(tenant, r)
	s.give()
	select {
	case <-r.given:
	default:
		s.stats.Waits++
	}
	s.mu.Unlock()

	release = sync.OnceFunc(func() { s.giveBack(tenant) })
	select {
	case <-r.given:
		return release, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	waits := s.line.Cancel(tenant, r)
	s.mu.Unlock()
	if !waits { // it got a slot at the same moment
		release()
	}
	return nil, ended(ctx, op)
}

// ended returns the error of a context that has ended: its cause if that is an error for clients.
func ended(ctx context.Context, op string) error {
	cause := context.Cause(ctx)
	if known := new(fault.Error); errors.As(cause, &known) {
		return cause
	}
	return fault.Wrap(fault.KindOf(cause), op, cause)
}

// give gives free slots to requests that wait. Preconditions: mu is held.
func (s *Slots) give() {
	for s.all < s.slots {
		tenant, r, ok := s.line.Next(func(t string) bool { return s.held[t] < s.slots/2 })
		if !ok {
			return
		}
		s.held[tenant]++
		s.all++
		close(r.given)
	}
}

func (s *Slots) giveBack(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.held[tenant]--; s.held[tenant] == 0 {
		delete(s.held, tenant)
	}
	s.give()
}

// Stats returns the counters.
func (s *Slots) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Held, out.Waiting = s.all, s.line.Len()
	return out
}
