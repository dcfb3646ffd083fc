package noderouter

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
)

// Call makes one request, of the node that it is for, or of all.
func (r *Router) Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fault.Wrap(fault.Internal, "noderouter.call", err)
	}
	out, err := r.call(ctx, who, op, raw)
	if err != nil || result == nil {
		return err
	}
	return fault.Wrap(fault.Malformed, "noderouter.call", json.Unmarshal(out, result))
}

func (r *Router) call(ctx context.Context, who noderpc.Principal, op string, params json.RawMessage) (out json.RawMessage, err error) {
	ctx, span := trace.Start(ctx, "relay")
	span.Set(trace.Operation, op)
	defer func() { span.End(err) }()
	switch op {
	case protocol.OpSessionList:
		return r.sessions(ctx, who)
	case protocol.OpStatus:
		return r.status(ctx, who)
	case protocol.OpMetrics:
		return r.metrics(ctx, who)
	case protocol.OpSnapshotList:
		return merge(ctx, r, who, op, func(l protocol.SnapshotList) []protocol.Snapshot { return l.Snapshots },
			func(a, b protocol.Snapshot) int { return cmp.Compare(b.CreatedMS, a.CreatedMS) },
			func(all []protocol.Snapshot) any { return protocol.SnapshotList{Snapshots: all} })
	case protocol.OpTemplateList:
		return merge(ctx, r, who, op, func(l protocol.TemplateList) []protocol.Template { return l.Templates },
			func(a, b protocol.Template) int { return cmp.Compare(a.Name, b.Name) },
			func(all []protocol.Template) any { return protocol.TemplateList{Templates: all} })
	case protocol.OpTenantList:
		return merge(ctx, r, who, op, func(l protocol.TenantList) []protocol.Tenant { return l.Tenants },
			func(a, b protocol.Tenant) int { return cmp.Compare(a.Name, b.Name) },
			func(all []protocol.Tenant) any { return protocol.TenantList{Tenants: addUp(all)} })
	case protocol.OpSnapshotGet, protocol.OpSnapshotDel, protocol.OpTemplateGet, protocol.OpTemplateDelete:
		return r.wherever(ctx, who, op, params)
	}
	t := targetOf(params)
	m, err := r.choose(ctx, who, op, t)
	if err != nil {
		return nil, err
	}
	span.Set(trace.Node, string(m.id))
	err = m.client.Call(ctx, who, op, params, &out)
	if op == protocol.OpSessionCreate && r.unreached(m, err) {
		// Nothing has been made: another may.
		if now, perr := r.choose(ctx, who, op, t); perr == nil && now != m {
			err = now.client.Call(ctx, who, op, params, &out)
		}
	}
	if t.Session != "" && (fault.Is(err, fault.NotFound) || fault.Is(err, fault.Unavailable)) {
		// It may have moved, and the news not have come yet.
		r.resolver.Drop(cluster.SessionID(t.Session))
		now, ferr := r.of(ctx, who, t.Session)
		switch {
		case ferr == nil && now != m:
			err = now.client.Call(ctx, who, op, params, &out)
		case fault.Is(ferr, fault.SandboxLost):
			err = ferr // it knows why
		}
	}
	return out, err
}

// choose returns the node that a request is for.
func (r *Router) choose(ctx context.Context, who noderpc.Principal, op string, t target) (*nodeConn, error) {
	switch {
	case op == protocol.OpSessionCreate && t.Snapshot != "":
		return r.where(ctx, who, protocol.OpSnapshotGet, protocol.SnapshotRef{Snapshot: t.Snapshot})
	case op == protocol.OpSessionCreate && t.Template != "":
		return r.where(ctx, who, protocol.OpTemplateGet, protocol.TemplateRef{Name: t.Template})
	case op == protocol.OpTemplateBuild:
		// One that is there is replaced where it is.
		m, err := r.where(ctx, who, protocol.OpTemplateGet, protocol.TemplateRef{Name: t.Name})
		if err == nil || !fault.Is(err, fault.NotFound) {
			return m, err
		}
		return r.place(ctx, "")
	case t.Session != "":
		return r.of(ctx, who, t.Session)
	case op == protocol.OpSessionCreate && t.Language == "":
		t.Language = "python"
	}
	return r.place(ctx, t.Language)
}

// answer is one node's.
type answer struct {
	of  *nodeConn
	raw json.RawMessage
	err error
}

// ask asks all nodes at once. Behind their answers are those of lapsed nodes that
// give one: they may have their sessions still.
func (r *Router) ask(ctx context.Context, who noderpc.Principal, op string, params any) ([]answer, error) {
	all, err := r.all(ctx)
	if err != nil {
		return nil, err
	}
	good := len(all)
	for _, n := range r.placer.Lapsed() {
		if m, err := r.conn(n.ID, n.Address); err == nil && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	answers := make([]answer, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() {
			answers[i].of = m
			answers[i].err = m.client.Call(ctx, who, op, params, &answers[i].raw)
		})
	}
	wg.Wait()
	leased, lapsed := answers[:good], answers[good:]
	return append(leased, slices.DeleteFunc(lapsed, func(a answer) bool {
		r.unreached(a.of, a.err)
		return a.err != nil
	})...), nil
}

// merge makes one list of all nodes'. One that does not answer makes it
// unavailable: what is missing in a list counts as gone.
func merge[L, T any](ctx context.Context, r *Router, who noderpc.Principal, op string, items func(L) []T, order func(a, b T) int, list func([]T) any) (json.RawMessage, error) {
	answers, err := r.ask(ctx, who, op, struct{}{})
	if err != nil {
		return nil, err
	}
	all := []T{}
	for _, a := range answers {
		if a.err != nil {
			return nil, a.err
		}
		var l L
		if err := json.Unmarshal(a.raw, &l); err != nil {
			return nil, fault.Wrap(fault.Malformed, "noderouter.merge", err)
		}
		all = append(all, items(l)...)
	}
	slices.SortStableFunc(all, order)
	out, err := json.Marshal(list(all))
	return out, fault.Wrap(fault.Internal, "noderouter.merge", err)
}

// addUp makes one of each tenant's entries, which lie side by side: keys and
// quotas are the cluster's, and what it holds is held on several nodes.
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

// sessions lists those of all nodes, and those that none has.
func (r *Router) sessions(ctx context.Context, who noderpc.Principal) (json.RawMessage, error) {
	nodes, err := r.all(ctx)
	if err != nil {
		return nil, err
	}
	// Before the nodes' own, so that one which is adopted meanwhile is there
	// once or twice, but never not at all.
	var parked protocol.SessionList
	if err := nodes[0].client.Call(ctx, who, protocol.OpParked, struct{}{}, &parked); err != nil {
		return nil, err
	}
	return merge(ctx, r, who, protocol.OpSessionList, func(l protocol.SessionList) []protocol.Session { return l.Sessions },
		func(a, b protocol.Session) int { return cmp.Compare(b.CreatedMS, a.CreatedMS) },
		func(all []protocol.Session) any {
			// Of one that is there twice the first counts: a lapsed node may not
			// know yet that another has taken it over.
			there := map[string]bool{}
			all = slices.DeleteFunc(append(all, parked.Sessions...), func(s protocol.Session) bool {
				twice := there[s.ID]
				there[s.ID] = true
				return twice
			})
			slices.SortStableFunc(all, func(a, b protocol.Session) int { return cmp.Compare(b.CreatedMS, a.CreatedMS) })
			return protocol.SessionList{Sessions: all}
		})
}

// where returns the node that answers the question, and does not say that there
// is no such thing.
func (r *Router) where(ctx context.Context, who noderpc.Principal, op string, params any) (*nodeConn, error) {
	answers, err := r.ask(ctx, who, op, params)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.err == nil {
			return a.of, nil
		}
		if err == nil || !fault.Is(a.err, fault.NotFound) {
			err = a.err
		}
	}
	return nil, err
}

// wherever carries a request out on all nodes that know of what it names.
func (r *Router) wherever(ctx context.Context, who noderpc.Principal, op string, params any) (json.RawMessage, error) {
	answers, err := r.ask(ctx, who, op, params)
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	for _, a := range answers {
		switch {
		case a.err == nil:
			out = a.raw
		case err == nil || !fault.Is(a.err, fault.NotFound):
			err = a.err
		}
	}
	if out != nil && (err == nil || fault.Is(err, fault.NotFound)) {
		return out, nil
	}
	return nil, err
}

// status adds up what the nodes that answer say.
func (r *Router) status(ctx context.Context, who noderpc.Principal) (json.RawMessage, error) {
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
