package pool

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/fairqueue"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Member is an element of a Pool. It may end on its own.
type Member interface {
	// Done is closed when the member can no longer be used.
	Done() <-chan struct{}
}

// Options configure a pool. A zero field has the default that its comment
// names.
type Options struct {
	// Size is the number of members kept ready. 0 keeps none: every Claim is
	// refused at once.
	Size int
	// Parallel is how many members are made at a time. Default 1: on a
	// small machine, making two at a time takes each twice as long.
	Parallel int
	// Wait bounds how long a Claim waits when no member is ready. Default
	// 10 s.
	Wait time.Duration
	// Delay is the time between a claim and the start of making its
	// successor, so that the claimed member has the CPU to itself for its
	// first steps. A Claim that finds no ready member ends all delays.
	// Default 0.
	Delay time.Duration
	// MinBackoff and MaxBackoff bound the pause after a failed attempt to
	// make a member. The pause doubles from the first to the second, minus a
	// random share of up to a half. Default 100 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Shared reports whether several tenants use the pool. A fifth of its members, rounded up, is
	// then kept for tenants that have claimed little. nil means that the pool finds it out by its
	// claims.
	Shared func() bool
}

// Stats are a pool's counters since it was made, and its state.
type Stats struct {
	// Size is the number of members wanted. Ready members wait to be
	// claimed, Making members are being made.
	Size, Ready, Making int
	// Waiting is the number of Claims that wait.
	Waiting int
	// Claims counts the claims that were served, Misses those of them that
	// had to wait, and Refused the claims that failed. Reserved counts the claims
	// that had to wait because the ready members were kept for other tenants.
	Claims, Misses, Refused, Reserved uint64
	// Made and Failed count attempts to make a member. Broken counts the
	// members that ended before they were claimed.
	Made, Failed, Broken uint64
	// MakeTime is the moving average of the time to make a member.
	MakeTime time.Duration
	// LastError is the error of the last attempt; "" once one succeeds.
	LastError string
}

// Pool keeps members ready, each for one use. Each member has a worker: a
// goroutine that makes it and then blocks until a claim takes it. Claims that
// wait are served in turns of their tenants.
type Pool[T Member] struct {
	make    func(context.Context) (T, error)
	discard func(T)
	opts    Options
	// making is a semaphore of Parallel.
	making chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu sync.Mutex // guards all below
	// offers are the members that are ready, the oldest first. line has the
	// claims that wait.
	offers []*offer[T]
	line   fairqueue.Line[*claim[T]]
	recent recent
	// workers are the workers that are wanted, in the order of their start.
	workers []*worker
	// running are the workers whose goroutine has not returned: those in
	// workers, and surplus ones that still discard their member.
	running map[*worker]struct{}
	stats   Stats
	// failures is the number of failed attempts since the last success.
	failures int
	lastErr  error
	// urgent is closed, and replaced, when a Claim has to wait.
	urgent chan struct{}
}

// offer is a member that is ready. claimed is closed when a claim takes it.
type offer[T Member] struct {
	member  T
	claimed chan struct{}
}

// claim is a Claim that waits. got has room for its member.
type claim[T Member] struct {
	tenant string
	got    chan T
}

// worker makes members, one at a time.
type worker struct {
	cancel context.CancelFunc
	// state is guarded by Pool.mu.
	state workerState
}

type workerState int

const (
	idle   workerState = iota
	making             // counted in Stats.Making
	ready              // counted in Stats.Ready
)

// New returns a pool. It calls make_ to make a member and discard to destroy a
// member that was not claimed. Both are called from several goroutines. make_
// must return when its context ends.
func New[T Member](make_ func(context.Context) (T, error), discard func(T), opts Options) *Pool[T] {
	opts.Parallel = max(1, opts.Parallel)
	opts.Wait = or(opts.Wait, 10*time.Second)
	opts.MinBackoff = or(opts.MinBackoff, 100*time.Millisecond)
	opts.MaxBackoff = or(opts.MaxBackoff, 30*time.Second)
	p := &Pool[T]{
		make: make_, discard: discard, opts: opts,
		making:  make(chan struct{}, opts.Parallel),
		urgent:  make(chan struct{}),
		running: map[*worker]struct{}{},
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
	for len(p.workers) > p.stats.Size {
		last := len(p.workers) - 1
		p.workers[last].cancel()
		p.workers = p.workers[:last]
	}
	for len(p.workers) < p.stats.Size {
		ctx, cancel := context.WithCancel(p.ctx)
		w := &worker{cancel: cancel}
		p.workers = append(p.workers, w)
		p.running[w] = struct{}{}
		p.wait.Go(func() { p.work(ctx, w) })
	}
}

// work makes one member after the other and offers each.
func (p *Pool[T]) work(ctx context.Context, w *worker) {
	defer p.stopped(w)
	for ctx.Err() == nil {
		m, ok := p.makeOne(ctx, w)
		if !ok {
			continue
		}
		if !p.offer(ctx, w, m) {
			p.discard(m)
			continue
		}
		p.delay(ctx)
	}
}

// offer waits until a claim takes a member. It returns false if the member has ended before, or the
// worker is not wanted any more.
func (p *Pool[T]) offer(ctx context.Context, w *worker, m T) (claimed bool) {
	o := &offer[T]{m, make(chan struct{})}
	p.mu.Lock()
	p.enterLocked(w, ready)
	p.offers = append(p.offers, o)
	p.serve()
	p.mu.Unlock()
	broken := false
	select {
	case <-o.claimed:
	case <-m.Done():
		broken = true
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enterLocked(w, idle)
	i := slices.Index(p.offers, o)
	if i < 0 {
		return true
	}
	p.offers = slices.Delete(p.offers, i, i+1)
	if broken {
		p.stats.Broken++
	}
	return false
}

// serve gives ready members to the claims that wait. Preconditions: mu is held.
func (p *Pool[T]) serve() {
	for {
		tenant, c, ok := p.line.Next(p.mayTake)
		if !ok {
			return
		}
		m, _ := p.takeReady(tenant)
		c.got <- m // its only value, so this does not block
	}
}

// takeReady takes the oldest ready member for a tenant. Preconditions: mu is held.
func (p *Pool[T]) takeReady(tenant string) (m T, ok bool) {
	if !p.mayTake(tenant) {
		return m, false
	}
	i := slices.IndexFunc(p.offers, func(o *offer[T]) bool { return !ended(o.member) })
	if i < 0 {
		return m, false
	}
	o := p.offers[i]
	p.offers = slices.Delete(p.offers, i, i+1)
	close(o.claimed)
	p.recent.add(tenant, time.Now())
	return o.member, true
}

// mayTake reports whether a member is ready that is not kept for other tenants. Preconditions: mu is
// held.
func (p *Pool[T]) mayTake(tenant string) bool {
	n := p.usable()
	return n > p.kept() || n > 0 &&
		p.recent.few(tenant, p.line.LenOf(tenant), p.line.Len(), time.Now())
}

// usable returns how many ready members have not ended. Preconditions: mu is held.
func (p *Pool[T]) usable() (n int) {
	for _, o := range p.offers {
		if !ended(o.member) {
			n++
		}
	}
	return n
}

// kept returns how many ready members are kept for tenants that have claimed little.
// Preconditions: mu is held.
func (p *Pool[T]) kept() int {
	shared := p.recent.several(time.Now()) || p.opts.Shared != nil && p.opts.Shared()
	if p.stats.Size < 2 || !shared {
		return 0
	}
	return (p.stats.Size + 4) / 5
}

// enter changes a worker's state, and the counts of workers by state.
func (p *Pool[T]) enter(w *worker, to workerState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enterLocked(w, to)
}

// enterLocked is enter. Preconditions: mu is held.
func (p *Pool[T]) enterLocked(w *worker, to workerState) {
	add := func(state workerState, n int) {
		switch state {
		case making:
			p.stats.Making += n
		case ready:
			p.stats.Ready += n
		}
	}
	add(w.state, -1)
	w.state = to
	add(to, 1)
}

// stopped removes a worker whose goroutine returns.
func (p *Pool[T]) stopped(w *worker) {
	w.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, w)
}

// delay waits for Options.Delay, or until a Claim waits for a member.
func (p *Pool[T]) delay(ctx context.Context) {
	p.mu.Lock()
	urgent, waiting := p.urgent, p.stats.Waiting
	p.mu.Unlock()
	if waiting > 0 || p.opts.Delay <= 0 {
		return
	}
	timer := time.NewTimer(p.opts.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-urgent:
	case <-ctx.Done():
	}
}

// makeOne makes a member. After a failure it waits for the backoff.
func (p *Pool[T]) makeOne(ctx context.Context, w *worker) (m T, ok bool) {
	select {
	case p.making <- struct{}{}:
	case <-ctx.Done():
		return m, false
	}
	p.enter(w, making)
	begin := time.Now()
	m, err := p.make(ctx)
	took := time.Since(begin)
	<-p.making

	p.mu.Lock()
	p.enterLocked(w, idle)
	if err == nil {
		p.stats.Made++
		p.stats.MakeTime = average(p.stats.MakeTime, took)
		p.failures, p.lastErr, p.stats.LastError = 0, nil, ""
		p.mu.Unlock()
		return m, true
	}
	if ctx.Err() != nil { // canceled, not failed
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

// Take is Claim without waiting. ok is false when no member is ready for the tenant.
func (p *Pool[T]) Take(tenant string) (m T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return m, false
	}
	if m, ok = p.takeReady(tenant); ok {
		p.stats.Claims++
	}
	return m, ok
}

// Claim takes a member out of the pool and transfers it to the caller. It
// returns at once when one is ready that is not kept for other tenants.
// Otherwise it waits for the next one, at most Options.Wait, and then fails
// with kind Exhausted and the seconds after which a retry may succeed, or with
// Unavailable when making members fails. Tenants that wait take turns.
func (p *Pool[T]) Claim(ctx context.Context, tenant string) (m T, waited bool, err error) {
	const op = "pool.claim"
	if m, ok := p.Take(tenant); ok {
		return m, false, nil
	}
	c := &claim[T]{tenant, make(chan T, 1)}
	p.mu.Lock()
	p.line.Join(tenant, c)
	p.stats.Waiting++
	if p.usable() > 0 {
		p.stats.Reserved++
	}
	close(p.urgent)
	p.urgent = make(chan struct{})
	p.serve()
	p.mu.Unlock()
	defer p.count(func(s *Stats) { s.Waiting-- })
	timer := time.NewTimer(p.opts.Wait)
	defer timer.Stop()
	if p.size() == 0 && p.ctx.Err() == nil {
		timer.Reset(0)
	}
	// The reserve may become free for this tenant although no member is made.
	tick := time.NewTicker(reviewEvery)
	defer tick.Stop()
	for {
		select {
		case m := <-c.got:
			p.count(func(s *Stats) { s.Claims++; s.Misses++ })
			return m, true, nil
		case <-tick.C:
			p.mu.Lock()
			p.serve()
			p.mu.Unlock()
			continue
		case <-timer.C:
			err = p.refuse(op)
		case <-ctx.Done():
			p.count(func(s *Stats) { s.Refused++ })
			err = fault.Wrap(fault.KindOf(context.Cause(ctx)), op, context.Cause(ctx))
		case <-p.ctx.Done():
			p.count(func(s *Stats) { s.Refused++ })
			err = fault.New(fault.Restarting, op, "the pool is closed")
		}
		p.mu.Lock()
		waits := p.line.Cancel(tenant, c)
		p.mu.Unlock()
		if !waits { // it got a member at the same moment
			p.discard(<-c.got)
		}
		return m, true, err
	}
}

func (p *Pool[T]) refuse(op string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Refused++
	if p.lastErr != nil {
		return &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: seconds(p.opts.MaxBackoff), Err: p.lastErr,
			Message: "no sandbox is ready, and creating one fails",
		}
	}
	if p.usable() > 0 {
		return &fault.Error{
			Kind: fault.Exhausted, Op: op, RetryAfter: 5,
			Message: "the ready sandboxes are kept for tenants that have taken fewer",
		}
	}
	// Waiting claims are served one after the other.
	wait := p.stats.MakeTime * time.Duration(p.stats.Waiting) / time.Duration(p.opts.Parallel)
	return &fault.Error{
		Kind: fault.Exhausted, Op: op, RetryAfter: seconds(wait),
		Message: fmt.Sprintf("no sandbox became ready within %v", p.opts.Wait),
	}
}

// Stats returns the pool's counters.
func (p *Pool[T]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close discards all members and returns when that is done. Waiting claims
// fail with kind Restarting.
func (p *Pool[T]) Close() {
	p.mu.Lock()
	p.cancel()
	p.stats.Size = 0
	p.workers = nil
	p.mu.Unlock()
	p.wait.Wait()
}

// ConsistencyCheck compares the counters with the list of workers. It returns
// an error that names the first difference.
func (p *Pool[T]) ConsistencyCheck() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	states := map[workerState]int{}
	for w := range p.running {
		states[w.state]++
	}
	switch {
	case len(p.workers) != p.stats.Size:
		return fmt.Errorf("pool: %d workers for a size of %d", len(p.workers), p.stats.Size)
	case states[making] != p.stats.Making:
		return fmt.Errorf("pool: %d workers make a member, Making is %d", states[making],
			p.stats.Making)
	case states[ready] != p.stats.Ready:
		return fmt.Errorf("pool: %d workers offer a member, Ready is %d", states[ready],
			p.stats.Ready)
	case p.stats.Making > p.opts.Parallel:
		return fmt.Errorf("pool: %d members are made at a time, the limit is %d", p.stats.Making,
			p.opts.Parallel)
	case p.stats.Waiting < 0:
		return fmt.Errorf("pool: Waiting is %d", p.stats.Waiting)
	case p.stats.Misses > p.stats.Claims:
		return fmt.Errorf("pool: %d misses of %d claims", p.stats.Misses, p.stats.Claims)
	}
	for _, w := range p.workers {
		if _, ok := p.running[w]; !ok {
			return fmt.Errorf("pool: a worker that is wanted has stopped")
		}
	}
	return nil
}

func (p *Pool[T]) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats.Size
}

func (p *Pool[T]) count(add func(*Stats)) {
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

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
