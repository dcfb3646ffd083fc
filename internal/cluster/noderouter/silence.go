package noderouter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// probeEvery is how often a request reaches out to a node that has been silent for a lease.
const probeEvery = time.Second

// silence is the time for which a node could not be reached, although it may have a lease.
type silence struct {
	mu sync.Mutex // guards all below; leaf
	// began is when the node could not be reached for the first time, and tried when it could not be
	// reached for the last time; zero while it can.
	began, tried time.Time
	err          error
}

// hear records the result of a request to the node.
func (s *silence) hear(err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !isUnreached(err):
		s.began, s.tried, s.err = time.Time{}, time.Time{}, nil
	case s.began.IsZero():
		s.began, s.tried, s.err = now, now, err
	default:
		s.tried, s.err = now, err
	}
}

// lasts reports whether the node has been silent for a time.
func (s *silence) lasts(d time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.began.IsZero() && s.tried.Sub(s.began) >= d
}

// skip returns an error if the node has been silent for a time and was tried a short time ago.
// Otherwise the caller tries it, and other callers do not wait for the result.
func (s *silence) skip(d time.Duration, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() || s.tried.Sub(s.began) < d {
		return nil
	}
	if now.Sub(s.tried) < probeEvery {
		return s.err
	}
	s.tried = now
	return nil
}

// call sends a request to the node. A node that has been silent for a lease is tried once in
// probeEvery, so that not each request waits for it.
func (n *nodeConn) call(
	ctx context.Context, who noderpc.Principal, op string, params, result any,
) error {
	if err := n.silence.skip(n.lease, time.Now()); err != nil {
		return err
	}
	err := n.client.Call(ctx, who, op, params, result)
	n.silence.hear(err, time.Now())
	return err
}

// survey asks all nodes for their parts of a list. A node that does not answer makes the list
// unavailable, because a client would treat missing entries as deleted. The list names the nodes that
// have gone without leaving, those that are about to end, and those that have not been reached for a
// lease.
func survey(ctx context.Context, r *Router, who noderpc.Principal, op string, params any) (
	answers []answer, missing []string, err error,
) {
	all, err := r.all(ctx)
	if err != nil {
		return nil, nil, err
	}
	absent := r.placer.Absent()
	all = slices.DeleteFunc(all, func(n *nodeConn) bool { return slices.Contains(absent, n.id) })
	if len(all) == 0 {
		return nil, nil, cluster.NoneReached("noderouter.nodes")
	}
	answers = askNodes(ctx, r, who, all, op, params)
	if err = firstError(answers); err != nil {
		_, _ = r.placer.Refresh(ctx) // the node may have announced its end meanwhile
	}
	absent = append(absent, r.placer.Absent()...) // a node may come or go meanwhile
	now := time.Now()
	answers = slices.DeleteFunc(answers, func(a answer) bool {
		if !isUnreached(a.err) {
			return false
		}
		if a.of.silence.lasts(a.of.lease, now) {
			absent = append(absent, a.of.id)
		}
		return slices.Contains(absent, a.of.id)
	})
	if len(answers) > 0 {
		err = firstError(answers)
	}
	if err != nil {
		return nil, nil, err
	}
	return answers, missingOf(absent, answers), nil
}

// missingOf returns those of the nodes that did not answer.
func missingOf(absent []cluster.NodeID, answers []answer) (all []string) {
	for _, id := range absent {
		if !slices.Contains(all, string(id)) &&
			!slices.ContainsFunc(answers, func(a answer) bool { return a.of.id == id }) {
			all = append(all, string(id))
		}
	}
	return all
}

// isUnreached reports whether a request did not reach its node.
func isUnreached(err error) bool {
	var known *fault.Error
	return errors.As(err, &known) && known.Op == "node.connect"
}
