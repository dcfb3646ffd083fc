package local

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
)

// Report implements cluster.QuotaLedger, in memory: it ends with the process, as
// the leases of all nodes do.
func (d *Directory) Report(
	_ context.Context, node cluster.NodeID, incarnation cluster.Token, _ time.Duration,
	all []cluster.NodeUsage,
) ([]cluster.Totals, error) {
	const op = "local.quota"
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.live(node, incarnation) {
		return nil, cluster.LeaseExpired(op)
	}
	totals := make([]cluster.Totals, len(all))
	for i, h := range all {
		a := d.holders[h.Holder]
		if a == nil {
			a = &holder{
				nodes:    map[cluster.NodeID]usage{},
				released: map[cluster.SessionID]released{},
			}
			d.holders[h.Holder] = a
		}
		if a.nodes[node] = (usage{incarnation, h.Used}); h.Used == nil {
			delete(a.nodes, node)
		}
		if h.Released != nil {
			a.released[h.Released.Session] = released{*h.Released, node}
		}
		if h.Reclaim {
			a.reclaimer, a.reclaimUntil = node, time.Now().Add(cluster.ReclaimTime)
		}
		for id, p := range a.nodes {
			switch {
			case !d.live(id, p.incarnation):
				delete(a.nodes, id)
			case id != node:
				totals[i].Used.Add(p.used)
			}
		}
		for id, p := range a.released {
			switch {
			case !time.Now().Before(p.Until) || !p.Stored && !d.isReleased(id):
				delete(a.released, id)
			case !p.Stored || !d.hasLease(p.by):
				totals[i].Used.Add(p.Used)
			}
		}
		totals[i].Reclaim = a.reclaimer != node && time.Now().Before(a.reclaimUntil)
		if len(a.nodes)+len(a.released) == 0 {
			delete(d.holders, h.Holder)
		}
	}
	return totals, nil
}

// holder is the usage of one holder.
type holder struct {
	nodes    map[cluster.NodeID]usage
	released map[cluster.SessionID]released
	// reclaimer is the node that asks the other nodes, until reclaimUntil, to give something back.
	reclaimer    cluster.NodeID
	reclaimUntil time.Time
}

// released is the usage of a released session or a stored snapshot, and the node that reported it.
type released struct {
	cluster.ReleasedSession
	by cluster.NodeID
}

// usage is the usage on one node, which ends with the node's incarnation.
type usage struct {
	incarnation cluster.Token
	used        cluster.Amounts
}
