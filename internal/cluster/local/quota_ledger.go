package local

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
)

// Report implements cluster.QuotaLedger, in memory: it ends with the process, as
// the leases of all nodes do.
func (d *Directory) Report(
	_ context.Context, r cluster.UsageReport,
) (cluster.UsageReply, error) {
	const op = "local.quota"
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.live(r.Node, r.Incarnation) {
		return cluster.UsageReply{}, cluster.LeaseExpired(op)
	}
	n := d.nodes[r.Node]
	if n.reports >= r.Number {
		return cluster.UsageReply{}, cluster.OldReport(op)
	}
	n.reports, n.complete = r.Number, n.complete || r.Complete
	reply := cluster.UsageReply{
		Incarnation: r.Incarnation, Totals: make([]cluster.Amounts, len(r.All)),
	}
	for i, h := range r.All {
		reply.Totals[i] = d.replace(r, h)
	}
	if r.Collect {
		for name, until := range n.wanted {
			if time.Now().Before(until) {
				reply.Reclaim = append(reply.Reclaim, name)
			}
		}
		n.wanted = nil
	}
	return reply, nil
}

// replace replaces the usage of one holder on a node, and returns the usage of all other nodes.
func (d *Directory) replace(r cluster.UsageReport, h cluster.NodeUsage) (sum cluster.Amounts) {
	a := d.holders[h.Holder]
	if a == nil {
		a = &holder{
			nodes:    map[cluster.NodeID]usage{},
			released: map[cluster.SessionID]released{},
		}
		d.holders[h.Holder] = a
	}
	if a.nodes[r.Node] = (usage{r.Incarnation, h.Used}); h.Used == nil {
		delete(a.nodes, r.Node)
	}
	if h.Released != nil {
		a.released[h.Released.Session] = released{*h.Released, r.Node}
	}
	for id, p := range a.nodes {
		switch {
		case !d.hasLease(id), !d.live(id, p.incarnation) && d.nodes[id].complete:
			delete(a.nodes, id)
		case id == r.Node:
		default:
			sum.Add(p.used)
			if h.Reclaim {
				d.nodes[id].want(h.Holder)
			}
		}
	}
	for id, p := range a.released {
		switch {
		case !time.Now().Before(p.Until) || !p.Stored && !d.isReleased(id):
			delete(a.released, id)
		case !p.Stored || !d.hasLease(p.by):
			sum.Add(p.Used)
		}
	}
	if len(a.nodes)+len(a.released) == 0 {
		delete(d.holders, h.Holder)
	}
	return sum
}

// want asks a node to give something of a holder back.
func (n *node) want(holder string) {
	if n.wanted == nil {
		n.wanted = map[string]time.Time{}
	}
	n.wanted[holder] = time.Now().Add(cluster.ReclaimTime)
}

// holder is the usage of one holder.
type holder struct {
	nodes    map[cluster.NodeID]usage
	released map[cluster.SessionID]released
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
