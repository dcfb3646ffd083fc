package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// report reports one holder and returns the usage of the other nodes.
func report(
	t *testing.T, d cluster.Registry, node cluster.NodeID, incarnation cluster.Token,
	h cluster.NodeUsage,
) cluster.Totals {
	t.Helper()
	sums, err := d.Report(within(t), node, incarnation, time.Minute, []cluster.NodeUsage{h})
	if err != nil {
		t.Fatal(err)
	}
	return sums[0]
}

func holds(t *testing.T, s cluster.Totals, want ...float64) {
	t.Helper()
	if !slices.Equal(s.Used, cluster.Amounts(want)) {
		t.Errorf("others hold %v, want %v", s.Used, want)
	}
}

// conformQuota: the usage of nodes adds up. The usage of a node ends with its lease,
// and a released session counts until a node claims it.
func conformQuota(t *testing.T, d directory) {
	ctx := within(t)
	a, b := register(t, d, heartbeatOf("a")), register(t, d, heartbeatOf("b"))
	c := register(t, d, heartbeatOf("c"))
	const who = "acme\x00 key:{*}\n"
	holds(t, report(t, d, "a", a, cluster.NodeUsage{Holder: who, Used: cluster.Amounts{1, 0.5}}))
	holds(t, report(t, d, "b", b, cluster.NodeUsage{
		Holder: who, Used: cluster.Amounts{2, 1 << 40},
	}), 1, 0.5)
	holds(t, report(t, d, "c", c, cluster.NodeUsage{
		Holder: who, Used: cluster.Amounts{4},
	}), 3, 1<<40+0.5)
	holds(t, report(t, d, "a", a, cluster.NodeUsage{Holder: "another", Used: cluster.Amounts{9}}))
	expire(t, d, "c", c)
	testenv.Eventually(t, "the use of a dead node is not counted", func() bool {
		// see conformTakeover
		s := report(t, d, "a", a, cluster.NodeUsage{Holder: who, Used: cluster.Amounts{3}})
		return len(s.Used) > 0 && s.Used[0] == 2
	})
	_, err := d.Report(ctx, "c", c, short, []cluster.NodeUsage{
		{Holder: who, Used: cluster.Amounts{4}},
	})
	wantKind(t, err, fault.Restarting)

	// A request of one node to give something back is reported to the others.
	if s := report(t, d, "b", b, cluster.NodeUsage{Holder: who, Reclaim: true}); s.Reclaim {
		t.Error("it is told what it wants itself")
	}
	if s := report(t, d, "a", a, cluster.NodeUsage{Holder: who}); !s.Reclaim || len(s.Used) != 0 {
		t.Errorf("the other is told %+v", s)
	}

	token := mustClaim(t, d, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	if err := d.Release(ctx, "s_1", token, cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	report(t, d, "a", a, cluster.NodeUsage{Holder: who, Released: &cluster.ReleasedSession{
		Session: "s_1", Until: time.Now().Add(time.Hour), Used: cluster.Amounts{1, 7},
	}})
	holds(t, report(t, d, "b", b, cluster.NodeUsage{Holder: who}), 1, 7)
	holds(t, report(t, d, "a", a, cluster.NodeUsage{Holder: who}), 1, 7)
	takeOver(t, d, claimOf("b", b, "s_1", cluster.ClaimTakeOver, token))
	holds(t, report(t, d, "a", a, cluster.NodeUsage{Holder: who}))
}

// conformStoredQuota: a stored snapshot counts once: as usage of its node, and after the end of the
// node's lease by itself, until another node reports its end.
func conformStoredQuota(t *testing.T, d directory) {
	a, b := register(t, d, heartbeatOf("a")), register(t, d, heartbeatOf("b"))
	stored := cluster.ReleasedSession{
		Session: "n_1", Until: time.Now().Add(time.Hour), Used: cluster.Amounts{1, 7}, Stored: true,
	}
	report(t, d, "a", a, cluster.NodeUsage{
		Holder: "h", Used: cluster.Amounts{1, 7}, Released: &stored,
	})
	holds(t, report(t, d, "b", b, cluster.NodeUsage{Holder: "h"}), 1, 7)
	holds(t, report(t, d, "a", a, cluster.NodeUsage{Holder: "h"}))
	expire(t, d, "a", a)
	testenv.Eventually(t, "the snapshot of a node without a lease is counted", func() bool {
		return slices.Equal(report(t, d, "b", b, cluster.NodeUsage{Holder: "h"}).Used,
			cluster.Amounts{1, 7})
	})
	stored.Until = time.Time{}
	holds(t, report(t, d, "b", b, cluster.NodeUsage{Holder: "h", Released: &stored}))
	holds(t, report(t, d, "b", b, cluster.NodeUsage{Holder: "h"}))
}

// conformQuotaRace: when several nodes take the remainder of a quota at the same time,
// they do not take more than the quota.
func conformQuotaRace(t *testing.T, d directory) {
	const nodes, quota = 4, 10
	var have [nodes]float64
	var inc [nodes]cluster.Token
	id := func(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprint("n", i)) }
	for i := range nodes {
		inc[i] = register(t, d, heartbeatOf(id(i)))
	}
	ctx := within(t)
	var got atomic.Int32
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() {
			for range quota {
				sums, err := d.Report(ctx, id(i), inc[i], time.Minute, []cluster.NodeUsage{
					{Holder: "h", Used: cluster.Amounts{have[i] + 1}},
				})
				if err != nil {
					t.Error(err)
					return
				}
				others := 0.0
				if len(sums[0].Used) > 0 {
					others = sums[0].Used[0]
				}
				if others+have[i]+1 <= quota {
					have[i]++
					got.Add(1)
				} else if _, err := d.Report(ctx, id(i), inc[i], time.Minute, []cluster.NodeUsage{
					{Holder: "h", Used: cluster.Amounts{have[i]}},
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := got.Load(); n > quota || n < 1 {
		t.Errorf("of %d there were %d", quota, n)
	}
}

// TestQuotaUsageEnds: reported usage has an end, and comes back with the next report
// after the server has lost its data.
func TestQuotaUsageEnds(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	k, _ := holdLeases(t, r, cluster.LeaseHolderOptions{Node: "a", Lease: time.Second})
	other, _ := holdLeases(t, r, cluster.LeaseHolderOptions{Node: "b", Lease: time.Second})
	reported := func() bool {
		_, err := k.Report(within(t), []cluster.NodeUsage{{Holder: "h", Used: cluster.Amounts{3}}})
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		if err != nil {
			return false
		}
		sums, err := other.Report(within(t), []cluster.NodeUsage{{Holder: "h"}})
		return err == nil && slices.Equal(sums[0].Used, cluster.Amounts{3})
	}
	testenv.Eventually(t, "the sum", reported)
	s.restart(t)
	testenv.Eventually(t, "the sum again", reported)
	c := s.client()
	defer func() { _ = c.Close() }()
	testenv.Eventually(t, "the sum with an end", func() bool {
		keys := c.Keys(context.Background(), "*held:*").Val()
		if len(keys) == 0 { // the report has already arrived
			reported()
			return false
		}
		ttl := c.PTTL(context.Background(), keys[0]).Val()
		if len(keys) > 1 || ttl == -1 {
			t.Fatalf("%v has no end", keys)
		}
		return ttl > 0
	})
}
