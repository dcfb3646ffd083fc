package pool

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

func shared() bool { return true }

// TestPoolReserve checks that a tenant that claims without end leaves a member for a tenant that
// claims now and then, and gets the others itself.
func TestPoolReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		p := f.pool(Options{Size: 4, Wait: time.Minute, Shared: shared})
		defer p.Close()
		defer check(t, p)
		time.Sleep(10 * time.Second)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		defer wg.Wait()
		defer close(stop)
		for range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, _, err := p.Claim(t.Context(), "greedy"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 10 {
			time.Sleep(3500 * time.Millisecond)
			if s := p.Stats(); s.Ready < 1 {
				t.Errorf("nothing is kept: %+v", s)
			}
			begin := time.Now()
			if _, waited, err := p.Claim(t.Context(), "other"); err != nil || waited {
				t.Errorf("the other tenant waited %v: %v", time.Since(begin), err)
			}
		}
		// 35 s make 35 members. Ten of them, and the one that is kept, are not for the greedy tenant.
		if s := p.Stats(); s.Reserved == 0 || s.Claims < 10+22 {
			t.Errorf("%+v", s)
		}
	})
}

// TestWaitingClaimsCount checks that a tenant whose claims wait has not claimed little, and that a
// tenant beside it with as many recent claims has.
func TestWaitingClaimsCount(t *testing.T) {
	var r recent
	now := time.Now()
	for range 4 {
		r.add("greedy", now)
		r.add("other", now)
	}
	if r.few("greedy", 0, 0, now) || r.few("other", 0, 0, now) {
		t.Error("two tenants with the same claims have claimed little")
	}
	if !r.few("other", 0, 8, now) || !r.few("other", 1, 8, now) || r.few("greedy", 7, 8, now) {
		t.Error("claims that wait do not count")
	}
}

// TestPoolReserveAlone checks that nothing is kept in a pool of one tenant.
func TestPoolReserveAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		p := f.pool(Options{Size: 4})
		defer p.Close()
		time.Sleep(10 * time.Second)
		for range 4 {
			if _, waited, err := p.Claim(t.Context(), "a"); err != nil || waited {
				t.Fatalf("a claim of a full pool waited: %v", err)
			}
		}
	})
}

// TestPoolTurns checks that tenants that wait take turns.
func TestPoolTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		p := f.pool(Options{Size: 1, Wait: time.Minute})
		defer p.Close()
		began := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		last := map[string]time.Duration{}
		for _, tenant := range []string{"a", "a", "a", "a", "a", "a", "b", "b"} {
			wg.Go(func() {
				if _, _, err := p.Claim(t.Context(), tenant); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				last[tenant] = max(last[tenant], time.Since(began))
			})
			synctest.Wait()
		}
		wg.Wait()
		if last["b"] != 4*time.Second || last["a"] != 8*time.Second {
			t.Errorf("the last claims were served after %v", last)
		}
	})
}

// TestPoolReserveRefuses checks the error of a tenant that waits while members are kept, and that a
// member is given to it once its claims are forgotten.
func TestPoolReserveRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f factory
		p := f.pool(Options{Size: 2, Wait: time.Second / 2, Shared: shared})
		defer p.Close()
		time.Sleep(10 * time.Second)
		if _, _, err := p.Claim(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		_, _, err := p.Claim(t.Context(), "a")
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != fault.Exhausted ||
			!strings.Contains(e.Message, "kept for tenants") {
			t.Errorf("the member that is kept was given: %v", err)
		}
		if s := p.Stats(); s.Reserved != 1 || s.Refused != 1 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute)
		for _, tenant := range []string{"a", "b"} {
			if _, waited, err := p.Claim(t.Context(), tenant); err != nil || waited {
				t.Errorf("tenant %s after a minute: %v", tenant, err)
			}
		}
	})
}
