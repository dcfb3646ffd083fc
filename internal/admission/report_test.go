package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// fakeLedger answers reports with the use of other nodes that the test sets.
type fakeLedger struct {
	mu      sync.Mutex // guards all below
	reports [][]cluster.NodeUsage
	others  map[string]tenant.Use // by holder
	wanted  map[string]bool       // holders for which another node requests an eviction
	err     error
	// reported is called after each report with its number, from 1.
	reported func(n int)
}

func (l *fakeLedger) Lease() time.Duration { return time.Minute }

func (l *fakeLedger) Report(_ context.Context, r cluster.UsageReport) (cluster.UsageReply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reply := cluster.UsageReply{Incarnation: 1, Totals: make([]cluster.Amounts, len(r.All))}
	if r.Collect {
		for h := range l.wanted {
			reply.Reclaim = append(reply.Reclaim, h)
		}
	}
	if len(r.All) == 0 {
		return reply, nil
	}
	l.reports = append(l.reports, r.All)
	if l.reported != nil {
		l.reported(len(l.reports))
	}
	if l.err != nil {
		return reply, l.err
	}
	for i, u := range r.All {
		reply.Totals[i] = AmountsOf(l.others[u.Holder])
	}
	return reply, nil
}

// last returns the last report, and how many there were.
func (l *fakeLedger) last() ([]cluster.NodeUsage, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.reports) == 0 {
		return nil, 0
	}
	return l.reports[len(l.reports)-1], len(l.reports)
}

// newClusterRig returns a controller with a ledger, and a quota of one running session for the
// tenant a.
func newClusterRig(t *testing.T) (*rig, *fakeLedger) {
	t.Helper()
	store, use := withTenants(t)
	l := &fakeLedger{others: map[string]tenant.Use{}, wanted: map[string]bool{}}
	r := newRig(t, use, func(c *Config) { c.Ledger = l })
	if err := store.SetQuota(t.Context(), "a", &tenant.Quota{Running: 1}); err != nil {
		t.Fatal(err)
	}
	return r, l
}

// confirm asks for a session of a that is counted on this node already.
func confirm(t *testing.T, r *rig) error {
	t.Helper()
	h := Holder{"a", "key:a"}
	r.node.change(func() { r.node.sessions[h] = tenant.Use{Sessions: 1, Running: 1} })
	return r.Confirm(t.Context(), "test", ForSession(h, tenant.Use{Running: 1}))
}

// TestQuotaOverNodes: the use of other nodes counts.
func TestQuotaOverNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := newClusterRig(t)
		if err := confirm(t, r); err != nil {
			t.Errorf("without use on other nodes: %v", err)
		}
		holder := Holder{Tenant: "a"}.key()
		if got, n := l.last(); n != 1 || len(got) != 1 || got[0].Holder != holder ||
			got[0].Reclaim || useOf(got[0].Used).Running != 1 {
			t.Errorf("the report %d is %+v", n, got)
		}

		l.others[holder] = tenant.Use{Running: 1}
		began := time.Now()
		r.wantKind("with a session elsewhere", confirm(t, r), fault.Exhausted, "quota.running")
		if took := time.Since(began); took < reclaimWait || took > reclaimWait+time.Second {
			t.Errorf("it waited for %s until another node would evict", took)
		}
		if got, n := l.last(); n < 3 || !got[0].Reclaim {
			t.Errorf("the report %d does not ask other nodes to evict: %+v", n, got)
		}
		if len(r.refused) != 1 || r.refused[0] != "running" {
			t.Errorf("counted as %v", r.refused)
		}

		// A tenant without a quota is not reported.
		_, before := l.last()
		if err := r.Confirm(t.Context(), "test", request("b")); err != nil {
			t.Error(err)
		}
		if _, n := l.last(); n != before {
			t.Error("a tenant without a quota was reported")
		}
	})
}

// TestReclaimFromOtherNodes: a request is admitted when another node has evicted a session, or when
// this node can.
func TestReclaimFromOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := newClusterRig(t)
		holder := Holder{Tenant: "a"}.key()
		l.others[holder] = tenant.Use{Running: 1}
		l.reported = func(n int) {
			if n == 3 {
				l.others[holder] = tenant.Use{}
			}
		}
		if err := confirm(t, r); err != nil {
			t.Errorf("after another node has evicted: %v", err)
		}
		if _, n := l.last(); n != 3 {
			t.Errorf("there were %d reports", n)
		}

		l.others[holder] = tenant.Use{Running: 1}
		r.node.evicted()
		r.node.evict = func(string) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.others[holder] = tenant.Use{}
			return true
		}
		began := time.Now()
		if err := confirm(t, r); err != nil || time.Since(began) > 0 {
			t.Errorf("after an eviction here: %v, %s later", err, time.Since(began))
		}
		if got := r.node.evicted(); got != "a" {
			t.Errorf("evicted for the tenants %q", got)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.others[holder] = tenant.Use{Running: 1}
		r.node.evict = nil
		r.wantKind("its context ends", r.Confirm(ctx, "test", request("a")), fault.DeadlineExceeded,
			"")
	})
}

// TestLedgerAway: without the ledger, the last known use of other nodes counts.
func TestLedgerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := newClusterRig(t)
		l.err = errors.New("no connection")
		if err := confirm(t, r); err != nil {
			t.Errorf("before any report: %v", err)
		}
		l.err = nil
		l.others[Holder{Tenant: "a"}.key()] = tenant.Use{Running: 1}
		r.wantKind("with a session elsewhere", confirm(t, r), fault.Exhausted, "quota.running")
		l.err = errors.New("no connection")
		r.wantKind("with the last known use", confirm(t, r), fault.Exhausted, "quota.running")
	})
}

// TestRun reports the use of holders with quotas, evicts for other nodes, and ends with Close.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := newClusterRig(t)
		r.node.sessions[Holder{"a", "key:a"}] = tenant.Use{Sessions: 1, Running: 1}
		r.node.sessions[Holder{"b", "key:b"}] = tenant.Use{Sessions: 1}
		done := make(chan struct{})
		go func() { defer close(done); r.Run() }()
		holder := Holder{Tenant: "a"}.key()
		seen := make(chan int)
		l.mu.Lock()
		l.reported = func(n int) { seen <- n }
		l.mu.Unlock()
		began := time.Now()
		<-seen
		if took := time.Since(began); took != reportEvery {
			t.Errorf("the first report came after %s", took)
		}
		synctest.Wait()
		if got, _ := l.last(); len(got) != 1 || got[0].Holder != holder ||
			useOf(got[0].Used).Running != 1 {
			t.Errorf("the report is %+v", got)
		}

		// A use that has not changed is not reported again before half of the lease.
		l.mu.Lock()
		l.reported = nil
		l.wanted[holder] = true
		l.mu.Unlock()
		time.Sleep(reportEvery) // in the bubble's time
		synctest.Wait()
		if got := r.node.evicted(); got != "a" {
			t.Errorf("evicted for the tenants %q", got)
		}
		l.mu.Lock()
		l.wanted = map[string]bool{}
		l.mu.Unlock()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if _, n := l.last(); n != 1 {
			t.Errorf("%d reports of one use", n)
		}
		time.Sleep(l.Lease())
		synctest.Wait()
		if got, n := l.last(); n < 2 || n > 4 || useOf(got[0].Used).Running != 1 {
			t.Errorf("after a lease, %d reports, the last one %+v", n, got)
		}

		// A change of nothing but the bytes on disk waits some seconds.
		set := func(u tenant.Use) (reports int) {
			_, before := l.last()
			r.node.change(func() { r.node.sessions[Holder{"a", "key:a"}] = u })
			time.Sleep(2 * reportEvery)
			synctest.Wait()
			_, after := l.last()
			return after - before
		}
		if n := set(tenant.Use{Sessions: 1, Running: 1, CPUs: 1}); n != 1 {
			t.Errorf("%d reports of a change", n)
		}
		if n := set(tenant.Use{Sessions: 1, Running: 1, CPUs: 1, DiskBytes: 5}); n != 0 {
			t.Errorf("%d reports of a change on disk", n)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got, _ := l.last(); useOf(got[0].Used).DiskBytes != 5 {
			t.Errorf("the last report is %+v", got)
		}

		// A holder is reported once more when it has nothing left.
		r.node.change(func() { delete(r.node.sessions, Holder{"a", "key:a"}) })
		time.Sleep(reportEvery)
		synctest.Wait()
		if got, _ := l.last(); len(got) != 1 || got[0].Used != nil {
			t.Errorf("the last report is %+v", got)
		}
		_, before := l.last()
		time.Sleep(3 * reportEvery) // in the bubble's time
		if _, n := l.last(); n != before {
			t.Errorf("%d reports without a holder", n-before)
		}
		r.Close()
		<-done
	})
}

// TestReportReleased: a session that no node has counts for its quotas.
func TestReportReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := newClusterRig(t)
		until := time.Now().Add(time.Hour)
		if err := r.ReportReleased(t.Context(), Holder{"a", "key:a"}, "s_1", until,
			77); err != nil {
			t.Fatal(err)
		}
		got, _ := l.last()
		if len(got) != 1 || got[0].Released == nil || got[0].Released.Session != "s_1" ||
			!got[0].Released.Until.Equal(until) {
			t.Fatalf("the report is %+v", got)
		}
		if u := useOf(got[0].Released.Used); u != (tenant.Use{Sessions: 1, DiskBytes: 77}) {
			t.Errorf("the session has %+v", u)
		}
		if err := r.ReportReleased(t.Context(), Holder{"b", "key:b"}, "s_2", until, 1); err != nil {
			t.Error(err)
		}
		if _, n := l.last(); n != 1 {
			t.Error("a session without a quota was reported")
		}
	})
}

// TestAmounts converts a use to the form of the ledger and back.
func TestAmounts(t *testing.T) {
	for _, u := range []tenant.Use{{}, {
		Sessions: 1, Running: 2, CPUs: 1.5, MemoryBytes: 1 << 40,
		DiskBytes: 3, Snapshots: 4,
	}} {
		if got := useOf(AmountsOf(u)); got != u {
			t.Errorf("%+v became %+v", u, got)
		}
	}
	if got := useOf(cluster.Amounts{1, 2}); got != (tenant.Use{}) {
		t.Errorf("amounts of another length are %+v", got)
	}
}

// TestReportsFollowQuotas: a tenant whose quota is removed has no entry in the ledger, and one that
// gets a quota is reported. A lower quota applies to the next request.
func TestReportsFollowQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := newClusterRig(t)
		h := Holder{"a", "key:a"}
		r.node.change(func() { r.node.sessions[h] = tenant.Use{Sessions: 2, Running: 2} })
		l.others[Holder{Tenant: "a"}.key()] = tenant.Use{Running: 2}
		quota := func(q *tenant.Quota) (entry cluster.Amounts) {
			t.Helper()
			if err := r.cfg.Tenants.SetQuota(t.Context(), "a", q); err != nil {
				t.Fatal(err)
			}
			r.reportChanges()
			all, _ := l.last()
			return all[0].Used
		}
		if got := quota(&tenant.Quota{Running: 5}); useOf(got).Running != 2 {
			t.Errorf("with a quota, the report is %v", got)
		}
		if got := quota(nil); got != nil {
			t.Errorf("without a quota, the report is %v", got)
		}
		if got := quota(&tenant.Quota{Running: 4}); useOf(got).Running != 2 {
			t.Errorf("with a quota again, the report is %v", got)
		}
		request := ForSession(h, tenant.Use{Running: 1})
		r.node.change(func() { r.node.sessions[h] = tenant.Use{Sessions: 2, Running: 2} })
		if err := r.Confirm(t.Context(), "test", request); err != nil {
			t.Errorf("below the quota: %v", err) // the new session is one of the two
		}
		quota(&tenant.Quota{Running: 3})
		r.wantKind("a lower quota", r.Confirm(t.Context(), "test", request), fault.Exhausted,
			"quota.running")
		r.Close()
	})
}
