package noderouter

import (
	"context"
	"encoding/json"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/report/join"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Each node answers for its own records. Any node answers for those of the nodes that have gone, which
// are in the blob store, if the cluster has one.

// askAll asks all nodes and decodes their answers. It fails when a node does not answer, because the
// sum would lack its part.
func askAll[R any](
	ctx context.Context, r *Router, who noderpc.Principal, op string, params any,
) ([]R, error) {
	answers, err := r.ask(ctx, who, op, params)
	if err != nil {
		return nil, err
	}
	var all []R
	for _, a := range answers {
		var one R
		if a.err == nil {
			a.err = json.Unmarshal(a.raw, &one)
		}
		if a.err != nil {
			return nil, a.err
		}
		all = append(all, one)
	}
	return all, nil
}

// askStored asks for the records in the blob store that no node has answered for. The nodes have
// answered first: a node that ends meanwhile is then not counted twice. folders are where these nodes
// store their records; without any, there is nothing to ask for.
func askStored[R any](
	ctx context.Context, r *Router, who noderpc.Principal, op string, q protocol.StoredRecords,
	folders []string,
) (all []R, err error) {
	for _, f := range folders {
		if f != "" {
			q.Except = append(q.Except, f)
		}
	}
	if len(q.Except) == 0 {
		return nil, nil
	}
	var stored R
	err = r.callAny(ctx, who, op, q, &stored)
	if fault.Is(err, fault.Unsupported) {
		return nil, nil // a node of an earlier version
	}
	return []R{stored}, err
}

// usage adds up the sums of all nodes.
func (r *Router) usage(ctx context.Context, who noderpc.Principal, params json.RawMessage) (
	json.RawMessage, error,
) {
	q := decode[protocol.UsageQuery](params)
	reports, err := askAll[protocol.UsageReport](ctx, r, who, protocol.OpUsageReport, q)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, one := range reports {
		folders = append(folders, one.Folder)
	}
	stored, err := askStored[protocol.UsageReport](ctx, r, who, protocol.OpUsageStored,
		protocol.StoredRecords{Usage: q}, folders)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(join.Usage(append(reports, stored...)...))
	return out, fault.Wrap(fault.Internal, protocol.OpUsageReport, err)
}

// audit merges the entries of all nodes by their time.
func (r *Router) audit(ctx context.Context, who noderpc.Principal, params json.RawMessage) (
	json.RawMessage, error,
) {
	q := decode[protocol.AuditQuery](params)
	pages, err := askAll[protocol.AuditPage](ctx, r, who, protocol.OpAuditList, q)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, one := range pages {
		folders = append(folders, one.Folder)
	}
	stored, err := askStored[protocol.AuditPage](ctx, r, who, protocol.OpAuditStored,
		protocol.StoredRecords{Audit: q}, folders)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(join.Audit(q.Limit, append(pages, stored...)...))
	return out, fault.Wrap(fault.Internal, protocol.OpAuditList, err)
}
