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

// lastReport is the number of the last report of all tests.
var lastReport atomic.Uint64

// reportAll sends a report with the next number.
func reportAll(
	t *testing.T, d cluster.Registry, node cluster.NodeID, incarnation cluster.Token,
	all ...cluster.NodeUsage,
) cluster.UsageReply {
	t.Helper()
	reply, err := d.Report(within(t), cluster.UsageReport{
		Node: node, Incarnation: incarnation, Lease: time.Minute, Number: lastReport.Add(1),
		Complete: true, Collect: true, All: all,
	})
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// report reports one holder and returns the usage of the other nodes.
func report(
	t *testing.T, d cluster.Registry, node cluster.NodeID, incarnation cluster.Token,
	h cluster.NodeUsage,
) cluster.Amounts {
	t.Helper()
	return reportAll(t, d, node, incarnation, h).Totals[0]
}

func holds(t *testing.T, s cluster.Amounts, want ...float64) {
	t.Helper()
	if !slices.Equal(s, cluster.Amounts(want)) {
		t.Errorf("others hold %v, want %v", s, want)
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
		return len(s) > 0 && s[0] == 2
	})
	_, err := d.Report(ctx, cluster.UsageReport{
		Node: "c", Incarnation: c, Lease: short, Number: lastReport.Add(1),
		All: []cluster.NodeUsage{{Holder: who, Used: cluster.Amounts{4}}},
	})
	wantKind(t, err, fault.Restarting)

	// A request of one node to give something back is reported once to the others that use something.
	if s := reportAll(t, d, "b", b, cluster.NodeUsage{
		Holder: who, Used: cluster.Amounts{1}, Reclaim: true,
	}); len(s.Reclaim) > 0 {
		t.Error("it gets its own request")
	}
	for i, want := range [][]string{{who}, nil} {
		if s := reportAll(t, d, "a", a); !slices.Equal(s.Reclaim, want) {
			t.Errorf("report %d: the other one gets %q", i, s.Reclaim)
		}
	}
	report(t, d, "a", a, cluster.NodeUsage{Holder: who})
	report(t, d, "b", b, cluster.NodeUsage{Holder: who})

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
		return slices.Equal(report(t, d, "b", b, cluster.NodeUsage{Holder: "h"}),
			cluster.Amounts{1, 7})
	})
	stored.Until = time.Time{}
	holds(t, report(t, d, "b", b, cluster.NodeUsage{Holder: "h", Released: &stored}))
	holds(t, report(t, d, "b", b, cluster.NodeUsage{Holder: "h"}))
}

// conformReports: a report that was delayed is refused, and what a node has reported in an earlier
// incarnation counts until it has reported everything again.
func conformReports(t *testing.T, d directory) {
	a, b := register(t, d, heartbeatOf("a")), register(t, d, heartbeatOf("b"))
	delayed := cluster.UsageReport{
		Node: "a", Incarnation: a, Lease: time.Minute, Number: lastReport.Add(1),
		All: []cluster.NodeUsage{{Holder: "h", Used: cluster.Amounts{9}}},
	}
	report(t, d, "a", a, cluster.NodeUsage{Holder: "h", Used: cluster.Amounts{2}})
	_, err := d.Report(within(t), delayed)
	wantKind(t, err, fault.Conflict)
	others := func(want ...float64) {
		t.Helper()
		holds(t, report(t, d, "b", b, cluster.NodeUsage{Holder: "h"}), want...)
	}
	others(2)
	a = register(t, d, heartbeatOf("a"))
	others(2)
	incomplete := cluster.UsageReport{
		Node: "a", Incarnation: a, Lease: time.Minute, Number: lastReport.Add(1),
		All: []cluster.NodeUsage{{Holder: "another", Used: cluster.Amounts{1}}},
	}
	if _, err := d.Report(within(t), incomplete); err != nil {
		t.Fatal(err)
	}
	others(2)
	reportAll(t, d, "a", a)
	others()
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
	var got atomic.Int32
	var all sync.WaitGroup
	for i := range nodes {
		use := func(n float64) cluster.Amounts {
			return report(t, d, id(i), inc[i], cluster.NodeUsage{
				Holder: "h", Used: cluster.Amounts{n},
			})
		}
		all.Go(func() {
			for range quota {
				others := 0.0
				if sum := use(have[i] + 1); len(sum) > 0 {
					others = sum[0]
				}
				if others+have[i]+1 <= quota {
					have[i]++
					got.Add(1)
				} else {
					use(have[i])
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
		_, err := k.Report(within(t), cluster.UsageReport{
			Complete: true, All: []cluster.NodeUsage{{Holder: "h", Used: cluster.Amounts{3}}},
		})
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		if err != nil {
			return false
		}
		reply, err := other.Report(within(t), cluster.UsageReport{
			All: []cluster.NodeUsage{{Holder: "h"}},
		})
		return err == nil && slices.Equal(reply.Totals[0], cluster.Amounts{3})
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

// TestWhatNoNodeReports: Redis keeps the sum of released sessions, and corrects it when a record was
// lost alone. Entries of an earlier version are moved to the sum.
func TestWhatNoNodeReports(t *testing.T) {
	s := startRedis(t)
	r := s.open(t)
	c := s.client()
	defer func() { _ = c.Close() }()
	ctx := within(t)
	a := register(t, r, heartbeatOf("a"))
	key := func(kind string) string {
		all := c.Keys(ctx, "*"+kind+":*").Val()
		if len(all) != 1 {
			t.Fatalf("the keys of %s are %q", kind, all)
		}
		return all[0]
	}
	sum := func(want ...float64) {
		t.Helper()
		own := cluster.NodeUsage{Holder: "h", Used: cluster.Amounts{9}}
		holds(t, report(t, r, "a", a, own), want...)
		checkConsistency(t, r)
	}
	for i, id := range []cluster.SessionID{"s_1", "s_2", "s_3"} {
		token := mustClaim(t, r, claimOf("a", a, id, cluster.ClaimNew, 0))
		if err := r.Release(ctx, id, token, cluster.ReleaseInfo{}); err != nil {
			t.Fatal(err)
		}
		report(t, r, "a", a, cluster.NodeUsage{Holder: "h", Released: &cluster.ReleasedSession{
			Session: id, Until: until(), Used: cluster.Amounts{1, float64(10 * i)},
		}})
	}
	sum(3, 30)

	// The record of one is lost. A later report looks at the entry.
	if err := c.Del(ctx, "sandgate:{c1}:session:s_2").Err(); err != nil {
		t.Fatal(err)
	}
	sum(3, 30)
	if err := c.HDel(ctx, key("left"), "due").Err(); err != nil {
		t.Fatal(err)
	}
	sum(2, 20)

	// An earlier version has reported a session and a snapshot.
	end := fmt.Sprint(until().UnixMicro())
	if err := c.HSet(ctx, key("held"), "p:s_2", end+" 1.000 5.000", "p:s_3", end+" 1.000 25.000",
		"s:n_1", end+" gone 2.000 100.000").Err(); err != nil {
		t.Fatal(err)
	}
	sum(4, 125)
	if err := r.Forget(ctx, "s_3", tokenIn(t, r, "s_3")); err != nil {
		t.Fatal(err)
	}
	sum(3, 100)
}

func tokenIn(t *testing.T, d cluster.Lookup, id cluster.SessionID) cluster.Token {
	t.Helper()
	o, err := d.Find(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return o.Token
}
