package noderouter

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/listing"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// mergeFunc asks all nodes and merges their answers.
type mergeFunc func(r *Router, ctx context.Context, who noderpc.Principal,
	params json.RawMessage) (json.RawMessage, error)

// merges returns the merge of each operation with the target AllNodes.
func merges() map[string]mergeFunc {
	return map[string]mergeFunc{
		protocol.OpSessionList:      (*Router).sessions,
		protocol.OpStatus:           (*Router).status,
		protocol.OpNodeList:         listNodes,
		protocol.OpMetrics:          (*Router).metrics,
		protocol.OpUsageReport:      (*Router).usage,
		protocol.OpAuditList:        (*Router).audit,
		protocol.OpNotebookList:     (*Router).notebooks,
		protocol.OpNotebookVersions: (*Router).notebookVersions,
		protocol.OpSnapshotList:     listSnapshots,
		protocol.OpTemplateList:     listTemplates,
		protocol.OpVolumeList: mergeList(protocol.OpVolumeList,
			func(l protocol.VolumeList) []protocol.Volume { return l.Volumes },
			func(a, b protocol.Volume) int { return cmp.Compare(a.Name, b.Name) },
			func(all []protocol.Volume, missing []string) any {
				return protocol.VolumeList{Volumes: all, Missing: missing}
			}),
		protocol.OpTenantList: mergeList(protocol.OpTenantList,
			func(l protocol.TenantList) []protocol.Tenant { return l.Tenants },
			func(a, b protocol.Tenant) int { return cmp.Compare(a.Name, b.Name) },
			func(all []protocol.Tenant, missing []string) any {
				return protocol.TenantList{Tenants: addUp(all), Missing: missing}
			}),
	}
}

// mergeList returns the merge of an operation whose answers are lists.
func mergeList[L, T any](
	op string, items func(L) []T, order func(a, b T) int, list func([]T, []string) any,
) mergeFunc {
	return func(r *Router, ctx context.Context, who noderpc.Principal,
		_ json.RawMessage,
	) (json.RawMessage, error) {
		return merge(ctx, r, who, op, items, order, list)
	}
}

// merge concatenates the lists of all nodes.
func merge[L, T any](
	ctx context.Context, r *Router, who noderpc.Principal,
	op string, items func(L) []T, order func(a, b T) int, list func([]T, []string) any,
) (json.RawMessage, error) {
	answers, missing, err := survey(ctx, r, who, op, struct{}{})
	if err != nil {
		return nil, err
	}
	all := []T{}
	for _, a := range answers {
		var l L
		if err := json.Unmarshal(a.raw, &l); err != nil {
			return nil, fault.Wrap(fault.Malformed, "noderouter.merge", err)
		}
		all = append(all, items(l)...)
	}
	slices.SortStableFunc(all, order)
	out, err := json.Marshal(list(all, missing))
	return out, fault.Wrap(fault.Internal, "noderouter.merge", err)
}

// addUp joins the neighbouring entries of each tenant: keys and quotas are the same on
// all nodes, and the usage of the nodes adds up.
func addUp(all []protocol.Tenant) []protocol.Tenant {
	one := all[:0]
	for _, t := range all {
		if n := len(one); n > 0 && one[n-1].Name == t.Name {
			use := &one[n-1].Use
			use.Sessions += t.Use.Sessions
			use.Running += t.Use.Running
			use.CPUs += t.Use.CPUs
			use.MemoryBytes += t.Use.MemoryBytes
			use.DiskBytes += t.Use.DiskBytes
			use.Snapshots += t.Use.Snapshots
			continue
		}
		one = append(one, t)
	}
	return one
}

// sessions lists the sessions of all nodes and those without a node: a page of them.
func (r *Router) sessions(ctx context.Context, who noderpc.Principal, params json.RawMessage) (
	json.RawMessage, error,
) {
	const op = protocol.OpSessionList
	asked := decode[protocol.SessionQuery](params)
	q, err := listing.Parse(asked)
	if err != nil {
		return nil, err
	}
	asked.Fields = "" // the order needs more
	if asked.Limit == 0 {
		asked.Limit = protocol.DefaultList
	}
	// The parked sessions come first and last: a session that is adopted or parked meanwhile is then
	// listed once or twice, but never missing. A session that is parked and adopted meanwhile is in
	// the answer of the node that it has left.
	began := time.Now()
	before, err := r.parked(ctx, who, asked)
	if err != nil {
		return nil, err
	}
	// A node that has just joined may have adopted a session before the parked ones were listed.
	if _, err = r.placer.Refresh(ctx); err != nil {
		return nil, err
	}
	answers, missing, err := survey(ctx, r, who, op, asked)
	if err != nil {
		return nil, err
	}
	after, err := r.parked(ctx, who, asked)
	if err != nil {
		return nil, err
	}
	var all, left []protocol.Session
	more := before.NextCursor != "" || after.NextCursor != ""
	for _, a := range answers {
		var l listing.Answer
		if err := json.Unmarshal(a.raw, &l); err != nil {
			return nil, fault.Wrap(fault.Malformed, "noderouter.merge", err)
		}
		all = append(all, l.Sessions...)
		left = append(left, l.Since(time.Since(began))...)
		more = more || l.NextCursor != ""
	}
	// The first entry of a session counts: a lapsed node may not know yet that
	// another node has taken the session over.
	seen := map[string]bool{}
	all = slices.Concat(all, before.Sessions, after.Sessions, left)
	all = slices.DeleteFunc(all, func(s protocol.Session) bool {
		twice := seen[s.ID]
		seen[s.ID] = true
		return twice
	})
	page := q.Page(all, more)
	page.Missing = missing
	out, err := json.Marshal(page)
	return out, fault.Wrap(fault.Internal, "noderouter.merge", err)
}

// parked lists the sessions without a node: a page of them. Any node reads them from the blob store.
func (r *Router) parked(
	ctx context.Context, who noderpc.Principal, q protocol.SessionQuery,
) (l protocol.SessionList, err error) {
	err = r.callAny(ctx, who, protocol.OpParked, q, &l)
	return l, err
}

// status adds up the answers of the nodes that answer.
func (r *Router) status(ctx context.Context, who noderpc.Principal, _ json.RawMessage) (
	json.RawMessage, error,
) {
	answers, err := r.ask(ctx, who, protocol.OpStatus, struct{}{})
	if err != nil {
		return nil, err
	}
	var sum protocol.NodeStatus
	known := false
	for _, a := range answers {
		var s protocol.NodeStatus
		if a.err == nil {
			a.err = json.Unmarshal(a.raw, &s)
		}
		if a.err != nil {
			err = a.err
			continue
		}
		if !known {
			known = true
			sum.Version, sum.Languages, sum.Counters = s.Version, s.Languages, map[string]int64{}
		}
		sum.Sessions += s.Sessions
		sum.Hibernated += s.Hibernated
		sum.Snapshots += s.Snapshots
		sum.SnapshotBytes += s.SnapshotBytes
		sum.Pool.Size += s.Pool.Size
		sum.Pool.Ready += s.Pool.Ready
		sum.Pool.Claims += s.Pool.Claims
		sum.Pool.Waits += s.Pool.Waits
		sum.Pool.Refusals += s.Pool.Refusals
		if s.Pool.LastError != "" {
			sum.Pool.LastError = s.Pool.LastError
		}
		for name := range maps.Keys(s.Counters) {
			sum.Counters[name] += s.Counters[name]
		}
	}
	if !known {
		return nil, err
	}
	out, err := json.Marshal(sum)
	return out, fault.Wrap(fault.Internal, "noderouter.status", err)
}
