package cluster_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestResolver: an owner is cached, corrected by events, and still known while the
// directory is unreachable.
func TestResolver(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	look := &countedLookup{Lookup: r}
	told := make(chan cluster.Event, 100)
	f := cluster.NewResolver(look, cluster.NewPlacer(look, cluster.PlacerOptions{Lease: long}),
		func(e cluster.Event) { told <- e })
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f.Run(ctx) })
	defer done.Wait()
	defer cancel()
	<-told // it listens, and gets all events once the server knows of the subscription
	c := s.client()
	defer func() { _ = c.Close() }()
	testenv.Eventually(t, "the subscription", func() bool {
		return c.PubSubNumSub(within(t), "sandgate:{c}:events").Val()["sandgate:{c}:events"] > 0
	})
	ia, ib := register(t, r, heartbeatOf("a")), register(t, r, heartbeatOf("b"))
	token := mustClaim(t, r, claimOf("a", ia, "s_1", cluster.ClaimNew, 0))
	var before int64
	testenv.Eventually(t, "a look-up that is remembered", func() bool {
		before = look.n.Load()
		o, err := f.Find(within(t), "s_1")
		if err != nil || o.Node != "a" || o.Address != "a:1" {
			t.Fatalf("%+v %v", o, err)
		}
		return look.n.Load() == before
	})
	if err := r.Release(within(t), "s_1", token, cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "b's claim", func() bool {
		_, err := r.Claim(within(t), claimOf("b", ib, "s_1", cluster.ClaimTakeOver, 0))
		return err == nil
	})
	testenv.Eventually(t, "the correction", func() bool {
		o, err := f.Find(within(t), "s_1")
		return err == nil && o.Node == "b"
	})
	// The events come later than the changes. The event of the parking removes the cached owner,
	// also if it is already b; after it the owner stays.
	testenv.Eventually(t, "the news of b", func() bool {
		for {
			select {
			case e := <-told:
				if e.Node == "b" {
					return true
				}
			default:
				return false
			}
		}
	})
	if o, err := f.Find(within(t), "s_1"); err != nil || o.Node != "b" {
		t.Fatalf("behind the events: %+v %v", o, err)
	}
	s.kill()
	for range 3 {
		if o, err := f.Find(within(t), "s_1"); err != nil || o.Node != "b" {
			t.Fatalf("while the directory is away: %+v %v", o, err)
		}
		// no event reports that the resolver has lost the connection
		time.Sleep(50 * time.Millisecond)
	}
	if _, err := f.Find(within(t), "s_2"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("of one that was never looked up: %v", err)
	}
}

type countedLookup struct {
	cluster.Lookup
	n atomic.Int64
}

func (c *countedLookup) Find(ctx context.Context, id cluster.SessionID) (cluster.Owner, error) {
	c.n.Add(1)
	return c.Lookup.Find(ctx, id)
}
