package noderouter

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Snapshots are in the blob store, if the cluster has one, and on nodes: on the node that has taken
// them, and on those that have fetched them. A node answers for those that it has. Any node answers
// for those in the blob store.

// snapshotRouter sends requests about snapshots to nodes.
type snapshotRouter struct{ *Router }

// stateStored is the state of a snapshot that each node can use.
const stateStored = "stored"

// stored lists the snapshots in the blob store: all of the tenant, or the one that ref names.
func (r snapshotRouter) stored(
	ctx context.Context, who noderpc.Principal, ref protocol.SnapshotRef,
) ([]protocol.Snapshot, error) {
	var l protocol.SnapshotList
	err := r.callAny(ctx, who, protocol.OpSnapshotStored, ref, &l)
	if fault.Is(err, fault.Unsupported) {
		return []protocol.Snapshot{}, nil // a node of an earlier version
	}
	return l.Snapshots, err
}

// listSnapshots implements mergeFunc.
func listSnapshots(
	r *Router, ctx context.Context, who noderpc.Principal, _ json.RawMessage,
) (json.RawMessage, error) {
	return snapshotRouter{r}.list(ctx, who)
}

// list lists the snapshots of all nodes and those in the blob store. The nodes answer first: a
// snapshot that is stored meanwhile is then found twice, but is never missing.
func (r snapshotRouter) list(ctx context.Context, who noderpc.Principal) (json.RawMessage, error) {
	answers, missing, err := survey(ctx, r.Router, who, protocol.OpSnapshotList, struct{}{})
	if err != nil {
		return nil, err
	}
	all, err := r.stored(ctx, who, protocol.SnapshotRef{})
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		for _, s := range decode[protocol.SnapshotList](a.raw).Snapshots {
			same := func(other protocol.Snapshot) bool { return other.ID == s.ID }
			// A stored one that is not in the store was deleted.
			if s.State != stateStored && !slices.ContainsFunc(all, same) {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b protocol.Snapshot) int {
		return cmp.Compare(b.CreatedMS, a.CreatedMS)
	})
	out, err := json.Marshal(protocol.SnapshotList{Snapshots: all, Missing: missing})
	return out, fault.Wrap(fault.Internal, "noderouter.snapshots", err)
}

// get returns a snapshot that a node or the blob store has.
func (r snapshotRouter) get(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) (json.RawMessage, error) {
	out, err := r.callOwners(ctx, who, row, params)
	if err == nil {
		return out, nil
	}
	found, serr := r.stored(ctx, who, decode[protocol.SnapshotRef](params))
	switch {
	case serr != nil:
		return nil, serr
	case len(found) == 0:
		return nil, err
	}
	out, err = json.Marshal(found[0])
	return out, fault.Wrap(fault.Internal, "noderouter.snapshot", err)
}

// remove deletes a snapshot on all nodes and in the blob store. A node that does not answer
// removes its copy later.
func (r snapshotRouter) remove(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) (json.RawMessage, error) {
	owners, err := r.owners(ctx, who, row.Name, params)
	if len(owners) > 0 && (err == nil || fault.Is(err, fault.NotFound)) {
		return owners[0].raw, nil
	}
	var out json.RawMessage
	derr := r.callAny(ctx, who, protocol.OpSnapshotDiscard,
		decode[protocol.SnapshotRef](params), &out)
	switch {
	case fault.Is(derr, fault.NotFound) && len(owners) > 0:
		return owners[0].raw, nil
	case fault.Is(derr, fault.NotFound), fault.Is(derr, fault.Unsupported):
		return nil, err
	}
	return out, derr
}

// nodeFor chooses the node of a session that starts from a snapshot: the one that has it, while
// only that one does, or else the one that the placement chooses.
func (r snapshotRouter) nodeFor(
	ctx context.Context, who noderpc.Principal, ref protocol.SnapshotRef, need cluster.Need,
) (*nodeConn, error) {
	owners, err := r.owners(ctx, who, protocol.OpSnapshotGet, ref)
	var found []protocol.Snapshot
	var have []cluster.NodeID
	for _, o := range owners {
		s := decode[protocol.Snapshot](o.raw)
		if s.State != stateStored {
			return o.of, nil
		}
		found, have = append(found, s), append(have, o.of.id)
	}
	if len(found) == 0 {
		var serr error
		if found, serr = r.stored(ctx, who, ref); serr != nil {
			return nil, serr
		}
	}
	if len(found) == 0 {
		return nil, err
	}
	need.Language, need.Near, need.Image = found[0].Language, have, found[0].Edition
	return r.place(ctx, need)
}
