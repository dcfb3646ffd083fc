package session

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// otherNode is a node of a directory. A test sets the resources that it holds.
type otherNode struct {
	mu     sync.Mutex
	has    cluster.Amounts
	wanted bool
	err    error
}

func (o *otherNode) Lease() time.Duration { return time.Minute }

func (o *otherNode) Report(_ context.Context, r cluster.UsageReport) (cluster.UsageReply, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	reply := cluster.UsageReply{Incarnation: 1, Totals: make([]cluster.Amounts, len(r.All))}
	for i, h := range r.All {
		reply.Totals[i] = o.has
		o.wanted = o.wanted || h.Reclaim
		if h.Reclaim { // an idle session of the tenant is evicted
			o.has = nil
		}
	}
	return reply, o.err
}

func (o *otherNode) set(u tenant.Use, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.has, o.err = admission.AmountsOf(u), err
}

// TestQuotaOverNodes checks that quotas count a tenant's sessions on another node, that an idle
// session there is evicted, and that the last known use counts while the directory is unavailable.
func TestQuotaOverNodes(t *testing.T) {
	var store *tenant.Store
	other := &otherNode{}
	r := newRig(t, func(c *Config) {
		store = withTenants(t, c)
		c.Ledger = other
		c.Limits = protocol.Limits{CPUs: 1, MemoryBytes: 1 << 30}
	})
	create := func() (string, error) {
		s, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
			protocol.SessionCreate{})
		return s.ID, err
	}
	set := func(q tenant.Quota) {
		t.Helper()
		if err := store.SetQuota(context.Background(), alice.Tenant, &q); err != nil {
			t.Fatal(err)
		}
	}
	other.set(tenant.Use{Sessions: 2, Running: 2}, nil)
	set(tenant.Quota{Sessions: 3})
	_, err := create()
	if err != nil {
		t.Fatal(err)
	}
	_, err = create()
	wantKind(t, "a fourth of three", err, fault.Exhausted, "quota.sessions")
	list, err := r.m.List(alice, protocol.SessionQuery{})
	if n := len(list.Sessions); err != nil || n != 1 {
		t.Errorf("%d sessions, and one was made", n)
	}
	other.set(tenant.Use{Sessions: 2, Running: 2}, fault.New(fault.Unavailable, "x", "away"))
	_, err = create()
	wantKind(t, "without the directory", err, fault.Exhausted, "quota.sessions")

	// An idle session on the other node is evicted.
	other.set(tenant.Use{Sessions: 2, Running: 2}, nil)
	set(tenant.Quota{Running: 3})
	if _, err := create(); err != nil {
		t.Errorf("although an idle session could be evicted: %v", err)
	}
	other.mu.Lock()
	if !other.wanted {
		t.Error("the other node was not asked")
	}
	other.mu.Unlock()

	eventually(t, "no claims", func() bool {
		return r.m.admission.Reserved() == 0
	})
}
