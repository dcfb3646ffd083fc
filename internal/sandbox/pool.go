package sandbox

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// Member is what a Pool holds: something that may end by itself. *Sandbox is
// one.
type Member interface {
	// Done is closed when the member is of no more use.
	Done() <-chan struct{}
}

// PoolOptions size a pool. A zero field has the default that its comment
// names.
type PoolOptions struct {
	// Size is the number of members kept ready. 0 keeps none: every Claim
	// then waits for nothing and is refused.
	Size int
	// Parallel is how many members are made at a time. Default 1: on a
	// small machine, making two at a time takes each twice as long.
	Parallel int
	// Wait bounds how long a Claim waits when no member is ready. Default
	// 10 s.
	Wait time.Duration
	// Rest is how long after a claim the making of the next member waits, so
	// that what was claimed has the machine to itself for its first steps. A
	// Claim that finds nothing ready ends all rests. Default none.
	Rest time.Duration
	// MinBackoff and MaxBackoff bound the pause after a failure to make a
	// member: it doubles from the first to the second, less up to a half by
	// chance. Default 100 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
}

// PoolStats are a pool's counters since it was made, and its state.
type PoolStats struct {
	// Size is the number of members wanted, Ready that of members waiting
	// to be claimed, Making that of members being made.
	Size, Ready, Making int
	// Waiting is the number of Claims that wait.
	Waiting int
	// Claims counts those served, Misses those of them that had to wait,
	// and Refused those that got nothing.
	Claims, Misses, Refused uint64
	// Made and Failed count attempts to make a member, Broken the members
	// that ended before they were claimed.
	Made, Failed, Broken uint64
	// MakeTime is the moving average of what making a member takes.
	MakeTime time.Duration
	// LastError is why the last attempt failed; "" once one succeeds.
	LastError string
}

// Pool keeps members ready, each for one use. For each there is a goroutine
// that makes it and then blocks until somebody takes it from an unbuffered
// channel: a claim is a receive. (The idea is golang/playground's.)
type Pool[T Member] struct {
	make    func(context.Context) (T, error)
	discard func(T)
	opts    PoolOptions
	ready   chan T
	// making is a semaphore of Parallel.
	making chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	keep   sync.WaitGroup

	mu sync.Mutex
	// keepers has for each keeper, in the order of their making, what tells
	// it to stop.
	keepers []context.CancelFunc
	stats   PoolStats
	// failures is the number of attempts that failed since one succeeded.
	failures int
	lastErr  error
	// hurry is closed, and replaced, when a Claim has to wait.
	hurry chan struct{}
}

// NewPool returns a pool that makes its members with make, and rids itself of
// those that were not claimed with discard. Both are called from several
// goroutines. make must heed its context.
func NewPool[T Member](make_ func(context.Context) (T, error), discard func(T), opts PoolOptions) *Pool[T] {
	opts.Parallel = max(1, opts.Parallel)
	opts.Wait = or(opts.Wait, 10*time.Second)
	opts.MinBackoff = or(opts.MinBackoff, 100*time.Millisecond)
	opts.MaxBackoff = or(opts.MaxBackoff, 30*time.Second)
	p := &Pool[T]{
		make: make_, discard: discard, opts: opts,
		ready:  make(chan T),
		making: make(chan struct{}, opts.Parallel),
		hurry:  make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.Resize(opts.Size)
	return p
}

// Resize changes the number of members kept ready. Surplus ones are
// discarded, in the background. A closed pool stays empty.
func (p *Pool[T]) Resize(size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	p.stats.Size = max(0, size)
	for len(p.keepers) > p.stats.Size {
		last := len(p.keepers) - 1
		p.keepers[last]()
		p.keepers = p.keepers[:last]
	}
	for len(p.keepers) < p.stats.Size {
		ctx, cancel := context.WithCancel(p.ctx)
		p.keepers = append(p.keepers, cancel)
		p.keep.Go(func() { p.keepReady(ctx) })
	}
}

// keepReady makes one member after the other and offers each.
func (p *Pool[T]) keepReady(ctx context.Context) {
	for ctx.Err() == nil {
		m, ok := p.makeOne(ctx)
		if !ok {
			continue
		}
		p.count(func(s *PoolStats) { s.Ready++ })
		claimed := false
		select {
		case p.ready <- m:
			claimed = true
		case <-m.Done():
			p.count(func(s *PoolStats) { s.Broken++ })
		case <-ctx.Done():
		}
		p.count(func(s *PoolStats) { s.Ready-- })
		if !claimed {
			p.discard(m)
			continue
		}
		p.rest(ctx)
	}
}

// rest waits for PoolOptions.Rest, or until somebody waits for a member.
func (p *Pool[T]) rest(ctx context.Context) {
	p.mu.Lock()
	hurry, waiting := p.hurry, p.stats.Waiting
	p.mu.Unlock()
	if waiting > 0 || p.opts.Rest <= 0 {
		return
	}
	timer := time.NewTimer(p.opts.Rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	case <-ctx.Done():
	}
}

// makeOne makes a member, or waits for as long as the failure asks for.
func (p *Pool[T]) makeOne(ctx context.Context) (m T, ok bool) {
	select {
	case p.making <- struct{}{}:
	case <-ctx.Done():
		return m, false
	}
	p.count(func(s *PoolStats) { s.Making++ })
	begin := time.Now()
	m, err := p.make(ctx)
	took := time.Since(begin)
	<-p.making

	p.mu.Lock()
	p.stats.Making--
	if err == nil {
		p.stats.Made++
		p.stats.MakeTime = average(p.stats.MakeTime, took)
		p.failures, p.lastErr, p.stats.LastError = 0, nil, ""
		p.mu.Unlock()
		return m, true
	}
	if ctx.Err() != nil { // given up, not failed
		p.mu.Unlock()
		return m, false
	}
	p.stats.Failed++
	p.lastErr, p.stats.LastError = err, err.Error()
	pause := p.backoff(p.failures)
	p.failures++
	p.mu.Unlock()

	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return m, false
}

func (p *Pool[T]) backoff(failures int) time.Duration {
	d := float64(p.opts.MinBackoff) * math.Pow(2, float64(min(failures, 30)))
	d = min(d, float64(p.opts.MaxBackoff))
	return time.Duration(d * (0.5 + rand.Float64()/2))
}

// Take is Claim for one who does not wait: there is a member ready, or none.
func (p *Pool[T]) Take() (m T, ok bool) {
	if m, ok = p.receive(); ok {
		p.count(func(s *PoolStats) { s.Claims++ })
	}
	return m, ok
}

// Claim takes a member out of the pool; it is the caller's from then on. It
// returns at once when one is ready. Otherwise it waits for the next, at most
// PoolOptions.Wait, and then fails with kind Exhausted and the seconds after
// which a retry may succeed; or Unavailable when members cannot be made at
// all.
func (p *Pool[T]) Claim(ctx context.Context) (T, error) {
	const op = "pool.claim"
	var none T
	if m, ok := p.receive(); ok {
		p.count(func(s *PoolStats) { s.Claims++ })
		return m, nil
	}
	p.mu.Lock()
	p.stats.Waiting++
	close(p.hurry)
	p.hurry = make(chan struct{})
	p.mu.Unlock()
	defer p.count(func(s *PoolStats) { s.Waiting-- })
	timer := time.NewTimer(p.opts.Wait)
	defer timer.Stop()
	if p.size() == 0 && p.ctx.Err() == nil {
		timer.Reset(0)
	}
	for {
		select {
		case m := <-p.ready:
			if ended(m) {
				p.waste(m)
				continue
			}
			p.count(func(s *PoolStats) { s.Claims++; s.Misses++ })
			return m, nil
		case <-timer.C:
			return none, p.refuse(op)
		case <-ctx.Done():
			p.count(func(s *PoolStats) { s.Refused++ })
			return none, fault.Wrap(fault.KindOf(context.Cause(ctx)), op, context.Cause(ctx))
		case <-p.ctx.Done():
			p.count(func(s *PoolStats) { s.Refused++ })
			return none, fault.New(fault.Restarting, op, "the pool is closed")
		}
	}
}

// receive takes a ready member if there is one.
func (p *Pool[T]) receive() (m T, ok bool) {
	for p.ctx.Err() == nil {
		select {
		case m := <-p.ready:
			if !ended(m) {
				return m, true
			}
			p.waste(m)
		default:
			return m, false
		}
	}
	return m, false
}

// waste rids the pool of a member that ended in the moment of its claim.
func (p *Pool[T]) waste(m T) {
	p.count(func(s *PoolStats) { s.Broken++ })
	p.discard(m)
}

func (p *Pool[T]) refuse(op string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Refused++
	if p.lastErr != nil {
		return &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: seconds(p.opts.MaxBackoff), Err: p.lastErr,
			Message: "no sandbox is ready, and making one fails",
		}
	}
	// Those who wait are served in turn.
	wait := p.stats.MakeTime * time.Duration(p.stats.Waiting) / time.Duration(p.opts.Parallel)
	return &fault.Error{
		Kind: fault.Exhausted, Op: op, RetryAfter: seconds(wait),
		Message: fmt.Sprintf("no sandbox got ready within %v", p.opts.Wait),
	}
}

// Stats returns the pool's counters.
func (p *Pool[T]) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close discards all members and waits until that is done. Claims that wait
// fail with kind Restarting.
func (p *Pool[T]) Close() {
	p.mu.Lock()
	p.cancel()
	p.stats.Size = 0
	p.keepers = nil
	p.mu.Unlock()
	p.keep.Wait()
}

func (p *Pool[T]) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats.Size
}

func (p *Pool[T]) count(add func(*PoolStats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add(&p.stats)
}

func ended(m Member) bool {
	select {
	case <-m.Done():
		return true
	default:
		return false
	}
}

// average moves old by an eighth towards sample.
func average(old, sample time.Duration) time.Duration {
	if old == 0 {
		return sample
	}
	return old + (sample-old)/8
}

// seconds rounds up, and is 1 at least.
func seconds(d time.Duration) int {
	return max(1, int(math.Ceil(d.Seconds())))
}
