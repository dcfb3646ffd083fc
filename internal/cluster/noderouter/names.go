package noderouter

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Names is the registry of the names of sessions: see cluster.NameRegistry.
type Names interface {
	FindName(ctx context.Context, tenant, name string) (cluster.NameOwner, error)
	DropName(ctx context.Context, tenant, name string, id cluster.SessionID) error
}

const (
	// namePause is the time between two looks at a session that is being created or deleted. It
	// grows up to maxNamePause.
	namePause, maxNamePause = 20 * time.Millisecond, 500 * time.Millisecond
	// moveWait is how long a request waits for a session that moves to another node.
	moveWait = 10 * time.Second
	// nameLimit bounds the work for a name, with the creation of its session.
	nameLimit = protocol.SlowLimit
)

// nameTaken reports whether an error says that another session has the name.
func nameTaken(err error) bool {
	return fault.Is(err, fault.Conflict) && fault.PublicOf(err).Field == "name"
}

// callNamed carries out an operation on the session with a name. For session.ensure, a node creates
// the session if there is none. When several gateways ask nodes to create it, the directory gives
// the name to one of the sessions, and the others return that session.
func (r *Router) callNamed(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, nameLimit)
	defer cancel()
	name := decode[protocol.SessionName](params).Name
	if name == "" {
		return nil, fault.Invalid(row.Name, "name", "there is no name")
	}
	begin := time.Now()
	for pause := namePause; ; pause = min(2*pause, maxNamePause) {
		id, err := r.holder(ctx, who, name)
		switch {
		case err != nil:
			return nil, err
		case id == "" && row.Name != protocol.OpSessionEnsure:
			return nil, cluster.NoSession(row.Name)
		case id == "":
			out, err := r.createNamed(ctx, who, row, params)
			if !nameTaken(err) {
				return out, err
			}
		default:
			out, ended, err := r.inspect(ctx, who, name, id)
			moves := fault.Is(err, fault.Unavailable) && time.Since(begin) < moveWait
			if err == nil && !ended || err != nil && !moves && !fault.Is(err, fault.NotFound) {
				return out, err
			}
			if fault.Is(err, fault.NotFound) && row.Name != protocol.OpSessionEnsure {
				return nil, err
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fault.Wrap(fault.KindOf(ctx.Err()), row.Name, ctx.Err())
		}
	}
}

// holder returns the session that has a name; empty for none. While the directory may have lost
// names, it also asks the nodes and the blob store.
func (r *Router) holder(ctx context.Context, who noderpc.Principal, name string) (string, error) {
	if r.names != nil {
		o, err := r.names.FindName(ctx, who.Tenant, name)
		if err != nil || o.Session != "" || !o.Young {
			return string(o.Session), err
		}
	}
	query, err := json.Marshal(protocol.SessionQuery{Name: name, Limit: protocol.MaxList})
	if err != nil {
		return "", fault.Wrap(fault.Internal, "noderouter.name", err)
	}
	out, err := r.sessions(ctx, who, query)
	if err != nil {
		return "", err
	}
	for _, s := range decode[protocol.SessionList](out).Sessions {
		if s.State != "lost" {
			return s.ID, nil
		}
	}
	return "", nil
}

// inspect returns the session that has a name, and whether it has ended. The name of a session that
// has ended is free then. Errors: NotFound also for a session that is being created or deleted.
func (r *Router) inspect(ctx context.Context, who noderpc.Principal, name, id string) (
	out json.RawMessage, ended bool, err error,
) {
	ref, err := json.Marshal(protocol.SessionRef{Session: id})
	if err != nil {
		return nil, false, fault.Wrap(fault.Internal, "noderouter.name", err)
	}
	out, err = r.call(ctx, who, protocol.OpSessionGet, ref)
	lost := err == nil && decode[protocol.Session](out).State == "lost"
	if !lost && !fault.Is(err, fault.SandboxLost) {
		return out, false, err
	}
	if r.names != nil {
		err = r.names.DropName(ctx, who.Tenant, name, cluster.SessionID(id))
	} else {
		err = nil
	}
	return nil, true, err
}

// dropEnded frees the name of a request if the session that has it has ended with its node.
func (r *Router) dropEnded(
	ctx context.Context, who noderpc.Principal, params json.RawMessage,
) bool {
	name := decode[protocol.SessionName](params).Name
	if r.names == nil || name == "" {
		return false
	}
	o, err := r.names.FindName(ctx, who.Tenant, name)
	if err != nil || o.Session == "" {
		return false
	}
	_, ended, err := r.inspect(ctx, who, name, string(o.Session))
	return ended && err == nil
}

// createNamed makes a node create a session with a name, unless that node has it already.
func (r *Router) createNamed(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) (out json.RawMessage, err error) {
	n, err := placeSession(ctx, r, who, params)
	if err != nil {
		return nil, err
	}
	err = n.client.Call(ctx, who, row.Name, params, &out)
	if r.declined(n, err) {
		// The node has done nothing: another one may do it.
		if now, perr := placeSession(ctx, r, who, params); perr == nil && now != n {
			err = now.client.Call(ctx, who, row.Name, params, &out)
		}
	}
	return out, err
}
