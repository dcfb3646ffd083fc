package noderouter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/report/join"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// recorded has the records of a node: the cells of tenant alice, and entries of the audit log.
type recorded struct {
	cells   int64
	entries []protocol.AuditEntry
	missing []protocol.MissingRecords
}

func (x recorded) usage() protocol.UsageReport {
	return protocol.UsageReport{
		Sums:    []protocol.UsageSum{{Key: "alice", Cells: x.cells}},
		Missing: x.missing,
	}
}

func (x recorded) audit() protocol.AuditPage {
	return protocol.AuditPage{Entries: x.entries, Missing: x.missing}
}

// report answers questions about records. mu is held.
func (k *testNode) report(r protocol.Request) (any, error) {
	if k.records == nil {
		switch r.Op {
		case protocol.OpUsageReport:
			return recorded{cells: 1}.usage(), nil
		case protocol.OpAuditList:
			return recorded{}.audit(), nil
		}
		return nil, fault.New(fault.Unsupported, r.Op, "there is no store")
	}
	own := string(k.id) + ".1"
	switch r.Op {
	case protocol.OpUsageReport:
		u := (*k.records)[own].usage()
		u.Folder = own
		return u, nil
	case protocol.OpAuditList:
		a := (*k.records)[own].audit()
		a.Folder = own
		return a, nil
	}
	if k.storeErr != nil {
		return nil, k.storeErr
	}
	q := decode[protocol.StoredRecords](r.Params)
	var reports []protocol.UsageReport
	var pages []protocol.AuditPage
	for folder, x := range *k.records {
		if !strings.Contains(strings.Join(q.Except, " "), folder) {
			reports, pages = append(reports, x.usage()), append(pages, x.audit())
		}
	}
	if r.Op == protocol.OpUsageStored {
		return join.Usage(reports...), nil
	}
	return join.Audit(q.Audit.Limit, pages...), nil
}

// TestReportsOfNodesThatHaveGone: a report counts the records of each node once, of running nodes and
// of those in the blob store, and names what is missing. Without the store it is unavailable.
func TestReportsOfNodesThatHaveGone(t *testing.T) {
	r, all := startNodes(t, "a", "b")
	entry := func(second int) []protocol.AuditEntry {
		return []protocol.AuditEntry{{
			Time: time.Unix(int64(second), 0), Event: "session.create", Name: fmt.Sprint(second),
		}}
	}
	records := map[string]recorded{
		"a.1": {cells: 1, entries: entry(1)},
		"b.1": {cells: 10, entries: entry(3)},
		// The node b lost its disk before.
		"b.0": {cells: 100, entries: entry(2)},
		"c.1": {
			cells: 1000, entries: entry(4),
			missing: []protocol.MissingRecords{{Node: "c", FromMS: 4000}},
		},
	}
	look := func() (protocol.UsageReport, protocol.AuditPage, error) {
		var u protocol.UsageReport
		err := r.Call(within(t), alice, protocol.OpUsageReport, protocol.UsageQuery{}, &u)
		var a protocol.AuditPage
		if err == nil {
			err = r.Call(within(t), alice, protocol.OpAuditList, protocol.AuditQuery{}, &a)
		}
		return u, a, err
	}
	if u, _, err := look(); err != nil || u.Sums[0].Cells != 2 {
		t.Errorf("without a store: %+v, %v", u, err)
	}
	away := func(err error) {
		for _, k := range all {
			k.mu.Lock()
			k.records, k.storeErr = &records, err
			k.mu.Unlock()
		}
	}
	expect := func(what string) {
		t.Helper()
		u, a, err := look()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if len(u.Sums) != 1 || u.Sums[0].Cells != 1111 || len(u.Missing) != 1 ||
			u.Missing[0].Node != "c" || u.Folder != "" {
			t.Errorf("%s: the use is %+v", what, u)
		}
		var names []string
		for _, e := range a.Entries {
			names = append(names, e.Name)
		}
		if strings.Join(names, " ") != "1 2 3 4" || len(a.Missing) != 1 || a.Folder != "" {
			t.Errorf("%s: the entries are %v, %+v", what, names, a.Missing)
		}
	}
	away(nil)
	expect("with all nodes")
	away(fault.New(fault.Unavailable, "test", "the blob store cannot be reached"))
	if _, _, err := look(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("while the store is away: %v", err)
	}
	away(nil)
	all[1].silence()
	if err := all[1].keeper.EndLease(within(t)); err != nil {
		t.Fatal(err)
	}
	_ = all[1].ln.Close()
	testenv.Eventually(t, "only the node a is left", func() bool {
		nodes, err := r.placer.Nodes(within(t))
		return err == nil && len(nodes) == 1 && nodes[0].ID == cluster.NodeID("a")
	})
	r.mu.Lock()
	gone := r.nodes["b"]
	delete(r.nodes, "b")
	r.mu.Unlock()
	if gone != nil {
		_ = gone.client.Close()
	}
	expect("without the node b")
}
