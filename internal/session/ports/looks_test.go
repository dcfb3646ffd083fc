package ports

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
)

// TestLooks: a few sandboxes are asked at a time, and a request that waits ends with its context.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, most := 0, 0
		var mu sync.Mutex // guards asked and most
		list := NewLooks().Bound(func(context.Context) ([]wire.Port, error) {
			mu.Lock()
			asked++
			most = max(most, asked)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			asked--
			mu.Unlock()
			return nil, nil
		})
		var all sync.WaitGroup
		begin := time.Now()
		for range 5 * maxLooks {
			all.Go(func() {
				if _, err := list(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		late, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := list(late); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request without a turn: %v", err)
		}
		all.Wait()
		if most != maxLooks || time.Since(begin) != 5*time.Second {
			t.Errorf("%d at a time, %s", most, time.Since(begin))
		}
	})
}
