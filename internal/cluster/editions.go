package cluster

import (
	"context"
	"slices"
)

// Editions are the editions that the nodes of a cluster keep, as their heartbeats report them. Without
// Nodes there are none.
type Editions struct {
	// Nodes lists the nodes.
	Nodes func(ctx context.Context) ([]Node, error)
	Self  NodeID
}

// Elsewhere reports whether a node other than Self has an edition that does not end there.
func (e Editions) Elsewhere(ctx context.Context, edition string) bool {
	if e.Nodes == nil {
		return false
	}
	all, err := e.Nodes(ctx)
	return err == nil && slices.ContainsFunc(all, func(n Node) bool {
		return n.ID != e.Self && n.keeps(edition)
	})
}

// Stays reports whether a node other than Self takes sessions, and whether one of those has an edition
// that does not end there. Nodes that are draining may soon be gone.
func (e Editions) Stays(ctx context.Context, edition string) (others, has bool, err error) {
	if e.Nodes == nil {
		return false, false, nil
	}
	all, err := e.Nodes(ctx)
	for _, n := range all {
		if n.ID == e.Self || n.Draining {
			continue
		}
		others = true
		has = has || n.keeps(edition)
	}
	return others, has, err
}

// keeps reports whether a node has an edition that does not end there.
func (n Node) keeps(edition string) bool {
	return n.Image == edition ||
		slices.Contains(n.Earlier, edition) && !slices.Contains(n.Ending, edition)
}

// All returns the editions that some node has.
func (e Editions) All(ctx context.Context) (map[string]bool, error) {
	known := map[string]bool{}
	if e.Nodes == nil {
		return known, nil
	}
	all, err := e.Nodes(ctx)
	for _, n := range all {
		known[n.Image] = true
		for _, one := range n.Earlier {
			known[one] = true
		}
	}
	return known, err
}
