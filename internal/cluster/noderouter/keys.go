package noderouter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// keyOf returns the hash of a request's idempotency key with its scope; empty without one.
func keyOf(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) string {
	op, key := row.Name, noderpc.KeyOf(ctx, row.Name)
	if op == protocol.OpRepeatBegin {
		p := decode[protocol.RepeatBegin](params)
		if op, key = p.Operation, p.Key; p.Turn {
			return ""
		}
	} else if !row.Creates {
		return ""
	}
	if key == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", who.Subject, op, key))
	return hex.EncodeToString(sum[:16])
}

// node returns the one node that carries out a request. All requests with one idempotency key go to
// the node of the first one, because that node has the reply.
func (r *Router) node(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) (*nodeConn, error) {
	key := keyOf(ctx, who, row, params)
	if key == "" || r.keys == nil {
		return r.choose(ctx, who, row, params)
	}
	id, err := r.keys.ClaimKey(ctx, who.Tenant, key, "", "")
	if fault.Is(err, fault.Unavailable) && fieldsOf(params).Session != "" {
		// Sessions work without the directory. The session's node has the key, unless it has moved.
		return r.choose(ctx, who, row, params)
	}
	if err != nil {
		return nil, err
	}
	if id == "" {
		n, err := r.choose(ctx, who, row, params)
		if err != nil {
			return nil, err
		}
		if id, err = r.keys.ClaimKey(ctx, who.Tenant, key, n.id, ""); err != nil {
			return nil, err
		}
		if id == n.id {
			return n, nil
		}
	}
	nodes, err := r.placer.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.ID == id {
			return r.conn(n.ID, n.Address)
		}
	}
	return nil, &fault.Error{
		Kind: fault.Unavailable, Op: "noderouter.key", Field: "idempotency_key", RetryAfter: 5,
		Message: "the node that has the first request with this key is gone; repeat it when the " +
			"node is back, or look for what the request has created",
	}
}

// unclaim removes the node of a key that a request has claimed which did not reach the node.
func (r *Router) unclaim(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
	n cluster.NodeID,
) error {
	key := keyOf(ctx, who, row, params)
	if key == "" || r.keys == nil {
		return nil
	}
	_, err := r.keys.ClaimKey(ctx, who.Tenant, key, "", n)
	return err
}

// isKnown reports whether a request's key had a node before.
func (r *Router) isKnown(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) bool {
	key := keyOf(ctx, who, row, params)
	if key == "" || r.keys == nil {
		return false
	}
	id, err := r.keys.ClaimKey(ctx, who.Tenant, key, "", "")
	return err != nil || id != ""
}

// placeRepeat chooses the node that has the reply of an operation of the gateway: the node of its
// session, or else any.
func placeRepeat(
	ctx context.Context, r *Router, who noderpc.Principal, params json.RawMessage,
) (*nodeConn, error) {
	if id := decode[protocol.RepeatBegin](params).Session; id != "" {
		if n, err := r.owner(ctx, who, id); !fault.Is(err, fault.NotFound) {
			return n, err
		}
	}
	return r.any(ctx)
}
