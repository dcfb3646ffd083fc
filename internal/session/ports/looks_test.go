package ports

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sandgate/sandgate/internal/agent/wire"
)

// TestLooks: a few sandboxes are asked at a time, and a request that waits ends with its context.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		release := make(chan struct{})
		list := NewLooks().Bound(func(context.Context) ([]wire.Port, error) {
			asked.Add(1)
			<-release
			return nil, nil
		})
		var all sync.WaitGroup
		for range 5 * maxLooks {
			all.Go(func() {
				if _, err := list(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := list(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a request without a turn: %v", err)
		}
		for n := int32(1); n <= 5; n++ {
			if synctest.Wait(); asked.Load() != n*maxLooks {
				t.Errorf("%d sandboxes were asked, want %d", asked.Load(), n*maxLooks)
			}
			for range maxLooks {
				release <- struct{}{}
			}
		}
		all.Wait()
	})
}
