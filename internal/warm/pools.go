package warm

import (
	"context"
	"math"
	"sort"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/fairqueue"
	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The size of a pool follows the recent claims, which are its demand. After demandHalfLife a claim
// counts half, so it keeps one sandbox ready for that time. A pool has at least the size in
// Config.Pools, and demand increases it to at most maxDemand. The sandboxes of all pools that are
// ready because of demand take at most Config.PoolMemory.
const (
	demandHalfLife = time.Minute
	maxDemand      = 16
)

// maxMaking is how many claims may wait for a sandbox that is made outside the pools.
const maxMaking = 1024

// SandboxBytes is the memory that one more sandbox is expected to take. A warm sandbox of Python with
// pandas takes 174 MiB.
const SandboxBytes = 256 << 20

// pools keeps sandboxes of templates ready, and serves claims from them. Manager embeds it.
type pools struct {
	cfg       Config
	maker     *maker
	languages map[string]*Template // by name; it does not change
	// templates returns all templates.
	templates func() []*Template
	// making are the turns of tenants whose sandboxes are made outside the pools.
	making *fairqueue.Slots
	// ctx ends when the node stops.
	ctx context.Context
}

// claimDelay is the time between a claim and the start of making its successor in the pool. On two
// cores, restoring at once makes the session's first cell three times as slow.
const claimDelay = 100 * time.Millisecond

// Start begins to fill the pools of Config.Pools. It is called once.
func (p *pools) Start() {
	for name, size := range p.cfg.Pools {
		if size <= 0 {
			continue
		}
		l, _ := p.cfg.language(name) // checked by the caller of New
		t := p.languages[l.Name]
		t.mu.Lock()
		t.minimum = size
		p.create(t, p.withReserve(t, size))
		t.mu.Unlock()
	}
}

// Sizing has the properties of a sandbox that a session asks for.
type Sizing struct {
	// Tenant is the tenant of the session.
	Tenant string
	// Limits are the limits of the session.
	Limits protocol.Limits
	// Volumes is set when volumes will be mounted.
	Volumes bool
}

// Claim returns a sandbox of a template for a session. It waits at most Config.ClaimWait. Errors:
// Exhausted when no sandbox was ready in time, Restarting after Close, and the errors of a build.
func (p *pools) Claim(ctx context.Context, t *Template, size Sizing) (*Instance, error) {
	if size.Volumes && !t.layout.Volumes {
		t = t.volumes
	}
	layout := t.layout
	layout.Limits = sandboxLimits(size.Limits)
	if p.ctx.Err() != nil {
		return nil, fault.New(fault.Restarting, "session.create", "the node is stopping")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	return p.claim(ctx, t, layout, size.Tenant)
}

func (p *pools) claim(ctx context.Context, t *Template, layout Layout,
	tenant string,
) (i *Instance, err error) {
	began := time.Now()
	ctx, span := trace.Start(ctx, "claim")
	source := "cold"
	defer func() { span.Set(trace.Source, source); span.End(err) }()
	if t.def != nil {
		if err := t.waitBuilt(ctx); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err == nil {
			p.cfg.Observer.Claimed(t.manifest.Name, source, time.Since(began))
		}
	}()
	if layout.Limits != t.layout.Limits {
		return p.makeNow(ctx, t, layout, tenant)
	}
	ready, size := t.recordClaim()
	if size > 0 {
		source = "pool"
		i, waited, err := ready.Claim(ctx, tenant)
		if waited {
			source = "wait"
		}
		if err != nil {
			return nil, err
		}
		i.Machine.Assign(tenant)
		return i, nil
	}
	if i, err = p.makeNow(ctx, t, layout, tenant); err == nil {
		t.buildLater()
	}
	return i, err
}

// recordClaim counts a claim as demand. It returns the pool and its size.
func (t *Template) recordClaim() (p *pool.Pool[*Instance], size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decay(time.Now())
	t.demand = min(t.demand+1, maxDemand)
	if t.pool == nil {
		return nil, 0
	}
	return t.pool, t.pool.Stats().Size
}

// decay reduces the demand by the time that has passed. Preconditions: mu is
// held.
func (t *Template) decay(now time.Time) {
	if !t.demandAt.IsZero() {
		t.demand *= math.Exp2(-now.Sub(t.demandAt).Seconds() / demandHalfLife.Seconds())
	}
	t.demandAt = now
}

// makeNow makes an instance for a waiting claim. The number of concurrent calls is bounded. A call
// that waits longer than ClaimWait is refused.
func (p *pools) makeNow(ctx context.Context, t *Template, layout Layout,
	tenant string,
) (i *Instance, err error) {
	ctx, span := trace.Start(ctx, "make sandbox")
	defer func() { span.End(err) }()
	const op = "session.create"
	wait, cancel := context.WithTimeoutCause(ctx, p.cfg.ClaimWait, &fault.Error{
		Kind: fault.Exhausted, Op: op, RetryAfter: 5,
		Message: "no sandbox is ready, and too many are being made",
	})
	defer cancel()
	release, err := p.making.Acquire(wait, op, tenant)
	if err != nil {
		return nil, err
	}
	defer release()
	return p.maker.make(ctx, t, layout, tenant, false)
}

// create creates the pool of a template. Preconditions: t.mu is held.
func (p *pools) create(t *Template, size int) {
	t.pool = pool.New(
		func(ctx context.Context) (*Instance, error) {
			return p.maker.make(ctx, t, t.layout, t.owner(), true)
		},
		p.maker.discard,
		pool.Options{
			Size: size, Parallel: p.cfg.Parallel, Wait: p.cfg.ClaimWait,
			Delay: claimDelay, Shared: p.sharedBy(t),
		},
	)
}

// sharedBy returns the function that reports whether several tenants use the pool of a template. The
// pool of a user's template has one tenant.
func (p *pools) sharedBy(t *Template) func() bool {
	if t.def != nil {
		return nil
	}
	return p.cfg.Shared
}

// withReserve returns the size of a pool that has size sandboxes for each tenant that uses it. A
// quarter more are kept for tenants that have taken few, if several tenants use the pool.
func (p *pools) withReserve(t *Template, size int) int {
	if shared := p.sharedBy(t); shared != nil && shared() {
		size += (size + 3) / 4
	}
	return size
}

// Resize gives each pool the size that its demand and the memory allow. The caller repeats it, since
// demand decreases with time.
func (p *pools) Resize(now time.Time) {
	type share struct {
		t              *Template
		minimum, extra int
		bytes          int64
		demand         float64
	}
	var all []share
	for _, t := range p.templates() {
		t.mu.Lock()
		t.decay(now)
		s := share{t: t, minimum: t.minimum, bytes: t.bytes, demand: t.demand}
		if s.bytes == 0 {
			s.bytes = SandboxBytes
		}
		if t.ready && !t.deleted { // demand alone does not start a build
			s.extra = max(0, min(maxDemand, int(t.demand+0.5))-t.minimum)
		}
		t.mu.Unlock()
		all = append(all, s)
	}
	// The templates with the most demand come first.
	sort.Slice(all, func(i, j int) bool { return all[i].demand > all[j].demand })
	left := p.cfg.PoolMemory
	if p.cfg.Host.MemoryShort(SandboxBytes) {
		left = 0
	}
	for _, s := range all {
		extra := max(0, min(int64(s.extra), left/s.bytes))
		left -= extra * s.bytes
		p.resize(s.t, p.withReserve(s.t, s.minimum)+int(extra))
	}
}

// resize gives the pool of a template a size.
func (p *pools) resize(t *Template, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deleted || p.ctx.Err() != nil {
		return
	}
	if t.pool == nil {
		if size > 0 {
			p.create(t, size)
		}
		return
	}
	if t.pool.Stats().Size != size {
		t.pool.Resize(size)
	}
}

// Stats returns the counters of the pools by language, and the sums over all users' templates under
// "own". The counters of a deleted template are no longer included.
func (p *pools) Stats() map[string]pool.Stats {
	all := map[string]pool.Stats{}
	for _, t := range p.templates() {
		label := t.manifest.Name
		if t.def != nil {
			label = "own"
		}
		sum := all[label]
		if own := t.currentPool(); own != nil {
			s := own.Stats()
			sum.Size, sum.Ready, sum.Making, sum.Waiting = sum.Size+s.Size, sum.Ready+
				s.Ready, sum.Making+s.Making, sum.Waiting+s.Waiting
			sum.Claims, sum.Misses, sum.Refused = sum.Claims+s.Claims, sum.Misses+
				s.Misses, sum.Refused+s.Refused
			sum.Reserved += s.Reserved
			sum.Made, sum.Failed, sum.Broken = sum.Made+s.Made, sum.Failed+s.Failed, sum.Broken+
				s.Broken
			if s.LastError != "" {
				sum.LastError = s.LastError
			}
		}
		all[label] = sum
	}
	return all
}

// Status returns the sums over all pools for clients.
func (p *pools) Status() (all protocol.Pool) {
	for _, s := range p.Stats() {
		all.Size += s.Size
		all.Ready += s.Ready
		all.Claims += int64(s.Claims)
		all.Waits += int64(s.Misses)
		all.Refusals += int64(s.Refused)
		if s.LastError != "" {
			all.LastError = s.LastError
		}
	}
	return all
}

// Ready returns how many sandboxes of each language are ready. It has only languages with a pool.
func (p *pools) Ready() map[string]int {
	ready := map[string]int{}
	for _, t := range p.templates() {
		if own := t.currentPool(); own != nil && t.def == nil {
			ready[t.manifest.Name] += own.Stats().Ready
		}
	}
	return ready
}

// SetPools changes the minimal sizes of pools and resizes all pools. Other languages than those in
// sizes keep their minimum.
func (p *pools) SetPools(sizes map[string]int) {
	for language, size := range sizes {
		t := p.languages[language]
		if t == nil || size <= 0 {
			continue
		}
		t.mu.Lock()
		t.minimum = size
		t.mu.Unlock()
	}
	p.Resize(time.Now())
}

// check compares the counters of all pools with their workers. It returns the first difference.
func (p *pools) check() error {
	for _, t := range p.templates() {
		if own := t.currentPool(); own != nil {
			if err := own.ConsistencyCheck(); err != nil {
				return fault.Wrap(fault.Internal, "warm.check", err)
			}
		}
	}
	return nil
}

// close destroys the sandboxes of all pools.
func (p *pools) close() {
	var wg sync.WaitGroup
	for _, t := range p.templates() {
		if own := t.currentPool(); own != nil {
			wg.Go(own.Close)
		}
	}
	wg.Wait()
}
