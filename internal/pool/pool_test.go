package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// thing is a member that costs nothing.
type thing struct {
	n         int64
	done      chan struct{}
	discarded atomic.Bool
}

func (t *thing) Done() <-chan struct{} { return t.done }

// factory makes things, one per second.
type factory struct {
	made, discarded atomic.Int64
	fail            atomic.Bool
}

var errFactory = errors.New("the factory is broken")

func (f *factory) make(ctx context.Context) (*thing, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f.fail.Load() {
		return nil, errFactory
	}
	return &thing{n: f.made.Add(1), done: make(chan struct{})}, nil
}

func (f *factory) discard(t *thing) {
	if t.discarded.Swap(true) {
		panic("discarded twice")
	}
	f.discarded.Add(1)
}

func (f *factory) pool(o Options) *Pool[*thing] { return New(f.make, f.discard, o) }

// check fails when the pool's counters do not match its workers.
func check(t *testing.T, p *Pool[*thing]) {
	t.Helper()
	if err := p.ConsistencyCheck(); err != nil {
		t.Error(err)
	}
}

// The tests sleep by synctest's clock, which does not wait in real time.

// After a claim the next member is made later, or at once when a claim waits.
func TestPoolDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		p := f.pool(Options{Size: 1, Delay: 5 * time.Second})
		defer p.Close()
		defer check(t, p)
		claim := func() time.Duration {
			t.Helper()
			begin := time.Now()
			if _, _, err := p.Claim(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		time.Sleep(2 * time.Second)
		claim() // a member was ready
		time.Sleep(4 * time.Second)
		if s := p.Stats(); s.Making != 0 || s.Ready != 0 {
			t.Errorf("during the delay: %+v", s)
		}
		time.Sleep(1500 * time.Millisecond)
		if s := p.Stats(); s.Making != 1 {
			t.Errorf("after the delay: %+v", s)
		}
		time.Sleep(time.Second)
		claim() // a member was ready
		if took := claim(); took != time.Second {
			t.Errorf("a claim during the delay took %v, want the second that it takes to make one",
				took)
		}
	})
}

func TestPoolWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		p := f.pool(Options{Size: 3})
		defer p.Close()
		defer check(t, p)
		time.Sleep(10 * time.Second)
		if s := p.Stats(); s.Ready != 3 || s.Made != 3 || s.MakeTime != time.Second || s.Size != 3 {
			t.Fatalf("a warm pool: %+v", s)
		}
		seen := map[int64]bool{}
		for range 3 {
			begin := time.Now()
			m, _, err := p.Claim(t.Context(), "a")
			if err != nil || time.Since(begin) != 0 {
				t.Fatalf("a claim took %v: %v", time.Since(begin), err)
			}
			if seen[m.n] {
				t.Errorf("member %d was handed out twice", m.n)
			}
			seen[m.n] = true
		}
		begin := time.Now()
		if _, _, err := p.Claim(t.Context(), "a"); err != nil || time.Since(begin) != time.Second {
			t.Errorf("a claim of an empty pool took %v: %v", time.Since(begin), err)
		}
		if s := p.Stats(); s.Claims != 4 || s.Misses != 1 || s.Refused != 0 {
			t.Errorf("counters: %+v", s)
		}
	})
}

func TestPoolExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		p := f.pool(Options{Size: 1, Wait: 1500 * time.Millisecond})
		defer p.Close()
		defer check(t, p)
		time.Sleep(10 * time.Second)
		var wg sync.WaitGroup
		var served, refused atomic.Int64
		for range 10 {
			wg.Go(func() {
				_, _, err := p.Claim(t.Context(), "a")
				var e *fault.Error
				switch {
				case err == nil:
					served.Add(1)
				case errors.As(err, &e) && e.Kind == fault.Exhausted && e.RetryAfter >= 1 &&
					e.RetryAfter <= 10:
					refused.Add(1)
				default:
					t.Errorf("Claim: %v", err)
				}
			})
		}
		wg.Wait()
		if served.Load() != 2 || refused.Load() != 8 {
			t.Errorf("%d served and %d refused, want 2 and 8", served.Load(), refused.Load())
		}
		if s := p.Stats(); s.Refused != 8 || s.Waiting != 0 {
			t.Errorf("counters: %+v", s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, _, err := p.Claim(ctx, "a"); !fault.Is(err, fault.DeadlineExceeded) {
			t.Errorf("a claim whose context ends: %v", err)
		}
		p.Resize(0)
		synctest.Wait()
		begin := time.Now()
		if _, _, err := p.Claim(t.Context(), "a"); !fault.Is(err, fault.Exhausted) ||
			time.Since(begin) != 0 {
			t.Errorf("a claim of a pool of none took %v: %v", time.Since(begin), err)
		}
	})
}

func TestPoolBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		var mu sync.Mutex
		var all []*thing
		p := New(func(ctx context.Context) (*thing, error) {
			m, err := f.make(ctx)
			if err == nil {
				mu.Lock()
				all = append(all, m)
				mu.Unlock()
			}
			return m, err
		}, f.discard, Options{Size: 2})
		defer p.Close()
		defer check(t, p)
		time.Sleep(5 * time.Second)
		mu.Lock()
		for _, m := range all {
			close(m.done)
		}
		mu.Unlock()
		// Both members ended at the moment of their claim: neither may be returned.
		m, _, err := p.Claim(t.Context(), "a")
		if err != nil || m.n <= 2 {
			t.Errorf("Claim gave member %+v, %v", m, err)
		}
		time.Sleep(5 * time.Second)
		if s := p.Stats(); s.Broken != 2 || s.Ready != 2 || f.discarded.Load() != 2 {
			t.Errorf("%d discarded, %+v", f.discarded.Load(), s)
		}
	})
}

func TestPoolBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		f.fail.Store(true)
		p := f.pool(Options{Size: 1, MinBackoff: time.Second, MaxBackoff: 30 * time.Second})
		defer p.Close()
		defer check(t, p)
		time.Sleep(5 * time.Minute)
		s := p.Stats()
		// 1+2+4+8+16+30+30… seconds, each less up to a half, and one for the
		// attempt: 5 minutes hold 11 attempts at least and 25 at most.
		if s.Failed < 11 || s.Failed > 25 || s.LastError != errFactory.Error() {
			t.Errorf("after five minutes of failures: %+v", s)
		}
		_, _, err := p.Claim(t.Context(), "a")
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != fault.Unavailable || !errors.Is(err, errFactory) ||
			e.RetryAfter == 0 {
			t.Errorf("Claim: %v", err)
		}
		f.fail.Store(false)
		time.Sleep(40 * time.Second)
		if s := p.Stats(); s.Ready != 1 || s.LastError != "" {
			t.Errorf("after the repair: %+v", s)
		}
	})
}

func TestPoolResizeAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		p := f.pool(Options{Size: 2, Parallel: 2})
		time.Sleep(1500 * time.Millisecond)
		if s := p.Stats(); s.Ready != 2 {
			t.Errorf("two at a time take a second: %+v", s)
		}
		p.Resize(5)
		time.Sleep(5 * time.Second)
		if s := p.Stats(); s.Ready != 5 || s.Size != 5 {
			t.Errorf("grown: %+v", s)
		}
		p.Resize(1)
		synctest.Wait()
		if s := p.Stats(); s.Ready != 1 || f.discarded.Load() != 4 {
			t.Errorf("shrunk: %+v, %d discarded", s, f.discarded.Load())
		}
		if _, _, err := p.Claim(t.Context(), "a"); err != nil {
			// and another one is being made when the pool closes
			t.Error(err)
		}
		check(t, p)
		p.Close()
		p.Close()
		check(t, p)
		p.Resize(3)
		if s := p.Stats(); s.Ready != 0 || s.Making != 0 || f.made.Load() != f.discarded.Load()+1 {
			t.Errorf("closed: %+v, %d made, %d discarded", s, f.made.Load(), f.discarded.Load())
		}
		if _, _, err := p.Claim(t.Context(), "a"); !fault.Is(err, fault.Restarting) {
			t.Errorf("Claim of a closed pool: %v", err)
		}
	})
}
