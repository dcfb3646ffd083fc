package stream

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// order lets writes of the given sizes wait for a held lock, and returns the order in which they
// get it.
func order(t *testing.T, g *WriteLock, sizes ...int) []int {
	t.Helper()
	g.Lock(1)
	var passed []int
	var all sync.WaitGroup
	for i, n := range sizes {
		all.Go(func() {
			g.Lock(n)
			passed = append(passed, i) // the lock is held
			g.Unlock(n)
		})
		for end := time.Now().Add(10 * time.Second); g.Waiting() != i+1; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("write %d does not wait", i)
			}
		}
	}
	g.Unlock(1)
	all.Wait()
	return passed
}

// TestGateLetsSmallWritesPass: a small write that comes last gets the lock first.
func TestGateLetsSmallWritesPass(t *testing.T) {
	var g WriteLock
	if got, want := order(t, &g, 64<<10, 32<<10, SmallWrite+1, 30, SmallWrite), []int{
		3, 4, 0, 1,
		2,
	}; !slices.Equal(got, want) {
		t.Errorf("they passed in the order %v, not %v", got, want)
	}
	// Once more: the first time has no effect on the second.
	if got, want := order(t, &g, 64<<10, 30), []int{1, 0}; !slices.Equal(got, want) {
		t.Errorf("they passed in the order %v, not %v", got, want)
	}
}

// TestGateStarvesNobody: if a thousand small writes wait, only as many pass a large one as have its
// size together.
func TestGateStarvesNobody(t *testing.T) {
	var g WriteLock
	sizes := []int{64 << 10, 64 << 10}
	for range 40 {
		sizes = append(sizes, SmallWrite)
	}
	got := order(t, &g, sizes...)
	first, second := slices.Index(got, 0), slices.Index(got, 1)
	if first > smallShare/SmallWrite || second > 2*smallShare/SmallWrite+1 {
		t.Errorf("large writes passed as number %d and %d of %d", first, second, len(got))
	}
}

// TestGateIsALock: only one goroutine at a time is between Lock and Unlock.
func TestGateIsALock(t *testing.T) {
	var g WriteLock
	var all sync.WaitGroup
	n := 0
	for i := range 8 {
		size := 1
		if i%2 == 0 {
			size = 64 << 10
		}
		all.Go(func() {
			for range 2000 {
				g.Lock(size)
				n++
				g.Unlock(size)
			}
		})
	}
	all.Wait()
	if n != 16_000 {
		t.Errorf("%d of 16000 were counted", n)
	}
}
