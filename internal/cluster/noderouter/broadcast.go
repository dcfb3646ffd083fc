package noderouter

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// answer is the answer of one node.
type answer struct {
	of  *nodeConn
	raw json.RawMessage
	err error
}

// ask sends a request to all nodes at once. After their answers come those of lapsed
// nodes that give one: they may still have their sessions.
func (r *Router) ask(
	ctx context.Context, who noderpc.Principal, op string, params any,
) ([]answer, error) {
	all, err := r.all(ctx)
	if err != nil {
		return nil, err
	}
	return askNodes(ctx, r, who, all, op, params), nil
}

// askNodes sends a request to some nodes with a lease, as ask does.
func askNodes(
	ctx context.Context, r *Router, who noderpc.Principal, all []*nodeConn, op string, params any,
) []answer {
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
			answers[i].err = m.call(ctx, who, op, params, &answers[i].raw)
		})
	}
	wg.Wait()
	leased, lapsed := answers[:good], answers[good:]
	return append(leased, slices.DeleteFunc(lapsed, func(a answer) bool {
		r.declined(a.of, a.err)
		return a.err != nil
	})...)
}

// callAny sends a request to one node that can be reached. The nodes take turns.
func (r *Router) callAny(
	ctx context.Context, who noderpc.Principal, op string, params, result any,
) error {
	all, err := r.all(ctx)
	if err != nil {
		return err
	}
	for _, i := range rand.Perm(len(all)) {
		err = all[i].client.Call(ctx, who, op, params, result)
		if !r.declined(all[i], err) {
			break
		}
	}
	return err
}

// owners returns the nodes that answer a request without NotFound, with their answers.
// Without any it returns the error of a node that may have the resource, or else
// NotFound.
func (r *Router) owners(
	ctx context.Context, who noderpc.Principal, op string, params any,
) (owners []answer, err error) {
	answers, err := r.ask(ctx, who, op, params)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		switch {
		case a.err == nil:
			owners = append(owners, a)
		case err == nil || !fault.Is(a.err, fault.NotFound):
			err = a.err
		}
	}
	return owners, err
}

// callOwners sends a request to all nodes that have a resource.
func (r *Router) callOwners(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) (json.RawMessage, error) {
	owners, err := r.owners(ctx, who, row.Name, params)
	if len(owners) == 0 {
		return nil, err
	}
	if err != nil && !fault.Is(err, fault.NotFound) && deletes(row) {
		return nil, err // that node may have the resource too
	}
	return owners[len(owners)-1].raw, nil
}

// deletes reports whether an operation deletes a resource. It has to reach all nodes
// that have it.
func deletes(row protocol.Operation) bool {
	return slices.ContainsFunc(row.REST, func(r protocol.Route) bool {
		return r.Method == http.MethodDelete
	})
}
