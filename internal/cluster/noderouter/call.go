package noderouter

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Call sends one request to its target.
func (r *Router) Call(
	ctx context.Context, who noderpc.Principal, op string, params, result any,
) error {
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

func (r *Router) call(
	ctx context.Context, who noderpc.Principal, op string, params json.RawMessage,
) (out json.RawMessage, err error) {
	ctx, span := trace.Start(ctx, "relay")
	span.Set(trace.Operation, op)
	defer func() { span.End(err) }()
	row, err := r.operation(op)
	if err != nil {
		return nil, err
	}
	switch row.Target {
	case protocol.AllNodes:
		return merges()[op](r, ctx, who, params)
	case protocol.ResourceNode:
		switch op {
		case protocol.OpSnapshotGet:
			return snapshotRouter{r}.get(ctx, who, row, params)
		case protocol.OpSnapshotDel:
			return snapshotRouter{r}.remove(ctx, who, row, params)
		case protocol.OpTemplateGet:
			return templateRouter{r}.get(ctx, who, row, params)
		case protocol.OpTemplateDelete:
			return templateRouter{r}.remove(ctx, who, row, params)
		}
		out, err = r.callOwners(ctx, who, row, params)
		if fault.Is(err, fault.NotFound) && strings.HasPrefix(op, "volume.") {
			err = cmp.Or(volumeAway(ctx, r, who, decode[protocol.VolumeRef](params).Name), err)
		}
		return out, err
	case protocol.NamedNode:
		return r.callNamed(ctx, who, row, params)
	}
	if out, err = r.callNode(ctx, span, who, row, params); op == protocol.OpSessionOwner &&
		fault.Is(err, fault.NotFound) {
		// The directory forgets a session with its end. The node that had it does not.
		return r.callOwners(ctx, who, row, params)
	}
	return out, err
}

// callNode sends a request to the one node that carries it out.
func (r *Router) callNode(
	ctx context.Context, span *trace.Span, who noderpc.Principal, row protocol.Operation,
	params json.RawMessage,
) (out json.RawMessage, err error) {
	op := row.Name
	known := r.isKnown(ctx, who, row, params)
	n, err := r.node(ctx, who, row, params)
	if err != nil {
		return nil, err
	}
	span.Set(trace.Node, string(n.id))
	err = n.client.Call(ctx, who, op, params, &out)
	if nameTaken(err) && r.dropEnded(ctx, who, params) {
		err = n.client.Call(ctx, who, op, params, &out)
	}
	switch row.Target {
	case protocol.PlacedNode:
		// An earlier request with the key may have reached the node.
		if r.declined(n, err) && !known && r.unclaim(ctx, who, row, params, n.id) == nil {
			// The node has done nothing: another one may do it.
			if now, perr := r.node(ctx, who, row, params); perr == nil && now != n {
				err = now.client.Call(ctx, who, op, params, &out)
			}
		}
	case protocol.SessionNode:
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Unavailable) {
			return r.callMoved(ctx, who, op, params, n, out, err)
		}
	}
	return out, err
}

// callMoved repeats a request when its session is on another node than n: the event of
// the move may not have arrived yet. It also repeats it when n did not know the session and the
// directory says that n has it: n adopted the session meanwhile. Otherwise it returns the answer of
// n.
func (r *Router) callMoved(
	ctx context.Context, who noderpc.Principal, op string, params json.RawMessage,
	n *nodeConn, out json.RawMessage, err error,
) (json.RawMessage, error) {
	session := fieldsOf(params).Session
	if session == "" {
		return out, err
	}
	r.resolver.Drop(cluster.SessionID(session))
	now, ferr := r.owner(ctx, who, session)
	switch {
	case ferr == nil && (now != n || isUnknown(err)):
		err = now.client.Call(ctx, who, op, params, &out)
	case fault.Is(ferr, fault.SandboxLost):
		err = ferr // it has the reason
	}
	return out, err
}

// isUnknown reports whether an error says that the node does not have the session.
func isUnknown(err error) bool {
	return fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field == "session"
}

// operation returns the row of an operation.
func (r *Router) operation(op string) (protocol.Operation, error) {
	row, known := r.operations[op]
	if !known {
		return row, &fault.Error{
			Kind: fault.Unsupported, Op: "noderouter.call", Field: "op",
			Message: "there is no such operation",
		}
	}
	return row, nil
}

// choose chooses the one node that carries out a request. Operations for all nodes, or
// for all that have a resource, have no such node.
func (r *Router) choose(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) (*nodeConn, error) {
	switch row.Target {
	case protocol.AnyNode:
		return r.any(ctx)
	case protocol.SessionNode:
		return r.owner(ctx, who, fieldsOf(params).Session)
	case protocol.PlacedNode:
		return placements()[row.Name](ctx, r, who, params)
	case protocol.ChosenNode:
		return chosen(ctx, r, params)
	}
	return nil, fault.New(
		fault.Unsupported, "noderouter.call", "%s is not routed to a single node", row.Name,
	)
}

// fields are the parameters that name the target of a request.
type fields struct {
	Session string `json:"session"`
}

func fieldsOf(params json.RawMessage) fields {
	var f fields
	_ = json.Unmarshal(params, &f) // the node reports what is wrong
	return f
}
